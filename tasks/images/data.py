"""The image data of one client, its share of a data set or its own folder, and the global test
set.
"""

import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks import prepared
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.partition import (
    Booleans,
    check_shares,
    masks_of,
    membership_digest,
    random_split,
)
from curvfed.tasks.images.client_images import ClientImages, client_images
from curvfed.tasks.images.datasets import locate, locate_folder
from curvfed.tasks.images.label_partition import Deal, Integers, deal_out
from curvfed.tasks.images.layout import TEST, TRAIN, is_image_folder
from curvfed.tasks.images.raw import RawImages
from curvfed.tasks.images.sources import Source, source_of
from curvfed.tasks.public_data import Located

__all__ = [
    "ClientImages",
    "ImageSpec",
    "is_image_folder",
    "load_client",
    "load_own",
    "load_test",
    "load_test_folder",
]

SPLIT_STREAM = 6
TRAIN_STREAM = 7
TEST_STREAM = 8
"""Random streams of the seed: for the splits of the clients, and for the subsets."""

log = logging.getLogger("curvfed")

USER_MEAN = (0.5,)
USER_STD = (0.25,)
"""The normalisation of images that belong to no named data set."""


@dataclass(frozen=True)
class ImageSpec:
    """The settings that determine the images of a run.

    Attributes
    ----------
    dataset : str
        A name in `curvfed.tasks.images.sources.SOURCES`, in any case, or the path of a folder as in
        `curvfed.tasks.images.folder.LAYOUTS`; without a test part, a fifth of every class is the
        global test set.
    data_dir : Path
        The folder of the public data sets, in torchvision's layout.
    deal : Deal
        How training images are dealt out to the clients.
    seed : int
        Of partition, split and subsets; at least 0.
    train_size, test_size : float
        Shares of every client's images, at least 0 and together at most 1; validation takes the
        rest.
    size : int
        Height and width that images are resized to; 0: as they are, all of one size.
    channels : int
        1, grey, 3, colour, or 0: as in the data set; in a folder colour if any image is.
    train_subset, test_subset : int
        How many of the training and of the test images, drawn at random, are used; 0: all.
    """

    dataset: str
    data_dir: Path
    deal: Deal = field(default_factory=Deal)
    seed: int = 0
    train_size: float = 0.75
    test_size: float = 0.25
    size: int = 0
    channels: int = 0
    train_subset: int = 0
    test_subset: int = 0

    def __post_init__(self) -> None:
        check_shares(self.train_size, self.test_size)

    @property
    def source(self) -> Source | None:
        """The named data set; None for a path."""
        return source_of(self.dataset)


def load_client(
    spec: ImageSpec, partition_id: int, num_partitions: int, cache_dir: Path
) -> ClientImages:
    """The data of client `partition_id` of `num_partitions`: its share of the training images,
    split at random.

    The first call prepares every client and keeps them below `cache_dir`; later ones read one file.
    A client may have no images where `min_client_size` is 0; every other client has at least one
    training image.

    Raises
    ------
    DataError
        Absent or unfit data, too few images, or a `partition_id` out of range.
    """
    prepared.check_partition(partition_id, num_partitions)
    located = locate(spec.dataset, spec.data_dir)
    settings = asdict(spec) | {"data_dir": "", "test_subset": 0, "num_partitions": num_partitions}
    folder = _folder(cache_dir, settings, located)
    return prepared.load(
        ClientImages, folder, partition_id, lambda: _parts(located.read(), spec, num_partitions)
    )


def load_own(path: Path, spec: ImageSpec, cache_dir: Path | None = None) -> ClientImages:
    """A node's own folder, whole: split by its own parts where it has a test part, else at random.

    Normalised and augmented as `spec.dataset` is, so that nodes and server agree. A real node
    starts a process per message: with a `cache_dir` the prepared images are kept there (for its
    user alone), and later calls read them.

    Raises
    ------
    DataError
        See `curvfed.tasks.images.folder.read_folder`.
    """
    located = locate_folder(path)
    if cache_dir is None:
        return own_data(located.read(), spec)
    names = ("dataset", "size", "channels", "seed", "train_size", "test_size")
    folder = _folder(cache_dir, {"own": 1} | {name: getattr(spec, name) for name in names}, located)

    def prepare() -> list[ClientImages]:
        for note in located.notes:
            log.warning("%s", note)
        return [own_data(located.read(), spec)]

    return prepared.load(ClientImages, folder, 0, prepare)


def own_data(raw: RawImages, spec: ImageSpec) -> ClientImages:
    """A node's own images, whole: split by their roles where they have any, else at random."""
    everything = np.arange(len(raw.labels))
    masks = _split(len(everything), spec, 0) if raw.roles is None else masks_of(raw.roles)
    return _images(raw, everything, raw.read(everything, spec.size, spec.channels), masks, spec)


