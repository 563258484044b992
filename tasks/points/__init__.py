"""Classification of points in the Poincaré disc. Here are checked points with their classes, from
any source, and the points of one client; they need no torch."""

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from curvfed.geometry.arrays import Booleans, Floats, Integers
from curvfed.tasks.amounts import amount
from curvfed.tasks.class_names import in_order, number_labels
from curvfed.tasks.errors import DataError
from curvfed.tasks.labelled import Labelled
from curvfed.tasks.record_split import records_of


@dataclass(frozen=True, eq=False)
class ClientPoints(Labelled):
    """The data of one client, of a whole data set, or the global test set.

    Attributes
    ----------
    points : (n, 2), float64
        Inside the disc of `curvature`; n may be 0.
    labels : (n,), int64
        Indices into `class_names`.
    train, test : (n,), bool
        Every point is one or the other.
    class_names : tuple of str
        The class names of this client's data set; empty if it names none.
    curvature : float
        Negative; the disc's radius is 1/√|curvature|.
    digest : str
        SHA-256 of all of the above.
    partition_digest : str
        SHA-256 of the partition's membership; "" for a node's own data, a whole data set or its
        test set.
    split_digest : str
        As of `curvfed.tasks.examples.Examples`.
    history : str
        Parts of the data set that were left out, in words.
    names : sequence of str, (n,)
        The names of the points in the data set, or their numbers in it; may be empty.
    """

    points: Floats
    labels: Integers
    train: Booleans
    test: Booleans
    class_names: tuple[str, ...]
    curvature: float
    digest: str
    partition_digest: str
    split_digest: str = field(default="", kw_only=True)
    history: str = field(default="", kw_only=True)
    names: Sequence[str] = field(default=(), kw_only=True)

    metric = "accuracy"
    space = ""
    reading = ""
    task = "points"
    shape = ""
    num_features = 2

    @property
    def val(self) -> Booleans:
        """False (n,): points lack a part for validation."""
        return np.zeros(len(self.labels), dtype=np.bool_)

    def describe(self) -> str:
        """The amount of data, in words."""
        return f"{amount(len(self.labels), 'point')} in the disc"

    def statistics(self) -> dict[str, Any]:
        """Figures about the points, which a real node keeps to itself by default.

        Returns
        -------
        dict
            "num_train", "num_test"; "class_counts" of the training points, in the order of
            `class_names`; "majority_accuracy", the test accuracy of the most frequent training
            class, or None without training or test points.
        """
        counts = np.bincount(self.train_labels, minlength=len(self.class_names))
        return {
            "num_train": int(self.train.sum()),
            "num_test": int(self.test.sum()),
            "class_counts": counts.tolist(),
            **self.trivial_scores(),
        }

    def check_test(self, shape: str, class_names: object) -> None:
        """Accept test points of any classes; a class that no client has is scored as wrong."""

    def bytes_on(self, device: object) -> int:
        """Bytes that a task needs on a device: next to none."""
        return 0

    @property
    def train_points(self) -> Floats:
        """(m, 2)."""
        return self.points[self.train]

    @property
    def train_labels(self) -> Integers:
        """(m,)."""
        return self.labels[self.train]

    @property
    def test_points(self) -> Floats:
        """(t, 2)."""
        return self.points[self.test]

    @property
    def test_labels(self) -> Integers:
        """(t,)."""
        return self.labels[self.test]


def client_points(
    points: Floats,
    labels: Integers,
    test: Booleans,
    class_names: tuple[str, ...],
    curvature: float,
    partition_digest: str = "",
) -> ClientPoints:
    """Copy and hash a client's data. Points outside `test` are training points."""
    points = np.array(points, dtype=np.float64, order="C")
    labels = np.array(labels, dtype=np.int64)
    test = np.array(test, dtype=np.bool_)
    header = json.dumps([class_names, float(curvature), len(points)])
    hasher = hashlib.sha256(header.encode())
    for array in (points.astype("<f8"), labels.astype("<i8"), test):
        hasher.update(array.data)
    return ClientPoints(
        points=points,
        labels=labels,
        train=~test,
        test=test,
        class_names=class_names,
        curvature=float(curvature),
        digest=hasher.hexdigest(),
        partition_digest=partition_digest,
    )


EMBEDDING_HINT = (
    "curvfed embed computes points in the disc from gene expression in an .h5ad; for other features"
    " use your own hyperbolic embedding"
)
"""A hint for data without points in the disc."""


