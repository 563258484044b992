"""The points of a client (its share of a data set, or its own file), and the global test set."""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from curvfed.tasks.class_names import class_name, names_in, row_of
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.partition import membership_digest
from curvfed.tasks.history import log_history
from curvfed.tasks.points.client_points import Booleans, ClientPoints, Integers, client_points
from curvfed.tasks.points.datasets import CURVATURES, locate
from curvfed.tasks.points.partition import PARTITIONS, partition_points
from curvfed.tasks.points.readers import RawPoints, check_inside, in_order, read_points
from curvfed.tasks.points.uniform import two_classes
from curvfed.tasks.public_data import locate_plugin_data
from curvfed.tasks.stored_files import file_stamps

__all__ = [
    "ClientPoints",
    "PointSpec",
    "load_client",
    "load_own",
    "load_pooled",
    "load_test",
    "load_test_file",
]

TEST_STREAM = 15
"""Random stream for the test part of a node's own data."""

MIN_POINTS = 20
"""With fewer points each may have its own class."""

Stamp = tuple[str, int, int, str] | None
"""Path, size and time of a file, to notice that it was overwritten in the lifetime of this
process.
"""


@dataclass(frozen=True)
class PointSpec:
    """The settings that determine the data of a run.

    Attributes
    ----------
    dataset : str
        A name in `curvfed.tasks.points.datasets.NAMES`, in any case, or the path of a file as in
        `curvfed.tasks.points.readers`. If a file has a test part, this is the global test set. The
        two parts of Olsson are pooled and split again, as published.
    data_dir : Path
        The folder of the public data sets.
    partition, alpha, lacking
        The partition of training points (`curvfed.tasks.points.partition.partition_points`).
    seed : int
        For everything that is drawn; at least 0.
    split_seed : int
        For the split into training and test points; −1 means `seed`.
    test_size : float
        In [0, 1). The share of all points in the test set, rounded up and drawn regardless of
        class. For a node's own data without a test part: the share of every class, rounded.
    curvature : float
        Curvature of the disc, negative.
    classes : str
        Names of the classes to keep, as `curvfed.tasks.class_names.names_in` reads them; "" means
        all.
    num_points, sample_radius, margin, reference
        For "uniform": see `curvfed.tasks.points.uniform.two_classes`. The radius is a share of the
        disc's.
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
        published = CURVATURES.get(self.dataset.lower(), self.curvature)
        for key, value, fits, allowed in (
            ("partition", self.partition, self.partition in PARTITIONS, ", ".join(PARTITIONS)),
            ("alpha", self.alpha, 0 < self.alpha < math.inf, "above 0 and finite"),
            ("seed", self.seed, self.seed >= 0, "at least 0"),
            ("points.split-seed", self.split_seed, self.split_seed >= -1, "at least -1"),
            ("test-size", self.test_size, 0 <= self.test_size < 1, "in [0, 1)"),
            (
                "points.curvature",
                self.curvature,
                -math.inf < self.curvature < 0,
                "below 0 and finite",
            ),
            (
                "points.curvature",
                self.curvature,
                self.curvature == published,
                f"{published} for {self.dataset}",
            ),
            ("points.lacking", self.lacking, self.lacking >= 0, "at least 0"),
            ("points.num", self.num_points, self.num_points >= 2, "at least 2"),
            ("points.sample-radius", self.sample_radius, 0 < self.sample_radius < 1, "in (0, 1)"),
            ("points.margin", self.margin, 0 <= self.margin < math.inf, "at least 0 and finite"),
            ("points.reference", self.reference, 0 <= self.reference < 1, "in [0, 1)"),
        ):
            if not fits:
                raise DataError(f"{key} is {value}; allowed: {allowed}", key="point-settings")

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


def load_client(spec: PointSpec, partition_id: int, num_partitions: int) -> ClientPoints:
    """A client's share of the training points, which may be empty.

    Raises
    ------
    DataError
        Missing or unusable data, or a `partition_id` out of range.
    """
    if not 0 <= partition_id < num_partitions:
        raise DataError(
            f"partition-id is {partition_id}; with {num_partitions} clients it must be in"
            f" 0..{num_partitions - 1}",
            key="partition-id",
        )
    stamp = _stamp(spec)
    raw, _ = _pooled(spec, stamp)
    owners, digest = _owners(spec, num_partitions, stamp)
    indices = np.flatnonzero(owners == partition_id)
    test = np.zeros(len(indices), dtype=np.bool_)
    client = _client(raw, indices, test, spec, digest)
    return log_history(spec.dataset, client, partition_id)


def load_test(spec: PointSpec) -> ClientPoints | None:
    """The global test set, with all points marked as test points; None if it is empty.

    Raises
    ------
    DataError
        Missing or unusable data.
    """
    raw, test = _pooled(spec, _stamp(spec))
    indices = np.flatnonzero(test)
    return _client(raw, indices, test[indices], spec) if len(indices) else None


def load_pooled(spec: PointSpec) -> ClientPoints:
    """The whole data set, whose training points `load_client` partitions.

    Raises
    ------
    DataError
        Missing or unusable data.
    """
    raw, test = _pooled(spec, _stamp(spec))
    return _client(raw, np.arange(len(test)), test, spec)


def load_own(path: Path, spec: PointSpec) -> ClientPoints:
    """A node's own file, split into training and test points.

    The test points are the file's own test part; if it has none, `test_size` of every class. Every
    class keeps at least one training point. There may be a single class, or no points.

    Raises
    ------
    DataError
        See `curvfed.tasks.points.readers.read_points`.
    """
    raw = read_points(path.expanduser(), spec.curvature, spec.embedding_key, spec.label_key)
    return log_history(str(path), own_data(raw, spec))


def own_data(raw: RawPoints, spec: PointSpec) -> ClientPoints:
    """A node's own points in memory, split as `load_own` splits a file.

    Raises
    ------
    DataError
        If a point is not inside the disc.
    """
    check_inside("the data", raw.points, spec.curvature)
    raw = _select_classes(raw, spec)
    _check_classes("the data", raw)
    test = _draw_by_class(raw.labels, spec) if raw.test is None else raw.test
    return _client(raw, np.arange(len(test)), test, spec)


def load_test_file(path: Path, spec: PointSpec) -> ClientPoints | None:
    """The test part of a file as the global test set; all of it if it has no test part; None if
    that is empty.

    Raises
    ------
    DataError
        See `curvfed.tasks.points.readers.read_points`.
    """
    raw = _read(path.expanduser(), spec)
    indices = np.arange(len(raw.labels)) if raw.test is None else np.flatnonzero(raw.test)
    if not len(indices):
        return None
    return _client(raw, indices, np.ones(len(indices), dtype=np.bool_), spec)


def _stamp(spec: PointSpec) -> Stamp:
    path = locate(spec.dataset, spec.data_dir)
    return None if path is None else file_stamps([path])[0]


@lru_cache(maxsize=2)
def _pooled(spec: PointSpec, stamp: Stamp) -> tuple[RawPoints, Booleans]:
    """All points of a data set, and the mask of its test points."""
    plugin_data = locate_plugin_data(spec.dataset, spec.data_dir, RawPoints)
    if plugin_data is not None:
        raw = _select_classes(plugin_data.read(), spec)
    elif stamp is None:
        radius = spec.sample_radius / math.sqrt(-spec.curvature)
        points, labels, _ = two_classes(
            spec.num_points, radius, spec.reference, spec.margin, spec.curvature, spec.seed
        )
        raw = _select_classes(RawPoints(points, labels, ("0", "1"), None), spec)
    else:
        raw = _read(Path(stamp[0]), spec)
    unknown = [
        name for number, name in enumerate(raw.class_names) if not (raw.labels == number).any()
    ]
    if unknown:
        raise DataError(
            f"points.classes: {spec.dataset} has no points of the classes {row_of(unknown)}; quote"
            " a name with a comma",
            key="unknown-class",
        )
    _check_classes(spec.dataset, raw)
    test = raw.test
    if test is None or spec.dataset.lower() in CURVATURES:
        test = _draw_test(len(raw.labels), spec)
    num_classes = len(np.unique(raw.labels[~test]))
    if num_classes < 2:
        raise DataError(
            f"{spec.dataset} has training points of {num_classes} classes; at least 2 are needed",
            key="too-few-classes",
        )
    return raw, test


@lru_cache(maxsize=2)
def _owners(spec: PointSpec, num_partitions: int, stamp: Stamp) -> tuple[Integers, str]:
    """The client of each point, −1 for test points, and a hash of these numbers."""
    raw, test = _pooled(spec, stamp)
    owners = np.full(len(test), -1)
    owners[~test] = partition_points(
        raw.labels[~test], num_partitions, spec.partition, spec.alpha, spec.seed, spec.lacking
    )
    return owners, membership_digest(owners)


def _read(path: Path, spec: PointSpec) -> RawPoints:
    raw = read_points(path, spec.curvature, spec.embedding_key, spec.label_key)
    return _select_classes(raw, spec)


def _select_classes(raw: RawPoints, spec: PointSpec) -> RawPoints:
    """The points of the selected classes. Points of unknown class are neither trained on nor
    scored."""
    return raw.only(spec.selected_classes or raw.class_names)


def _check_classes(where: str, raw: RawPoints) -> None:
    """Refuse classes that are probably names of single points, or measurements."""
    num_points = len(raw.labels)
    num_classes = len(np.unique(raw.labels))
    if num_points >= MIN_POINTS and 2 * num_classes > num_points:
        raise DataError(
            f"{where}: {num_points} points have {num_classes} classes; allowed is at most one class"
            " per two points. Does points.label-key name the column of the classes?",
            key="too-many-classes",
        )


def _client(
    raw: RawPoints, indices: Integers, test: Booleans, spec: PointSpec, partition_digest: str = ""
) -> ClientPoints:
    client = client_points(
        points=raw.points[indices],
        labels=raw.labels[indices],
        test=test,
        class_names=raw.class_names,
        curvature=spec.curvature,
        partition_digest=partition_digest,
    )
    return replace(client, history=raw.left_out)


def _split_seed(spec: PointSpec) -> int:
    return spec.seed if spec.split_seed < 0 else spec.split_seed


def _draw_test(num: int, spec: PointSpec) -> Booleans:
    """The test points that scikit-learn's `train_test_split` draws, as for published figures."""
    test = np.zeros(num, dtype=np.bool_)
    order = np.random.RandomState(_split_seed(spec) % 2**32).permutation(num)
    test[order[: math.ceil(spec.test_size * num)]] = True
    return test


def _draw_by_class(labels: Integers, spec: PointSpec) -> Booleans:
    """Test points: `test_size` of each class, but never a whole class."""
    rng = np.random.default_rng([_split_seed(spec), TEST_STREAM])
    test = np.zeros(len(labels), dtype=np.bool_)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        count = min(round(spec.test_size * len(members)), len(members) - 1)
        test[members[:count]] = True
    return test
