"""Points in the disc: their files, the parts of a data set, the global test set, and the tasks of
the clients."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from curvfed.geometry.arrays import Booleans, Integers
from curvfed.tasks.amounts import amount
from curvfed.tasks.class_names import check_trained, row_of
from curvfed.tasks.dataset import Dataset
from curvfed.tasks.errors import DataError
from curvfed.tasks.generated import two_classes
from curvfed.tasks.graphs.data.partition import membership_digest
from curvfed.tasks.points import ClientPoints, RawPoints, check_inside, client_points
from curvfed.tasks.points.point_spec import PointSpec, partition_points
from curvfed.tasks.points.readers import read_points
from curvfed.tasks.public_data import Located, PublicData
from curvfed.tasks.record_split import RecordSplit
from curvfed.tasks.stored_files import file_stamps

if TYPE_CHECKING:
    from curvfed.tasks.points.client_task import PointModelSpec, PointTask

TEST_STREAM = 15
"""Random stream for the test part of a node's own data."""

MIN_POINTS = 20
"""With fewer points each may have its own class."""

Stamps = tuple[tuple[str, int, int, str], ...]
"""Path, size and time of each file, to notice that one was overwritten in the lifetime of this
process."""


class PointDataset(Dataset):
    """Points with classes, a share of the training points for each client, which may be empty.

    If a file has a test part, this is the global test set. The two parts of Olsson are pooled and
    split again, as published. The test points of a node's own data are the file's own test part; if
    missing, those of `record_split`, or without it `test_size` of every class, which then keeps at
    least one training point. There may be a single class, or no points.
    """

    examples = ClientPoints
    raw = (RawPoints,)
    tasks = ("points",)
    place_words = "points in "
    spec: PointSpec

    @classmethod
    def configured(cls, run: Any, cache: Path | None = None) -> Self:
        """The points of a run's configuration; they are read anew by each process."""
        keys = run.points
        split_seed = -1 if keys.split_seed is None else keys.split_seed
        spec = PointSpec.of_run(run, keys, split_seed=split_seed, num_points=keys.num)
        return cls(spec)

    def find(self, source: PublicData) -> Located[RawPoints] | None:
        """The file of a public data set, or None if it is absent."""
        if not source.folders:
            return Located((), self._draw)
        folder = source.folder(self.spec.data_dir)
        if folder is None:
            return None
        return self.locate_files(folder / source.files[0])

    def _draw(self) -> RawPoints:
        spec = self.spec
        radius = spec.sample_radius / math.sqrt(-spec.curvature)
        points, labels, _ = two_classes(
            spec.num_points, radius, spec.reference, spec.margin, spec.curvature, spec.seed
        )
        return RawPoints(points, labels, ("0", "1"), None)

    def locate_files(self, path: Path) -> Located[RawPoints]:
        """A user's file."""
        spec = self.spec
        read = partial(read_points, path, spec.curvature, spec.embedding_key, spec.label_key)
        return Located((path,), read)

    def locate_own(self, path: Path) -> Located[RawPoints]:
        """A user's file or folder; the reader knows the formats of other tools, and checks their
        points against the disc."""
        return replace(super().locate_own(path), read=self.locate_files(path).read)

    def part(self, partition_id: int, num_partitions: int) -> ClientPoints:
        """A share of the training points."""
        stamps = self._stamps()
        raw, _ = _pooled(self.spec, stamps, self.record_split)
        owners, digest = _owners(self.spec, num_partitions, stamps, self.record_split)
        indices = np.flatnonzero(owners == partition_id)
        test = np.zeros(len(indices), dtype=np.bool_)
        return _client(raw, indices, test, self.spec, digest)

    def test(self, path: Path | None = None) -> ClientPoints | None:
        """The global test set, or the test part of a file, or all of a file without a test part;
        None if it is empty. All points are marked as test points.

        Raises
        ------
        DataError
            Missing or unusable data.
        """
        if path is None or self.spec.hold_out == "validation":
            raw, test = _pooled(self.spec, self._stamps(), self.record_split)
            indices = np.flatnonzero(test)
        else:
            located = self.locate_own(path.expanduser())
            raw = _select_classes(located.read(), self.spec)
            indices = np.arange(len(raw.labels))
            if raw.test is not None:
                indices = indices[raw.test]
        if not len(indices):
            return None
        return _client(raw, indices, np.ones(len(indices), dtype=np.bool_), self.spec)

    def pooled(self) -> ClientPoints:
        """The whole data set; its training points are shared out to the clients.

        Raises
        ------
        DataError
            Missing or unusable data.
        """
        raw, test = _pooled(self.spec, self._stamps(), self.record_split)
        return _client(raw, np.arange(len(test)), test, self.spec)

    def own_data(self, raw: RawPoints) -> ClientPoints:
        """A node's own points, split by the file's parts, or else by their records or at random.

        Raises
        ------
        DataError
            If a point is not inside the disc.
        """
        spec = self.spec
        check_inside("the data", raw.points, spec.curvature)
        raw = _select_classes(raw, spec)
        _check_classes("the data", raw)
        split = self.record_split
        draw = partial(_draw_by_class, spec) if split is None else partial(_draw_records, split)
        test = draw(raw, "test") if raw.test is None else raw.test
        digest = "" if split is None else split.digest(raw.records, np.where(test, 2, 0))
        if spec.hold_out == "validation":
            raw = raw.rows(~test)
            test = draw(raw, "validation")
        client = _client(raw, np.arange(len(test)), test, spec)
        return replace(client, split_digest=digest)

    def _stamps(self) -> Stamps:
        return tuple(file_stamps(self.locate().files))

    @staticmethod
    def task(
        run: Any, examples: ClientPoints, class_names: tuple[str, ...], device: Any, model: Any
    ) -> "PointTask":
        """The client's points, with the loss of a logistic model."""
        from curvfed.tasks.points.client_task import PointTask  # imports torch

        return PointTask(examples, class_names, device, run.batch_size)

    @staticmethod
    def model_spec(
        run: Any,
        facts: Any,
        model: str,
        options: Mapping[str, Any],
        num_features: int,
        num_classes: int,
    ) -> "PointModelSpec":
        """The logistic model of the points' disc."""
        from curvfed.tasks.points.client_task import PointModelSpec

        return PointModelSpec(len(facts.class_names), run.points.curvature)


