"""What a page shows of the .npz files in a run directory: the hulls of a one-shot run, and the
global model on the server's test images."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.arrays import Array, Floats, Indices, Integers
from curvfed.server_app.directory.array_files import SPACES, read_npz
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.strategies.wire.store import read

if TYPE_CHECKING:  # only one-shot runs load classifiers of hulls
    from curvfed.strategies.hull.classifier import Classifier

_POINTS = ("points", "references", "normals", "sample_points", "test_points", "true_points")
_NUMBERS = ("client", "hull", "group", "sample_labels", "test_labels", "test_predicted")
_OPTIONAL: dict[str, Array] = {
    **dict.fromkeys(_POINTS, np.empty((0, 2))),
    **dict.fromkeys((*_NUMBERS, "true_class", "true_hull"), np.empty(0, np.int64)),
    **dict.fromkeys(("class_names", "voted_names"), np.empty(0, np.str_)),
    "votes": np.empty((0, 0)),
}
"""Arrays that a run without hulls or test points, or with real clients, does not write."""


def hulls_of(run: RunFiles) -> "HullFile | None":
    """`hulls.npz` of a run, or `classifier.npz` of a one-shot run without hulls."""
    hulls: HullFile | None = run.optional("hulls.npz", HullFile.read)
    return hulls or run.optional("classifier.npz", HullFile.read)


def global_test_of(run: RunFiles) -> "GlobalTest | None":
    """`global_test.npz`; None for runs without a test set at the server."""
    test: GlobalTest | None = run.optional("global_test.npz", GlobalTest.read)
    return test


class Hull(NamedTuple):
    """One decoded hull: an anonymous client, a group, and the corners (m, 2) in order."""

    client: int
    group: int
    corners: Floats


class Points(NamedTuple):
    """Points (n, 2) and the class index (n,) of each."""

    points: Floats
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
        The classifier's geodesics: m is 1 for two groups, the number of groups with hulls for more,
        and 0 for a classifier without geodesics.
    names : tuple of J str
        The class that each group stands for; "" if unknown.
    class_names : tuple of str
        Empty if the server knows no classes.
    sample, test : Points
        Training and test points; empty if the server lacks them.
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
    points: Floats
    client: Integers
    hull: Integers
    group: Integers
    references: Floats
    normals: Floats
    names: tuple[str, ...]
    class_names: tuple[str, ...]
    sample: Points
    test: Points
    predicted: Integers
    true_corners: Points
    true_hull: Integers
    votes: Floats
    voted_names: tuple[str, ...]
    classifier: "Classifier | None"

    @classmethod
    def read(cls, path: Path) -> "HullFile | None":
        """Read the file, and `model.safetensors` in its folder; None if the file is missing.

        Raises
        ------
        OSError, ValueError
            If it cannot be read, or is damaged.
        """
        if not path.exists():
            return None
        arrays = _OPTIONAL | read_npz(path)
        groups = np.unique(arrays["group"]).tolist()
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
            classifier=_classifier(path.with_name("model.safetensors"), groups),
            **content,
        )

    @cached_property
    def groups(self) -> list[int]:
        """The groups that have hulls, ascending."""
        return [int(number) for number in np.unique(self.group)]

    @cached_property
    def hulls(self) -> list[Hull]:
        """The hulls by number, corners counter-clockwise."""
        from curvfed.geometry.hull import convex_hull  # imports torch

        hulls = []
        for number in np.unique(self.hull):
            rows = np.flatnonzero(self.hull == number)
            corners = self.points[rows][convex_hull(self.points[rows], self.curvature)]
            hulls.append(Hull(int(self.client[rows[0]]), int(self.group[rows[0]]), corners))
        return hulls

    @cached_property
    def true_hulls(self) -> list[tuple[int, Floats]]:
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


@dataclass(frozen=True, eq=False)
class GlobalTest:
    """The content of `global_test.npz`.

    Attributes
    ----------
    labels : int array (n,)
        0 or more.
    predicted : int array (n,)
        -1 where the model's output was not finite.
    features : float array (m, d), m <= n
        Features of the first m images.
    prototypes : float array (C, d) or None
        The class prototypes: unit vectors, or in space "poincare" points of the unit ball.
    space : str
        "flat", "sphere" (only the features' direction matters), "poincare" (they are tangent
        vectors at the origin) or "prototypes" (flat, with prototypes among the features).
    images : uint8 array (k, h, w, c), c = 1 or 3
        One image of each of some classes; none of a public data set.
    image_labels : int array (k,)
        Their labels.

    Raises
    ------
    ValueError
        If the arrays contradict each other.
    """

    labels: Indices
    predicted: Indices
    features: Floats
    prototypes: Floats | None = None
    space: str = "flat"
    images: NDArray[np.uint8] = field(default_factory=lambda: np.zeros((0, 1, 1, 1), np.uint8))
    image_labels: Indices = field(default_factory=lambda: np.zeros(0, np.intp))

    def __post_init__(self) -> None:
        shapes = {self.labels.shape, self.predicted.shape, (self.labels.size,)}
        if (
            len(shapes) > 1
            or not self.labels.size
            or min(self.labels.min(), self.predicted.min() + 1) < 0
        ):
            raise ValueError(
                "labels and predicted must have one length, 1 or more, and values from 0 and"
                " from -1"
            )
        if self.features.ndim != 2 or len(self.features) > len(self.labels):
            raise ValueError(
                f"features of shape {self.features.shape}: allowed is (m, d), m at most"
                f" {len(self.labels)}"
            )
        if self.prototypes is not None and self.prototypes.shape[1:] != self.features.shape[1:]:
            raise ValueError(
                f"prototypes of shape {self.prototypes.shape} for features of {self.features.shape}"
            )
        if self.space not in SPACES:
            raise ValueError(f'space "{self.space}": allowed is one of {", ".join(SPACES)}')
        if self.images.shape[:-3] != self.image_labels.shape or not set(self.image_labels) <= set(
            self.labels
        ):
            raise ValueError(f"images of shape {self.images.shape} with labels {self.image_labels}")

    @classmethod
    def read(cls, path: Path) -> "GlobalTest | None":
        """Read the file; None if it is missing.

        Raises
        ------
        OSError, ValueError
            If it cannot be read, or has other content.
        """
        if not path.exists():
            return None
        arrays = read_npz(path)
        try:
            prototypes = arrays["prototypes"].astype(np.float64) if "prototypes" in arrays else None
            labels, predicted = (arrays[name].astype(np.intp) for name in ("labels", "predicted"))
            pictures = {name: arrays[name] for name in ("images", "image_labels") if name in arrays}
            features = arrays["features"].astype(np.float64)
            space = str(arrays["space"])
            return cls(labels, predicted, features, prototypes, space, **pictures)
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} has other content than expected: {error}") from None