def load_test(spec: ImageSpec, cache_dir: Path) -> ClientImages:
    """The data set's global test set, all of it marked as test; kept below `cache_dir` like a
    client.

    Raises
    ------
    DataError
        Absent or unfit data, no test images, or fewer than `test_subset`.
    """
    return _load_test(
        locate(spec.dataset, spec.data_dir), spec, _channels(spec), cache_dir, whole=False
    )


def load_test_folder(path: Path, spec: ImageSpec, cache_dir: Path) -> ClientImages:
    """A folder as the global test set: its test part where it has one, else all of it; normalised
    as `spec.dataset` is.

    Raises
    ------
    DataError
        See `load_own`; fewer images than `test_subset`.
    """
    return _load_test(locate_folder(path), spec, spec.channels, cache_dir, whole=True)


def _load_test(
    located: Located[RawImages], spec: ImageSpec, channels: int, cache_dir: Path, whole: bool
) -> ClientImages:
    """`whole`: data without a test part are the test set; else some of them are held out for it."""
    settings = {
        "dataset": spec.dataset,
        "size": spec.size,
        "test_subset": spec.test_subset,
        "test": 1,
        "whole": whole,
    }
    drawn = {"channels": channels, "seed": spec.seed if spec.test_subset else 0}

    def prepare() -> list[ClientImages]:
        raw = located.read()
        roles = np.full(len(raw.labels), TEST) if whole and raw.roles is None else raw.with_test()
        chosen = np.flatnonzero(roles == TEST)
        if not len(chosen):
            raise DataError(
                f"{spec.dataset} has no test images, and too few others to hold some out"
            )
        chosen = _subset(
            chosen, spec.test_subset, "test", np.random.default_rng([spec.seed, TEST_STREAM])
        )
        masks = masks_of(np.full(len(chosen), TEST))
        return [_images(raw, chosen, raw.read(chosen, spec.size, channels), masks, spec)]

    return prepared.load(ClientImages, _folder(cache_dir, settings | drawn, located), 0, prepare)


def _folder(cache_dir: Path, settings: dict[str, Any], located: Located[RawImages]) -> Path:
    """Where the prepared images of these settings and files are kept."""
    settings = settings | {"dataset": settings["dataset"].lower(), "images": located.digest}
    return cache_dir / prepared.cache_key(settings, located.files)


def _channels(spec: ImageSpec) -> int:
    return spec.channels or (spec.source.channels if spec.source else 0)


def _parts(raw: RawImages, spec: ImageSpec, num_partitions: int) -> Iterator[ClientImages]:
    """Every client's share, one after the other: together they take as much memory as the data
    set.
    """
    chosen = np.flatnonzero(raw.with_test() == TRAIN)
    if not len(chosen):
        raise DataError(f"{spec.dataset} has no training images")
    chosen = _subset(
        chosen, spec.train_subset, "train", np.random.default_rng([spec.seed, TRAIN_STREAM])
    )
    shares = deal_out(raw.labels[chosen], num_partitions, spec.deal, spec.seed)
    pixels = raw.read(chosen, spec.size, _channels(spec))
    owners = np.full(len(raw.labels), -1)
    for number, share in enumerate(shares):
        owners[chosen[share]] = number
    digest = membership_digest(owners)
    for number, share in enumerate(shares):
        masks = _split(len(share), spec, number)
        yield _images(raw, chosen[share], pixels[torch.from_numpy(share)], masks, spec, digest)


def _images(
    raw: RawImages,
    indices: Integers,
    pixels: Tensor,
    masks: Booleans,
    spec: ImageSpec,
    partition_digest: str = "",
) -> ClientImages:
    source = spec.source
    return client_images(
        pixels,
        torch.from_numpy(raw.labels[indices]),
        torch.from_numpy(masks),
        raw.class_names,
        mean=source.mean if source else USER_MEAN,
        std=source.std if source else USER_STD,
        augments=source is not None and source.augments,
        partition_digest=partition_digest,
    )


def _subset(chosen: Integers, size: int, part: str, rng: np.random.Generator) -> Integers:
    if size > len(chosen):
        raise DataError(
            f"images.{part}-subset is {size}; there are {len(chosen)} {part} images, and 0"
            " takes all"
        )
    return np.sort(rng.choice(chosen, size, replace=False)) if size else chosen


def _split(num_images: int, spec: ImageSpec, client: int) -> Booleans:
    rng = np.random.default_rng([spec.seed, SPLIT_STREAM, client])
    # A client of few images trains on one at least.
    train_size = (
        max(spec.train_size, 1 / num_images) if num_images and spec.train_size else spec.train_size
    )
    return random_split(num_images, train_size, spec.test_size, rng)