DATASET = PointDataset


@lru_cache(maxsize=2)
def _pooled(
    spec: PointSpec, stamps: Stamps, split: RecordSplit | None
) -> tuple[RawPoints, Booleans]:
    """All points of a data set, and the mask of its test points."""
    raw = _select_classes(PointDataset(spec).locate().read(), spec)
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
    if test is None or spec.published is not None:
        test = _draw_test(raw, spec, split, "test")
    else:
        trained = raw.labels[~test].tolist()
        check_trained(spec.dataset, raw.class_names, trained, raw.labels[test].tolist())
    if spec.hold_out == "validation":
        raw = raw.rows(~test)
        test = _draw_test(raw, spec, split, "validation")
    num_classes = len(np.unique(raw.labels[~test]))
    if num_classes < 2:
        raise DataError(
            f"{spec.dataset} has training points of {amount(num_classes, 'class')}; at least 2 are"
            " needed",
            key="too-few-classes",
        )
    return raw, test


@lru_cache(maxsize=2)
def _owners(
    spec: PointSpec, num_partitions: int, stamps: Stamps, split: RecordSplit | None
) -> tuple[Integers, str]:
    """The client of each point, −1 for test points, and a hash of these numbers."""
    raw, test = _pooled(spec, stamps, split)
    owners = np.full(len(test), -1)
    owners[~test] = partition_points(
        raw.labels[~test], num_partitions, spec.partition, spec.alpha, spec.seed
    )
    return owners, membership_digest(owners)


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
    names = [raw.names[index] for index in indices.tolist()] if raw.names else ()
    return replace(client, history="; ".join(raw.notes), names=names)


def _split_seed(spec: PointSpec) -> int:
    return spec.seed if spec.split_seed < 0 else spec.split_seed


def _draw_test(
    raw: RawPoints, spec: PointSpec, split: RecordSplit | None, purpose: str
) -> Booleans:
    """The test points by their records, or those that scikit-learn's `train_test_split` draws, as
    for published figures."""
    if split is not None:
        return _draw_records(split, raw, purpose)
    num = len(raw.labels)
    test = np.zeros(num, dtype=np.bool_)
    generator = np.random.RandomState(_split_seed(spec) % 2**32)
    order = generator.permutation(num)
    test[order[: math.ceil(spec.test_size * num)]] = True
    return test


def _draw_records(split: RecordSplit, raw: RawPoints, purpose: str) -> Booleans:
    """Test points by their records."""
    if purpose == "test":
        return split.parts(raw.records) == 2
    return split.draw(raw.records, split.test_size, purpose)


def _draw_by_class(spec: PointSpec, raw: RawPoints, purpose: str) -> Booleans:
    """Test points: `test_size` of each class, but never a whole class."""
    labels = raw.labels
    rng = np.random.default_rng([_split_seed(spec), TEST_STREAM])
    test = np.zeros(len(labels), dtype=np.bool_)
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        count = min(round(spec.test_size * len(members)), len(members) - 1)
        test[members[:count]] = True
    return test
