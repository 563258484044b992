"""The image data of a client, a share of a data set or its own folder, and the global test set."""

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
from curvfed.tasks.images.label_partition import (
    PARTITIONS,
    USERS,
    Integers,
    PartitionSpec,
    partition_images,
    partition_users,
)
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
"""Random streams of the seed for the splits of the clients and for the subsets."""

log = logging.getLogger("curvfed")

USER_MEAN = (0.5,)
USER_STD = (0.25,)
"""The normalisation of images without a named data set."""


@dataclass(frozen=True)
class ImageSpec:
    """The settings that determine the images of a run.

    Attributes
    ----------
    dataset : str
        A name in `curvfed.tasks.images.sources.SOURCES`, in any case, or the path of a folder in
        one of the `curvfed.tasks.images.layout.LAYOUTS`; without a test part, a fifth of each class
        is the global test set.
    data_dir : Path
        The folder of the public data sets, in torchvision's layout.
    partition : PartitionSpec
        How training images are partitioned among the clients.
    seed : int
        Seed of partition, split and subsets; at least 0.
    train_size, test_size : float
        Shares of each client's images, at least 0 and together at most 1; validation takes the
        remainder.
    size : int
        Height and width of the resized images; 0: unchanged, all of one size.
    channels : int
        1, grey, 3, colour, or 0: as in the data set; in a folder colour if any image is.
    train_subset, test_subset : int
        Numbers of training and of test images, drawn at random; 0: all.
    """

    dataset: str
    data_dir: Path
    partition: PartitionSpec = field(default_factory=PartitionSpec)
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
        """The named data set, or None for a path."""
        return source_of(self.dataset)


def load_client(
    spec: ImageSpec, partition_id: int, num_partitions: int, cache_dir: Path
) -> ClientImages:
    """The data of client `partition_id` of `num_partitions`: its share of the training images,
    split at random.

    The first call prepares all clients and stores them below `cache_dir`; later calls read one
    file. With `min_client_size` 0 a client may have no images; every other client has at least one
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

    def prepare() -> Iterator[ClientImages]:
        return _partition(located.read(), spec, num_partitions)

    return prepared.load(ClientImages, folder, partition_id, prepare)


def load_own(path: Path, spec: ImageSpec, cache_dir: Path | None = None) -> ClientImages:
    """A node's own folder, split by its own parts if it has a test part, else at random.

    Normalisation and augmentation are those of `spec.dataset`, so that nodes and server agree. A
    real node starts a process per message: with a `cache_dir` the prepared images are stored there
    (readable only for its user), and later calls read them.

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
    """A node's own images as one client, split by their roles, or at random without roles."""
    numbers = np.arange(len(raw.labels))
    masks = _split(len(numbers), spec, 0) if raw.roles is None else masks_of(raw.roles)
    return _images(raw, numbers, raw.read(numbers, spec.size, spec.channels), masks, spec)


def load_test(spec: ImageSpec, cache_dir: Path) -> ClientImages:
    """The data set's global test set, with all images marked as test; stored below `cache_dir` like
    a client.

    Raises
    ------
    DataError
        Absent or unfit data, no test images, or fewer than `test_subset`.
    """
    located = locate(spec.dataset, spec.data_dir)
    return _load_test(located, spec, _channels(spec), cache_dir, uses_all=False)


def load_test_folder(path: Path, spec: ImageSpec, cache_dir: Path) -> ClientImages:
    """A folder as the global test set: its test part, or all of it without one; normalised as
    `spec.dataset`.

    Raises
    ------
    DataError
        See `load_own`; fewer images than `test_subset`.
    """
    return _load_test(locate_folder(path), spec, spec.channels, cache_dir, uses_all=True)


def _load_test(
    located: Located[RawImages], spec: ImageSpec, channels: int, cache_dir: Path, uses_all: bool
) -> ClientImages:
    """Data without a test part: `uses_all` makes all images the test set; otherwise a share of them
    is held out."""
    settings = {
        "dataset": spec.dataset,
        "size": spec.size,
        "test_subset": spec.test_subset,
        "test": 1,
        "whole": uses_all,
        "channels": channels,
        "seed": spec.seed if spec.test_subset else 0,
    }

    def prepare() -> list[ClientImages]:
        raw = located.read()
        roles = raw.with_test()
        if uses_all and raw.roles is None:
            roles = np.full(len(raw.labels), TEST)
        numbers = np.flatnonzero(roles == TEST)
        if not len(numbers):
            raise DataError(
                f"{spec.dataset} has no test images, and too few others to hold some out",
                key="no-test-images",
            )
        rng = np.random.default_rng([spec.seed, TEST_STREAM])
        numbers = _subset(numbers, spec.test_subset, "test", rng)
        masks = masks_of(np.full(len(numbers), TEST))
        return [_images(raw, numbers, raw.read(numbers, spec.size, channels), masks, spec)]

    return prepared.load(ClientImages, _folder(cache_dir, settings, located), 0, prepare)


