"""The settings that determine the images of a run, and their normalisation."""

from dataclasses import dataclass, field

from curvfed.tasks.dataset import Spec
from curvfed.tasks.graphs.data.partition import check_shares
from curvfed.tasks.images.label_partition import PartitionSpec
from curvfed.tasks.images.sources import Source
from curvfed.tasks.registry import source_of

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
    channels : int
        1, grey, 3, colour, or 0: as in the data set; in a folder colour if any image is.
    train_subset, test_subset : int
        Numbers of training and of test images, drawn at random; 0: all.
    """

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
