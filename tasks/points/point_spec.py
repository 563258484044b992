"""The settings that determine the points of a run, and the partition of training points among
clients: stratified, IID or Dirichlet; some clients can lack a class."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from curvfed.geometry.arrays import Integers
from curvfed.tasks.class_names import class_name, in_order, names_in
from curvfed.tasks.dataset import Spec
from curvfed.tasks.errors import DataError
from curvfed.tasks.images import label_partition
from curvfed.tasks.registry import source_of
from curvfed.tasks.sources import PointSource

STRATIFIED_STREAM = 13
"""A random stream of the seed."""


def partition_points(
    labels: Integers, num_clients: int, partition: str, alpha: float, seed: int
) -> Integers:
    """The client of each point.

    Parameters
    ----------
    labels : (n,), at least 0
    num_clients : int, at least 1
    partition : str
        A name in `PARTITIONS`.
    alpha : float
        Concentration of "dirichlet", above 0 and finite.
    seed : int, at least 0

    Returns
    -------
    (n,), int64
        Clients without points are possible.
    """
    return PARTITIONS[partition](labels, num_clients, alpha, seed)


def _stratified(labels: Integers, num_clients: int, alpha: float, seed: int) -> Integers:
    """The clients' numbers of points, in total and of each class, differ by at most one."""
    rng = np.random.default_rng([seed, STRATIFIED_STREAM])
    shuffled = rng.permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    owners = np.empty(len(labels), dtype=np.int64)
    owners[order] = rng.permutation(num_clients)[np.arange(len(labels)) % num_clients]
    return owners


def _like_images(
    partition: str, labels: Integers, num_clients: int, alpha: float, seed: int
) -> Integers:
    """A partition of `label_partition`, with empty clients allowed."""
    spec = label_partition.PartitionSpec(partition, alpha, min_client_size=0)
    shares = label_partition.partition_images(labels, num_clients, spec, seed)
    owners = np.empty(len(labels), dtype=np.int64)
    for client, share in enumerate(shares):
        owners[share] = client
    return owners


PARTITIONS: dict[str, Callable[[Integers, int, float, int], Integers]] = {
    "stratified": _stratified,
    "iid": partial(_like_images, "iid"),
    "dirichlet": partial(_like_images, "dirichlet"),
}


@dataclass(frozen=True)
class PointSpec(Spec):
    """The settings of points.

    Attributes
    ----------
    partition, alpha
        The partition of training points (`curvfed.tasks.points.point_spec.partition_points`).
    seed : int
        For everything that is drawn; at least 0.
    split_seed : int
        For the split into training and test points; −1 means `seed`.
    test_size : float
        In [0, 1). The share of all points in the test set, rounded up and drawn regardless of
        class. For a node's own data without a test part: the share of every class, rounded.
    hold_out : str
        "test", or "validation": the test points are left out, and the split is that of the others.
    curvature : float
        Curvature of the disc, negative.
    classes : str
        Names of the classes to keep, as `curvfed.tasks.class_names.names_in` reads them; "" means
        all.
    num_points, sample_radius, margin, reference
        For "uniform": see `curvfed.tasks.generated.two_classes`. The radius is a share of the
        disc's.
    embedding_key, label_key : str
        See `curvfed.tasks.points.readers.read_points`.
    """

    partition: str = "stratified"
    alpha: float = 0.5
    seed: int = 0
    split_seed: int = -1
    test_size: float = 0.15
    hold_out: str = "test"
    curvature: float = -1.0
    classes: str = ""
    num_points: int = 20_000
    sample_radius: float = 0.95
    margin: float = 0.1
    reference: float = 0.5
    embedding_key: str = "X_poincare"
    label_key: str = "label"

    def __post_init__(self) -> None:
        source = self.published
        if source is not None and self.curvature != source.curvature:
            raise DataError(
                f"points.curvature is {self.curvature}; allowed: {source.curvature} for"
                f" {self.dataset}",
                key="point-settings",
            )

    @property
    def published(self) -> PointSource | None:
        """The published data set; None for other points."""
        source = source_of(self.dataset)
        return source if isinstance(source, PointSource) else None

    @property
    def selected_classes(self) -> tuple[str, ...]:
        """Names of the classes to keep, in order; none means all.

        Raises
        ------
        DataError
            If `classes` is not a list of names.
        """
        try:
            return tuple(in_order([class_name(name) for name in names_in(self.classes)]))
        except ValueError as error:
            raise DataError(f"points.classes: {error}", key="class-names") from None
