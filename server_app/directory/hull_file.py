"""The file `hulls.npz` of a one-shot run: decoded hulls, classifier, and in a simulation the
clients' points; or `classifier.npz`, which has no hulls."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.hull import convex_hull
from curvfed.server_app.directory.npz import read_npz
from curvfed.strategies.wire.array_file import read

if TYPE_CHECKING:  # only one-shot runs load classifiers of hulls
    from curvfed.strategies.hull.classifier import Classifier

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_NO_NUMBERS = np.empty(0, np.int64)
_NO_POINTS = np.empty((0, 2))
_OPTIONAL: dict[str, NDArray[Any]] = {
    "epsilon": np.array(np.inf),
    "points": _NO_POINTS,
    "client": _NO_NUMBERS,
    "hull": _NO_NUMBERS,
    "group": _NO_NUMBERS,
    "references": _NO_POINTS,
    "normals": _NO_POINTS,
    "class_names": np.empty(0, np.str_),
    "sample_points": _NO_POINTS,
    "sample_labels": _NO_NUMBERS,
    "test_points": _NO_POINTS,
    "test_labels": _NO_NUMBERS,
    "test_predicted": _NO_NUMBERS,
    "true_points": _NO_POINTS,
    "true_class": _NO_NUMBERS,
    "true_hull": _NO_NUMBERS,
    "votes": np.empty((0, 0)),
    "voted_names": np.empty(0, np.str_),
}
"""Arrays that a run without hulls or test points, or with real clients, does not write."""


class Hull(NamedTuple):
    """One decoded hull: an anonymous client, a group, and the corners (m, 2) in order."""

    client: int
    group: int
    corners: Array


class Points(NamedTuple):
    """Points (n, 2) and the class index (n,) of each."""

    points: Array
    labels: Integers


@dataclass(frozen=True, eq=False)
class HullFile:
    """The content of `hulls.npz` or `classifier.npz`.

    Attributes
    ----------
    curvature, epsilon : float
    points : array (n, 2)
        Vertices of the hulls: centres of bins.
    client, hull, group : int arrays (n,)
        For each vertex.
    references, normals : array (m, 2)
        The classifier's geodesics: m is 1 for two groups, the number of groups with hulls for
        more, and 0 if the classifier has no geodesics.
    names : tuple of J str
        The class that each group stands for; "" if unknown.
    class_names : tuple of str
        Empty if the server knows no classes.
    sample, test : Points
        Training and test points; empty if the server has none.
    predicted : int array
        Class of each test point; -1 for a group without a name.
    true_corners : Points
        Vertices of the hulls before quantisation, in order, with their classes; empty if the server
        does not know them.
    true_hull : int array
        The hull of each of these vertices.
    votes : array (J, v), or (0, 0)
        How many clients give a group each of `voted_names`.
    voted_names : tuple of v str
    classifier : Classifier or None
        None if `model.safetensors` is missing or does not belong to these hulls.

    Raises
    ------
    ValueError
        If the arrays do not fit together.
    """

    curvature: float
    epsilon: float
    points: Array
    client: Integers
    hull: Integers
    group: Integers
    references: Array
    normals: Array
    names: tuple[str, ...]
    class_names: tuple[str, ...]
    sample: Points
    test: Points
    predicted: Integers
    true_corners: Points
    true_hull: Integers
    votes: Array = field(default_factory=lambda: np.empty((0, 0)))
    voted_names: tuple[str, ...] = ()
    classifier: "Classifier | None" = None

    def __post_init__(self) -> None:
        if not (-math.inf < self.curvature < 0 < self.epsilon):
            raise ValueError("the curvature must be negative and epsilon positive")
        if self.normals.shape != self.references.shape or len(self.normals) not in (
            0,
            1,
            len(self.groups),
        ):
            raise ValueError(
                "references and normals must have one length: 0, 1 or the number of groups"
            )
        classes = len(self.class_names)
        numbers = (
            (self.client, len(self.points), len(self.points)),
            (self.hull, len(self.points), len(self.points)),
            (self.group, len(self.points), len(self.names)),
            (self.sample.labels, len(self.sample.points), classes),
            (self.test.labels, len(self.test.points), classes),
            (self.predicted + 1, len(self.test.points), classes + 1),
            (self.true_corners.labels, len(self.true_corners.points), classes),
            (self.true_hull, len(self.true_corners.points), len(self.true_corners.points)),
        )
        for column, length, bound in numbers:
            if column.shape != (length,) or not ((column >= 0) & (column < bound)).all():
                raise ValueError(
                    "a column of numbers has another length than its points, or values out of range"
                )
        for points in (
            self.points,
            self.references,
            self.sample.points,
            self.test.points,
            self.true_corners.points,
        ):
            if not (self._squares(points) < 1).all():
                raise ValueError("points are not finite or not within the disc")
        if (self._squares(self.points) > 1 - 1e-7).any():  # as `convex_hull` demands
            raise ValueError("vertices are on the boundary of the disc")
        if not np.isfinite(self.normals).all():
            raise ValueError("normals are not finite")
        owners = np.unique(np.stack([self.hull, self.client, self.group], axis=1), axis=0)
        if len(owners) > len(np.unique(self.hull)):
            raise ValueError("each hull must have one client and one group")
        if self.votes.size and self.votes.shape != (len(self.names), len(self.voted_names)):
            raise ValueError("the votes must have a row for each group and a column for each name")

    def _squares(self, points: Array) -> Array:
        """Squared norms, in units of the disc's squared radius."""
        return np.asarray(-self.curvature * np.square(points).sum(axis=1))

    @classmethod
    def read(cls, path: Path) -> "HullFile | None":
        """Read the file, and `model.safetensors` beside it; None if there is none.

        Raises
        ------
        OSError, ValueError
            If it cannot be read, lacks an array, or has an array of the wrong type.
        """
        if not path.exists():
            return None
        arrays = _OPTIONAL | read_npz(path)

        def points(name: str) -> Array:
            coordinates = arrays[name].astype(np.float64)
            if coordinates.ndim != 2 or coordinates.shape[1] != 2:
                raise ValueError(f"{name} of shape {coordinates.shape}: allowed is (n, 2)")
            return coordinates

        def integers(name: str) -> Integers:
            return arrays[name].astype(np.int64)

        def strings(name: str) -> tuple[str, ...]:
            return tuple(map(str, arrays[name].ravel()))

        try:
            return cls(
                curvature=float(arrays["curvature"]),
                epsilon=float(arrays["epsilon"]),
                points=points("points"),
                client=integers("client"),
                hull=integers("hull"),
                group=integers("group"),
                references=points("references"),
                normals=points("normals"),
                names=strings("names"),
                class_names=strings("class_names"),
                sample=Points(points("sample_points"), integers("sample_labels")),
                test=Points(points("test_points"), integers("test_labels")),
                predicted=integers("test_predicted"),
                true_corners=Points(points("true_points"), integers("true_class")),
                true_hull=integers("true_hull"),
                votes=arrays["votes"].astype(np.float64),
                voted_names=strings("voted_names"),
                classifier=_classifier(
                    path.with_name("model.safetensors"), np.unique(arrays["group"]).tolist()
                ),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{path} lacks an array, or has one of the wrong type: {error}"
            ) from None

    @cached_property
    def groups(self) -> list[int]:
        """The groups that have hulls, ascending."""
        return [int(number) for number in np.unique(self.group)]

    @cached_property
    def hulls(self) -> list[Hull]:
        """The hulls by number, corners counter-clockwise."""
        hulls = []
        for number in np.unique(self.hull):
            rows = np.flatnonzero(self.hull == number)
            corners = self.points[rows][convex_hull(self.points[rows], self.curvature)]
            hulls.append(Hull(int(self.client[rows[0]]), int(self.group[rows[0]]), corners))
        return hulls

    @cached_property
    def true_hulls(self) -> list[tuple[int, Array]]:
        """Class and corners of the hulls before quantisation."""
        rows_of_hulls = [
            np.flatnonzero(self.true_hull == number) for number in np.unique(self.true_hull)
        ]
        return [
            (int(self.true_corners.labels[rows[0]]), self.true_corners.points[rows])
            for rows in rows_of_hulls
        ]


def _classifier(path: Path, groups: list[int]) -> "Classifier | None":
    """The stored classifier; None if it is missing or damaged, or has other groups."""
    try:
        from curvfed.strategies.hull.classifier import Classifier

        classifier = Classifier.from_arrays(read(path)[0])
    except (OSError, ValueError):
        return None
    return classifier if classifier.groups.tolist() == groups or not groups else None
