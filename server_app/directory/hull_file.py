"""What a one-shot run leaves to be drawn: the decoded hulls, what they are of, and its classifier."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.hull import convex_hull
from curvfed.server_app.directory.npz import read_npz
from curvfed.strategies.hull.classifier import Classifier

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

SWEEP = ("epsilon", "flp", "fle", "vertices_mean", "vertices_max", "share")
"""What is told of other epsilons: accuracies of the federated Poincaré and Euclidean SVM, vertices of a hull, and the share
of the points that leaves the clients."""


class Hull(NamedTuple):
    """One decoded hull: an anonymous client, a group, and the corners (m, 2) in order."""

    client: int
    group: int
    corners: Array


class Points(NamedTuple):
    """Points (n, 2) and the index (n,) of the class of each."""

    points: Array
    labels: Integers


@dataclass(frozen=True, eq=False)
class HullFile:
    """The content of `hulls.npz`.

    Attributes
    ----------
    curvature, epsilon : float
    points : array (n, 2)
        Vertices of the hulls, centres of bins.
    client, hull, group : int arrays (n,)
        Of each vertex.
    references, normals : array (m, 2)
        Of the classifier's geodesics: m is 1 for two groups, else that of the groups with hulls; or 0 where it has none.
    names : tuple of J str
        The class that each group stands for, "" where that is not known.
    class_names : tuple of str
        Empty where the server knows no classes.
    sample, test : Points
        Empty where the server has none.
    predicted : int array
        Class of each test point, -1 for none.
    true_corners : Points
        Vertices of the hulls before quantisation, in order, with their classes; empty where the server has none.
    true_hull : int array
        Of each of these.
    sweep : mapping of str to array (e,)
        Empty, or all of `SWEEP`; NaN where nothing came of an epsilon.
    classifier : Classifier or None
        None where `model.safetensors` is not there or another's.

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
    sweep: Mapping[str, Array] = field(default_factory=dict)
    classifier: Classifier | None = None

    def __post_init__(self) -> None:
        if not (-math.inf < self.curvature < 0 < self.epsilon < math.inf):
            raise ValueError("the curvature must be negative and epsilon positive")
        if self.normals.shape != self.references.shape or len(self.normals) not in (0, 1, len(self.groups)):
            raise ValueError("references and normals must be of one length: 0, 1 or the number of groups")
        classes = len(self.class_names)
        numbers = (
            (self.client, len(self.points), len(self.points)), (self.hull, len(self.points), len(self.points)),
            (self.group, len(self.points), len(self.names)), (self.sample.labels, len(self.sample.points), classes),
            (self.test.labels, len(self.test.points), classes), (self.predicted + 1, len(self.test.points), classes + 1),
            (self.true_corners.labels, len(self.true_corners.points), classes),
            (self.true_hull, len(self.true_corners.points), len(self.true_corners.points)),
        )  # fmt: skip
        for column, length, bound in numbers:
            if column.shape != (length,) or not ((column >= 0) & (column < bound)).all():
                raise ValueError("a column of numbers is of another length than its points, or out of its range")
        for points in (self.points, self.references, self.sample.points, self.test.points, self.true_corners.points):
            if not (self._squares(points) < 1).all():
                raise ValueError("points that are not finite or not within the disc")
        if (self._squares(self.points) > 1 - 1e-7).any():  # where convex hulls end
            raise ValueError("vertices on the boundary of the disc")
        if not np.isfinite(self.normals).all():
            raise ValueError("normals that are not finite")
        owners = np.unique(np.stack([self.hull, self.client, self.group], axis=1), axis=0)
        if not len(owners) or len(owners) > len(np.unique(self.hull)):
            raise ValueError("there must be hulls, each of one client and in one group")
        if self.sweep and any(column.shape != self.sweep["epsilon"].shape for column in self.sweep.values()):
            raise ValueError("the columns of the sweep must be of one length")

    def _squares(self, points: Array) -> Array:
        """Squared norms as shares of the disc's."""
        squares: Array = -self.curvature * np.square(points).sum(axis=1)
        return squares

    @classmethod
    def read(cls, path: Path) -> "HullFile | None":
        """Read the file, and `model.safetensors` beside it; None if there is none.

        Raises
        ------
        OSError, ValueError
            If it cannot be read, or does not hold what it should.
        """
        if not path.exists():
            return None
        try:
            return cls._of(read_npz(path), path.with_name("model.safetensors"))
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path} does not hold what it should: {error}") from None

    @classmethod
    def _of(cls, told: Mapping[str, NDArray[Any]], model: Path) -> "HullFile":
        def pairs(name: str) -> Array:
            found = told[name].astype(np.float64)
            if found.ndim != 2 or found.shape[1] != 2:
                raise ValueError(f"{name} of shape {found.shape}: allowed is (n, 2)")
            return found

        def labelled(points: str, labels: str) -> Points:
            if points not in told:
                return Points(np.empty((0, 2)), np.empty(0, np.int64))
            return Points(pairs(points), told[labels].astype(np.int64))

        def column(name: str, of: Points) -> Integers:
            return told[name].astype(np.int64) if len(of.points) else np.empty(0, np.int64)

        test, true = labelled("test_points", "test_labels"), labelled("true_points", "true_class")
        curves = {name: told[f"sweep_{name}"].astype(np.float64) for name in SWEEP} if "sweep_epsilon" in told else {}
        return cls(
            curvature=float(told["curvature"]),
            epsilon=float(told["epsilon"]),
            points=pairs("points"),
            client=told["client"].astype(np.int64),
            hull=told["hull"].astype(np.int64),
            group=told["group"].astype(np.int64),
            references=pairs("references"),
            normals=pairs("normals"),
            names=tuple(map(str, told["names"].ravel())),
            class_names=tuple(map(str, told["class_names"].ravel())) if "class_names" in told else (),
            sample=labelled("sample_points", "sample_labels"),
            test=test,
            predicted=column("test_predicted", test),
            true_corners=true,
            true_hull=column("true_hull", true),
            sweep=curves,
            classifier=_classifier(model, np.unique(told["group"]).tolist()),
        )

    @cached_property
    def groups(self) -> list[int]:
        """The groups that have hulls, ascending."""
        return [int(one) for one in np.unique(self.group)]

    @cached_property
    def hulls(self) -> list[Hull]:
        """The hulls by number, corners counter-clockwise."""
        found = []
        for number in np.unique(self.hull):
            there = np.flatnonzero(self.hull == number)
            corners = self.points[there][convex_hull(self.points[there], self.curvature)]
            found.append(Hull(int(self.client[there[0]]), int(self.group[there[0]]), corners))
        return found

    @cached_property
    def true_hulls(self) -> list[tuple[int, Array]]:
        """Class and corners of the hulls before quantisation."""
        of = [np.flatnonzero(self.true_hull == number) for number in np.unique(self.true_hull)]
        return [(int(self.true_corners.labels[there[0]]), self.true_corners.points[there]) for there in of]


def _classifier(path: Path, groups: list[int]) -> Classifier | None:
    """What a run has stored; None where it is not there or not one of these groups."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        found = Classifier.from_arrays(load_file(path))
    except (OSError, ValueError, SafetensorError):
        return None
    return found if found.groups.tolist() == groups else None
