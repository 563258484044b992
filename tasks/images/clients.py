"""The clients' shares of the images and the global test set, and the settings that determine
them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from curvfed.geometry.arrays import Booleans, Integers
from curvfed.tasks.class_names import check_trained
from curvfed.tasks.dataset import Spec
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.partition import (
    masks_of,
    membership_digest,
    random_split,
)
from curvfed.tasks.images.client_images import ClientImages, client_images
from curvfed.tasks.images.encoder import encoded
from curvfed.tasks.images.label_partition import (
    PARTITIONS,
    USERS,
    PartitionSpec,
    partition_images,
    partition_users,
)
from curvfed.tasks.images.layout import TEST, TRAIN
from curvfed.tasks.images.raw import RawImages
from curvfed.tasks.record_split import RecordSplit
from curvfed.tasks.registry import source_of
from curvfed.tasks.sources import Source

USER_MEAN = (0.5,)
USER_STD = (0.25,)
"""The normalisation of images without a named data set."""


@dataclass(frozen=True)
class ImageSpec(Spec):
    """The settings of images.

    Attributes
    ----------
    partition : PartitionSpec
        How training images are partitioned among the clients.
    seed : int
        Seed of partition, split and subsets; at least 0.
    train_size, test_size : float
        Shares of each client's images, at least 0 and together at most 1; validation takes the
        remainder.
    size : int
        Height and width of the resized images; 0: unchanged, all of one size.
    encoder : str
        The frozen network that makes features of the images; "" for pixels.
    channels : int
        1, grey, 3, colour, or 0: as in the data set; in a folder colour if any image is.
    bits : int
        The bits of white in files with 16 bits per channel, 8 to 16; 0: by the highest value in all
        files of the data.
    train_subset, test_subset : int
        Numbers of training and of test images, drawn at random; 0: all.
    pooled : bool
        Whether the data set's test images are shared out with the training images, without a global
        test set.
    classes_at : int
        The level of the folders of classes below a user's folder, from 1; 0: by their names and
        contents.
    """

    partition: PartitionSpec = field(default_factory=PartitionSpec)
    seed: int = 0
    train_size: float = 0.75
    test_size: float = 0.25
    size: int = 0
    encoder: str = ""
    channels: int = 0
    bits: int = 0
    train_subset: int = 0
    test_subset: int = 0
    pooled: bool = False
    classes_at: int = 0

    @property
    def source(self) -> Source | None:
        """The named data set of images; None for a path, and for other data."""
        source = source_of(self.dataset)
        return source if isinstance(source, Source) else None

    @property
    def mean(self) -> tuple[float, ...]:
        """The mean of the pixels, scaled to [0, 1], per channel."""
        return self.source.mean if self.source else USER_MEAN

    @property
    def std(self) -> tuple[float, ...]:
        """Their standard deviation."""
        return self.source.std if self.source else USER_STD

    @property
    def all_channels(self) -> int:
        """The channels of the images; 0 if they differ between files."""
        return self.channels or (self.source.channels if self.source else 0)


SPLIT_STREAM = 6
TRAIN_STREAM = 7
TEST_STREAM = 8
"""Random streams of the seed for the splits of the clients and for the subsets."""


def read_inputs(raw: RawImages, numbers: Integers, spec: ImageSpec, channels: int) -> Tensor:
    """The images of these numbers as a run takes them: pixels (n, c, h, w), uint8, or the features
    (n, d, 1, 1), float32, of its frozen network, for which a batch of pixels at a time is read."""
    if not spec.encoder:
        return raw.read(numbers, spec.size, channels)

    def read(start: int, end: int) -> Tensor:
        return raw.read(numbers[start:end], spec.size, channels)

    return encoded(spec.encoder, len(numbers), read)


def own_images(
    raw: RawImages, spec: ImageSpec, record_split: RecordSplit | None = None
) -> ClientImages:
    """A node's own images, split by their roles, or without roles as `share_images` does.

    Raises
    ------
    DataError
        If images are missing, or a run that pools training and test images would train on the
        node's test images.
    """
    if spec.pooled and raw.roles is not None:
        raise DataError(
            "images.pooled is true, and a node's own test images are not trained on; allowed are"
            " images.pooled = false, and images in no folders train and test",
            key="pooled",
        )
    raw = raw.in_bits(spec.bits)
    numbers = np.arange(len(raw.labels))
    if not len(numbers):
        raise DataError("there are no images; allowed is one or more", key="no-images")
    pixels = read_inputs(raw, numbers, spec, spec.channels)
    digest = ""
    if record_split is None:
        parts = _parts(raw, numbers, spec, 0, None) if raw.roles is None else raw.roles
    else:
        records = raw.records(numbers)
        parts = record_split.parts(records) if raw.roles is None else raw.roles
        digest = record_split.digest(records, parts)
    images = _images(raw, numbers, pixels, masks_of(parts), spec)
    return replace(images, split_digest=digest)


def global_test(
    raw: RawImages,
    spec: ImageSpec,
    channels: int,
    uses_all: bool,
    record_split: RecordSplit | None = None,
) -> ClientImages:
    """The test images, all marked as such.

    Data without a test part: `uses_all` makes all images the test set; otherwise a share of them is
    held out.
    """
    raw = raw.in_bits(spec.bits)
    roles = raw.with_test(record_split)
    if not uses_all:
        _check_roles(raw, roles, spec)
    elif raw.roles is None:
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
    return _images(raw, numbers, read_inputs(raw, numbers, spec, channels), masks, spec)


def share_images(
    raw: RawImages,
    spec: ImageSpec,
    num_partitions: int,
    record_split: RecordSplit | None = None,
) -> Iterator[ClientImages]:
    """The clients' shares, one at a time, as together they take as much memory as the data set.

    Each is split by its records; without `record_split` at random, with a training image at least.
    """
    raw = raw.in_bits(spec.bits)
    if spec.pooled:
        raw = replace(raw, roles=np.full(len(raw.labels), TRAIN))
    roles = raw.with_test(record_split)
    _check_roles(raw, roles, spec)
    numbers = np.flatnonzero(roles == TRAIN)
    if not len(numbers):
        raise DataError(f"{spec.dataset} has no training images", key="no-training-images")
    rng = np.random.default_rng([spec.seed, TRAIN_STREAM])
    numbers = _subset(numbers, spec.train_subset, "train", rng)
    if spec.partition.partition == USERS:
        yield from _share_by_user(raw, numbers, spec, num_partitions, record_split)
        return
    shares = partition_images(raw.labels[numbers], num_partitions, spec.partition, spec.seed)
    pixels = read_inputs(raw, numbers, spec, spec.all_channels)
    owners = np.full(len(raw.labels), -1)
    for client, share in enumerate(shares):
        owners[numbers[share]] = client
    digest = membership_digest(owners)
    for client, share in enumerate(shares):
        parts = _parts(raw, numbers[share], spec, client, record_split)
        chosen = pixels[torch.from_numpy(share)]
        yield _images(raw, numbers[share], chosen, masks_of(parts), spec, digest)


def _check_roles(raw: RawImages, roles: Integers, spec: ImageSpec) -> None:
    is_trained = roles == TRAIN
    trained = raw.labels[is_trained].tolist()
    check_trained(spec.dataset, raw.class_names, trained, raw.labels[~is_trained].tolist())


def _share_by_user(
    raw: RawImages,
    train: Integers,
    spec: ImageSpec,
    num_partitions: int,
    record_split: RecordSplit | None,
) -> Iterator[ClientImages]:
    """The clients' shares by user.

    If users have both training and test images, these are the clients' parts, as in the data;
    otherwise each client's images are split as by `share_images`.
    """
    if raw.users is None:
        raise DataError(
            f'partition is "{USERS}", and the images of {spec.dataset} do not belong to users;'
            f" allowed are {', '.join(PARTITIONS)}, or, for FOLDER/SITE/CLASS, images.classes-at=2",
            key="partition",
        )
    owners = np.full(len(raw.labels), -1)
    owners[train] = partition_users(raw.users[train], num_partitions)
    has_parts = False
    if raw.roles is not None:
        owner_of_user = np.full(raw.users.max() + 1, -1)
        owner_of_user[raw.users[train]] = owners[train]
        is_other = raw.roles != TRAIN
        owners[is_other] = owner_of_user[raw.users[is_other]]
        has_parts = bool((owners[raw.roles == TEST] >= 0).any())
    if not has_parts:
        owners[raw.with_test(record_split) != TRAIN] = -1
    digest = membership_digest(owners)
    numbers = np.flatnonzero(owners >= 0)
    pixels = read_inputs(raw, numbers, spec, spec.all_channels)
    for client in range(num_partitions):
        is_share = owners[numbers] == client
        share = numbers[is_share]
        if has_parts and raw.roles is not None:
            parts = raw.roles[share]
        else:
            parts = _parts(raw, share, spec, client, record_split)
        chosen = pixels[torch.from_numpy(is_share)]
        yield _images(raw, share, chosen, masks_of(parts), spec, digest)


def _images(
    raw: RawImages,
    indices: Integers,
    pixels: Tensor,
    masks: Booleans,
    spec: ImageSpec,
    partition_digest: str = "",
) -> ClientImages:
    source = spec.source
    augments = source is not None and source.augments
    labels = torch.from_numpy(raw.labels[indices])
    return client_images(
        images=pixels,
        labels=labels,
        masks=torch.from_numpy(masks),
        class_names=raw.class_names,
        mean=spec.mean,
        std=spec.std,
        augments=augments,
        partition_digest=partition_digest,
        bits=raw.bits,
        names=tuple(raw.names[index] for index in indices.tolist()) if raw.names else (),
    )


def _subset(numbers: Integers, size: int, role: str, rng: np.random.Generator) -> Integers:
    if size > len(numbers):
        raise DataError(
            f"images.{role}-subset is {size}; there are {len(numbers)} {role} images, and 0 takes"
            " all",
            key="subset",
        )
    if size:
        return np.sort(rng.choice(numbers, size, replace=False))
    return numbers


def _parts(
    raw: RawImages,
    numbers: Integers,
    spec: ImageSpec,
    client: int,
    record_split: RecordSplit | None,
) -> Integers:
    """The part of each image of a client: 0 training, 1 validation, 2 test."""
    if record_split is not None:
        return record_split.parts(raw.records(numbers))
    return _split(len(numbers), spec, client).argmax(axis=0)


def _split(num_images: int, spec: ImageSpec, client: int) -> Booleans:
    rng = np.random.default_rng([spec.seed, SPLIT_STREAM, client])
    train_size = spec.train_size
    # A client with few images trains on at least one.
    if num_images and train_size:
        train_size = max(train_size, 1 / num_images)
    return random_split(num_images, train_size, spec.test_size, rng)