@dataclass(frozen=True, eq=False)
class RawPoints:
    """The points of a file or a data set.

    Attributes
    ----------
    points : (n, 2), float64
        Finite.
    labels : (n,), int64
        Indices into `class_names`; −1 for points of unknown class, which are predicted, but neither
        trained on nor scored.
    class_names : tuple of str
        In numerical order if all are whole numbers, else in alphabetical order.
    test : (n,), bool, or None
        The data set's own test part, if it has one.
    names : sequence of str, (n,)
        The names of the points in the file; empty if they lack names.
    notes : tuple of str
        Parts of the file that the run does not use, and repeated rows, in words for the log.
    lines : sequence of int, (n,)
        The lines of the points in their table; empty for other files and for some of the points.
    """

    task: ClassVar[str] = "points"

    points: Floats
    labels: Integers
    class_names: tuple[str, ...]
    test: Booleans | None
    names: Sequence[str] = ()
    notes: tuple[str, ...] = ()
    lines: Sequence[int] = ()

    @cached_property
    def records(self) -> list[bytes]:
        """The points with their classes."""
        contents = (point.tobytes() for point in self.points.astype("<f8"))
        return records_of(contents, self.labels.tolist(), self.class_names)

    def rows(self, chosen: Booleans) -> "RawPoints":
        """The points of this mask (n,)."""
        names = [name for name, is_chosen in zip(self.names, chosen, strict=False) if is_chosen]
        return replace(
            self,
            points=self.points[chosen],
            labels=self.labels[chosen],
            test=None if self.test is None else self.test[chosen],
            names=names,
            lines=(),
        )

    def only(self, class_names: Sequence[str]) -> "RawPoints":
        """The points of these classes, renumbered, without points of unknown class. A class without
        points keeps its number. Points without names are named by their numbers in the file."""
        numbers = {name: number for number, name in enumerate(in_order(class_names))}
        # The last entry belongs to the label −1.
        new_labels = [*(numbers.get(name, -1) for name in self.class_names), -1]
        labels = np.array(new_labels, dtype=np.int64)[self.labels]
        selected = labels >= 0
        num_unknown = int((self.labels < 0).sum())
        notes = self.notes
        if num_unknown:
            notes += (
                f"{num_unknown} of {len(selected)} points have no known class; training and scores"
                " leave them out",
            )
        names = self.names or list(map(str, range(len(selected))))
        return RawPoints(
            names=list(itertools.compress(names, selected)),
            points=self.points[selected],
            labels=labels[selected],
            class_names=tuple(numbers),
            test=None if self.test is None else self.test[selected],
            notes=notes,
        )


def check_inside(where: str, points: Floats, curvature: float, lines: Sequence[int] = ()) -> None:
    """Refuse points on or outside the boundary of the disc.

    Raises
    ------
    DataError
        Names the number of these points, and the first one with its line, if `lines` (n,) has it.
    """
    with np.errstate(over="ignore"):
        is_outside = -curvature * (points * points).sum(axis=1) >= 1
        num_outside = int(is_outside.sum())
    if num_outside:
        first = int(is_outside.argmax())
        value = f"({points[first, 0]:g}, {points[first, 1]:g})"
        place = f"in line {lines[first]}" if lines else f"number {first + 1}"
        raise DataError(
            f"{where}: {num_outside} of {len(points)} points lie on or outside the boundary of the"
            f" disc of curvature {curvature}; allowed is |curvature|·(x² + y²) < 1. Is"
            f" points.curvature that of the embedding? The first of them is {place}: {value}. UMAP,"
            f" t-SNE and PCA give points of a plane, not of a disc: {EMBEDDING_HINT}",
            value,
            key="outside-disc",
        )


def raw_points(
    where: str,
    coordinates: object,
    classes: object,
    fields: tuple[str, str],
    names: Sequence[str] = (),
) -> RawPoints:
    """Check points, and number their classes.

    Parameters
    ----------
    where : str
        The beginning of an error's text.
    coordinates : array-like, (n, 2), of real numbers
    classes : array-like, (n,), as for `number_labels`; or None: all classes are unknown
    fields : tuple of str
        Names of coordinates and classes in the file.
    names : sequence of str, (n,)
        Names of the points, if the file has any.

    Raises
    ------
    DataError
        A wrong shape or type, or a value that is not finite.
    """
    points = np.asarray(coordinates.toarray() if hasattr(coordinates, "toarray") else coordinates)
    if points.shape == (0,):
        points = points.reshape(0, 2)
    if points.ndim != 2 or points.shape[1] != 2 or points.dtype.kind not in "fiu":
        raise DataError(
            f"{where}: {fields[0]} is {points.dtype} of shape {points.shape}; allowed are real"
            " numbers of shape (n, 2)",
            key="coordinates",
        )
    if classes is None:
        classes = np.full(len(points), "")
    labels, class_names = number_labels(where, classes, len(points), fields[1], gaps=True)
    with np.errstate(over="ignore"):  # values beyond float64 become infinite
        points = points.astype(np.float64)
    num_bad = int((~np.isfinite(points).all(axis=1)).sum())
    if num_bad:
        raise DataError(
            f"{where}: {num_bad} of {len(points)} rows of {fields[0]} are NaN or infinite; allowed"
            " are numbers",
            key="not-finite",
        )
    return RawPoints(points, labels, class_names, None, names)
