"""The points of one client: its share of a data set, or its own file; and the global test set."""

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.partition import membership_digest
from curvfed.tasks.points.client_points import Booleans, ClientPoints, Integers, client_points
from curvfed.tasks.points.datasets import CURVATURES, locate
from curvfed.tasks.points.partition import PARTITIONS, deal_out
from curvfed.tasks.points.readers import RawPoints, check_inside, in_order, read_points
from curvfed.tasks.points.uniform import two_classes

__all__ = ["ClientPoints", "PointSpec", "load_client", "load_own", "load_pooled", "load_test", "load_test_file"]

HELD_OUT_STREAM = 15
"""Of the split's seed, for the test part of a node's own data."""

Stamp = tuple[str, int, int] | None
"""Path, size and time of a file: it may be written over while a process that runs many clients lives."""


@dataclass(frozen=True)
class PointSpec:
    """Everything that determines the data of a run.

    Attributes
    ----------
    dataset : str
        A name in `curvfed.tasks.points.datasets.NAMES`, in any case, or the path of a file as in
        `curvfed.tasks.points.readers`, whose own test part, if it has one, is the global test set. Olsson's own parts
        are pooled and split anew, as published.
    data_dir : Path
        The folder of the public data sets.
    partition, alpha, lacking
        How training points are dealt out: see `curvfed.tasks.points.partition.deal_out`.
    seed : int
        Of everything that is drawn; at least 0.
    split_seed : int
        Of the split into training and test points; −1: `seed`.
    test_size : float
        Share of all points that the test set takes, rounded up, drawn regardless of class; of a node's own data without
        a test part, share of every class, rounded. In [0, 1).
    curvature : float
        Of the disc that the points lie in; negative.
    classes : str
        Comma-separated names of the classes to keep; "": all.
    num_points, sample_radius, margin, reference
        Of "uniform": see `curvfed.tasks.points.uniform.two_classes`; the radius is a share of the disc's.
    embedding_key, label_key : str
        See `curvfed.tasks.points.readers.read_points`.
    """

    dataset: str
    data_dir: Path
    partition: str = "stratified"
    alpha: float = 0.5
    seed: int = 0
    split_seed: int = -1
    test_size: float = 0.15
    curvature: float = -1.0
    classes: str = ""
    lacking: int = 0
    num_points: int = 20_000
    sample_radius: float = 0.95
    margin: float = 0.1
    reference: float = 0.5
    embedding_key: str = "X_poincare"
    label_key: str = "label"

    def __post_init__(self) -> None:
        made_with = CURVATURES.get(self.dataset.lower(), self.curvature)
        for key, value, fits, allowed in (
            ("partition", self.partition, self.partition in PARTITIONS, ", ".join(PARTITIONS)),
            ("alpha", self.alpha, 0 < self.alpha < math.inf, "above 0 and finite"),
            ("seed", self.seed, self.seed >= 0, "at least 0"),
            ("points.split-seed", self.split_seed, self.split_seed >= -1, "at least -1"),
            ("test-size", self.test_size, 0 <= self.test_size < 1, "in [0, 1)"),
            ("points.curvature", self.curvature, -math.inf < self.curvature < 0, "below 0 and finite"),
            ("points.curvature", self.curvature, self.curvature == made_with, f"{made_with} for {self.dataset}"),
            ("points.lacking", self.lacking, self.lacking >= 0, "at least 0"),
            ("points.num", self.num_points, self.num_points >= 2, "at least 2"),
            ("points.sample-radius", self.sample_radius, 0 < self.sample_radius < 1, "in (0, 1)"),
            ("points.margin", self.margin, 0 <= self.margin < math.inf, "at least 0 and finite"),
            ("points.reference", self.reference, 0 <= self.reference < 1, "in [0, 1)"),
        ):
            if not fits:
                raise DataError(f"{key} is {value}; allowed: {allowed}")

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the classes to keep, in order; none: all."""
        return tuple(in_order([name.strip() for name in self.classes.split(",") if name.strip()]))


def load_client(spec: PointSpec, partition_id: int, num_partitions: int) -> ClientPoints:
    """The data of client `partition_id` of `num_partitions`: its share of the training points, maybe none.

    Raises
    ------
    DataError
        Absent or unfit data, or a `partition_id` out of range.
    """
    if not 0 <= partition_id < num_partitions:
        raise DataError(
            f"partition-id is {partition_id}; with {num_partitions} clients it must be in 0..{num_partitions - 1}"
        )
    stamp = _stamp(spec)
    raw, _ = _pooled(spec, stamp)
    owners, digest = _dealt(spec, num_partitions, stamp)
    mine = np.flatnonzero(owners == partition_id)
    return _client(raw, mine, np.zeros(len(mine), dtype=np.bool_), spec, digest)


def load_test(spec: PointSpec) -> ClientPoints | None:
    """The data set's global test set, all of it marked as test; None where it is empty.

    Raises
    ------
    DataError
        Absent or unfit data.
    """
    raw, test = _pooled(spec, _stamp(spec))
    chosen = np.flatnonzero(test)
    return _client(raw, chosen, test[chosen], spec) if len(chosen) else None


def load_pooled(spec: PointSpec) -> ClientPoints:
    """The whole data set, whose training points `load_client` deals out.

    Raises
    ------
    DataError
        Absent or unfit data.
    """
    raw, test = _pooled(spec, _stamp(spec))
    return _client(raw, np.arange(len(test)), test, spec)


def load_own(path: Path, spec: PointSpec) -> ClientPoints:
    """A node's own file, whole: split by its own parts where it has a test part, else `test_size` of every class.

    Every class keeps a training point at least. There may be one class alone, or no points.

    Raises
    ------
    DataError
        See `curvfed.tasks.points.readers.read_points`.
    """
    return _own(_read(path.expanduser(), spec), spec)


def own(raw: RawPoints, spec: PointSpec) -> ClientPoints:
    """What a node makes of its own points, as `load_own` of a file of them.

    Raises
    ------
    DataError
        If some are not inside the disc.
    """
    check_inside("the data", raw.points, spec.curvature)
    return _own(_kept(raw, spec), spec)


def _own(raw: RawPoints, spec: PointSpec) -> ClientPoints:
    test = _held_out(raw.labels, spec) if raw.test is None else raw.test
    return _client(raw, np.arange(len(test)), test, spec)


def load_test_file(path: Path, spec: PointSpec) -> ClientPoints | None:
    """A file as the global test set: its test part where it has one, else all of it; None where that is empty.

    Raises
    ------
    DataError
        See `curvfed.tasks.points.readers.read_points`.
    """
    raw = _read(path.expanduser(), spec)
    chosen = np.arange(len(raw.labels)) if raw.test is None else np.flatnonzero(raw.test)
    return _client(raw, chosen, np.ones(len(chosen), dtype=np.bool_), spec) if len(chosen) else None


def _stamp(spec: PointSpec) -> Stamp:
    path = locate(spec.dataset, spec.data_dir)
    return None if path is None else (str(path), path.stat().st_size, path.stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _pooled(spec: PointSpec, stamp: Stamp) -> tuple[RawPoints, Booleans]:
    """All points of a data set, and which of them are for tests."""
    if (own := plugins.located(spec.dataset, spec.data_dir, RawPoints)) is not None:
        raw = _kept(own.read(), spec)
    elif stamp is None:
        radius = spec.sample_radius / math.sqrt(-spec.curvature)
        points, labels, _ = two_classes(spec.num_points, radius, spec.reference, spec.margin, spec.curvature, spec.seed)
        raw = _kept(RawPoints(points, labels, ("0", "1"), None), spec)
    else:
        raw = _read(Path(stamp[0]), spec)
    unknown = [name for number, name in enumerate(raw.class_names) if not (raw.labels == number).any()]
    if unknown:
        raise DataError(f"points.classes: {spec.dataset} has no points of the classes {', '.join(unknown)}")
    named = spec.dataset.lower() in CURVATURES
    test = _drawn(len(raw.labels), spec) if raw.test is None or named else raw.test
    num_classes = len(np.unique(raw.labels[~test]))
    if num_classes < 2:
        raise DataError(
            f"{spec.dataset} has training points of {num_classes} classes; at least 2 are needed to tell classes apart"
        )
    return raw, test


@lru_cache(maxsize=2)
def _dealt(spec: PointSpec, num_partitions: int, stamp: Stamp) -> tuple[Integers, str]:
    """The client of every point, −1 for test points, and a hash of that."""
    raw, test = _pooled(spec, stamp)
    owners = np.full(len(test), -1)
    owners[~test] = deal_out(raw.labels[~test], num_partitions, spec.partition, spec.alpha, spec.seed, spec.lacking)
    return owners, membership_digest(owners)


def _read(path: Path, spec: PointSpec) -> RawPoints:
    return _kept(read_points(path, spec.curvature, spec.embedding_key, spec.label_key), spec)


def _kept(raw: RawPoints, spec: PointSpec) -> RawPoints:
    return raw.only(spec.kept) if spec.kept else raw


def _client(
    raw: RawPoints, indices: Integers, test: Booleans, spec: PointSpec, partition_digest: str = ""
) -> ClientPoints:
    return client_points(
        raw.points[indices], raw.labels[indices], test, raw.class_names, spec.curvature, partition_digest
    )


def _split_seed(spec: PointSpec) -> int:
    return spec.seed if spec.split_seed < 0 else spec.split_seed


def _drawn(num: int, spec: PointSpec) -> Booleans:
    """The test points that scikit-learn's `train_test_split` draws: published figures were made with it."""
    test = np.zeros(num, dtype=np.bool_)
    order = np.random.RandomState(_split_seed(spec) % 2**32).permutation(num)
    test[order[: math.ceil(spec.test_size * num)]] = True
    return test


def _held_out(labels: Integers, spec: PointSpec) -> Booleans:
    """`test_size` of every class, but never all of it."""
    rng = np.random.default_rng([_split_seed(spec), HELD_OUT_STREAM])
    test = np.zeros(len(labels), dtype=np.bool_)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        test[members[: min(round(spec.test_size * len(members)), len(members) - 1)]] = True
    return test
