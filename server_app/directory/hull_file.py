"""The file `hulls.npz` of a one-shot run: decoded hulls, classifier, and in a simulation the
clients' points; or `classifier.npz`, which has no hulls."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.hull import convex_hull
from curvfed.server_app.directory.npz import read_npz
from curvfed.strategies.wire.store import read

if TYPE_CHECKING:  # only one-shot runs load classifiers of hulls
    from curvfed.strategies.hull.classifier import Classifier

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

_POINTS = ("points", "references", "normals", "sample_points", "test_points", "true_points")
_NUMBERS = ("client", "hull", "group", "sample_labels", "test_labels", "test_predicted")
_OPTIONAL: dict[str, NDArray[Any]] = {
    **dict.fromkeys(_POINTS, np.empty((0, 2))),
    **dict.fromkeys((*_NUMBERS, "true_class", "true_hull"), np.empty(0, np.int64)),
    **dict.fromkeys(("class_names", "voted_names"), np.empty(0, np.str_)),
    "votes": np.empty((0, 0)),
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
    curvature : float
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
    """

    curvature: float
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
    votes: Array
    voted_names: tuple[str, ...]
    classifier: "Classifier | None"

    @classmethod
    def read(cls, path: Path) -> "HullFile | None":
        """Read the file, and `model.safetensors` beside it; None if there is none.

        Raises
        ------
        OSError, ValueError
            If it cannot be read, or is damaged.
        """
        if not path.exists():
            return None
        arrays = _OPTIONAL | read_npz(path)
        plain = ("points", "client", "hull", "group", "references", "normals", "true_hull", "votes")
        content: dict[str, Any] = {name: arrays[name] for name in plain}
        for name in ("names", "class_names", "voted_names"):
            content[name] = tuple(map(str, arrays[name]))
        return cls(
            curvature=float(arrays["curvature"]),
            sample=Points(arrays["sample_points"], arrays["sample_labels"]),
            test=Points(arrays["test_points"], arrays["test_labels"]),
            predicted=arrays["test_predicted"],
            true_corners=Points(arrays["true_points"], arrays["true_class"]),
            classifier=_classifier(
                path.with_name("model.safetensors"), np.unique(arrays["group"]).tolist()
            ),
            **content,
        )

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