def _folder(cache_dir: Path, settings: dict[str, Any], located: Located[RawImages]) -> Path:
    """The folder of the prepared images for these settings and files."""
    settings = settings | {"dataset": settings["dataset"].lower(), "images": located.digest}
    return cache_dir / prepared.cache_key(settings, located.files)


def _channels(spec: ImageSpec) -> int:
    if spec.channels or spec.source is None:
        return spec.channels
    return spec.source.channels


def _partition(raw: RawImages, spec: ImageSpec, num_partitions: int) -> Iterator[ClientImages]:
    """The clients' shares, one at a time, as together they take as much memory as the data set."""
    numbers = np.flatnonzero(raw.with_test() == TRAIN)
    if not len(numbers):
        raise DataError(f"{spec.dataset} has no training images", key="no-training-images")
    rng = np.random.default_rng([spec.seed, TRAIN_STREAM])
    numbers = _subset(numbers, spec.train_subset, "train", rng)
    if spec.partition.partition == USERS:
        yield from _partition_by_user(raw, numbers, spec, num_partitions)
        return
    shares = partition_images(raw.labels[numbers], num_partitions, spec.partition, spec.seed)
    pixels = raw.read(numbers, spec.size, _channels(spec))
    owners = np.full(len(raw.labels), -1)
    for client, share in enumerate(shares):
        owners[numbers[share]] = client
    digest = membership_digest(owners)
    for client, share in enumerate(shares):
        masks = _split(len(share), spec, client)
        yield _images(raw, numbers[share], pixels[torch.from_numpy(share)], masks, spec, digest)


def _partition_by_user(
    raw: RawImages, train: Integers, spec: ImageSpec, num_partitions: int
) -> Iterator[ClientImages]:
    """The clients' shares by user.

    If users have test images beside training images, these are the clients' parts, as in the data;
    otherwise each client's images are split at random.
    """
    if raw.users is None:
        raise DataError(
            f'partition is "{USERS}", and the images of {spec.dataset} do not belong to users;'
            f" allowed are {', '.join(PARTITIONS)}",
            key="partition",
        )
    owners = np.full(len(raw.labels), -1)
    owners[train] = partition_users(raw.users[train], num_partitions)
    has_parts = False
    if raw.roles is not None:
        owner_of_user = np.full(raw.users.max() + 1, -1)
        owner_of_user[raw.users[train]] = owners[train]
        others = raw.roles != TRAIN
        owners[others] = owner_of_user[raw.users[others]]
        has_parts = bool((owners[raw.roles == TEST] >= 0).any())
    if not has_parts:
        owners[raw.with_test() != TRAIN] = -1
    digest = membership_digest(owners)
    numbers = np.flatnonzero(owners >= 0)
    pixels = raw.read(numbers, spec.size, _channels(spec))
    for client in range(num_partitions):
        is_share = owners[numbers] == client
        share = numbers[is_share]
        masks = _split(len(share), spec, client)
        if has_parts and raw.roles is not None:
            masks = masks_of(raw.roles[share])
        yield _images(raw, share, pixels[torch.from_numpy(is_share)], masks, spec, digest)


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
        images=pixels,
        labels=torch.from_numpy(raw.labels[indices]),
        masks=torch.from_numpy(masks),
        class_names=raw.class_names,
        mean=source.mean if source else USER_MEAN,
        std=source.std if source else USER_STD,
        augments=source is not None and source.augments,
        partition_digest=partition_digest,
    )


def _subset(numbers: Integers, size: int, role: str, rng: np.random.Generator) -> Integers:
    if size > len(numbers):
        raise DataError(
            f"images.{role}-subset is {size}; there are {len(numbers)} {role} images, and 0 takes"
            " all",
            key="subset",
        )
    return np.sort(rng.choice(numbers, size, replace=False)) if size else numbers


def _split(num_images: int, spec: ImageSpec, client: int) -> Booleans:
    rng = np.random.default_rng([spec.seed, SPLIT_STREAM, client])
    train_size = spec.train_size
    # A client with few images trains on at least one.
    if num_images and train_size:
        train_size = max(train_size, 1 / num_images)
    return random_split(num_images, train_size, spec.test_size, rng)
