"""The classifier of groups, and the arrays that store it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from curvfed.geometry.arrays import Booleans, Floats, Integers
from curvfed.geometry.linear_classifiers import (
    Log0Logistic,
    LorentzLogistic,
    PlaneLogistic,
    QuadraticLogistic,
    best_c,
    checked_curvature,
    checked_points,
)
from curvfed.geometry.svm import PoincareHingeSVM, PoincareSVM
from curvfed.strategies.hull.depth import MedianDepth
from curvfed.strategies.hull.grouped_hulls import Outlines

Kind = Literal["poincare", "hinge", "logistic", "plane", "lorentz", "depth", "quadratic"]
Model = PoincareSVM | Log0Logistic | MedianDepth

_KINDS: tuple[Kind | None, ...] = (
    "poincare",
    None,
    "logistic",
    "plane",
    "lorentz",
    "depth",
    "quadratic",
)
"""The kinds by their numbers in stored models."""

_FLAT: dict[str, tuple[int, ...]] = {"normals": (2,), "intercepts": ()}
_PARTS: dict[Kind, dict[str, tuple[int, ...]]] = {
    "poincare": {"normals": (2,), "references": (2,), "platt": (2,)},
    "logistic": _FLAT,
    "plane": _FLAT,
    "lorentz": _FLAT | {"normals": (3,)},
    "depth": {"corners": (2,), "owners": (2,)},
    "quadratic": _FLAT | {"normals": (5,)},
}
"""The parameters of each of the m lines, with their shapes; for "depth" those of each corner of a
hull. The model's attributes have these names and an underscore."""

_LINEAR: dict[Kind, type[PoincareSVM] | type[Log0Logistic]] = {
    "poincare": PoincareSVM,
    "hinge": PoincareHingeSVM,
    "logistic": Log0Logistic,
    "plane": PlaneLogistic,
    "lorentz": LorentzLogistic,
    "quadratic": QuadraticLogistic,
}


WITHOUT_COST: tuple[Kind, ...] = ("depth", "quadratic")
"""The kinds that are not fitted at a cost C."""


def cost_words(kind: Kind, c: float) -> str:
    """ ", C = 10", or "" for a kind without a cost."""
    return "" if kind in WITHOUT_COST else f", C = {c:g}"


@dataclass(frozen=True, eq=False)
class Classifier:
    """A trained classifier of points in the Poincaré disc.

    Attributes
    ----------
    kind : {"poincare", "hinge", "logistic", "plane", "lorentz", "depth", "quadratic"}
        "hinge" is "poincare" trained by the plain hinge; it is stored as that. From "logistic" on:
        multinomial on log0, on x and y and on Lorentz coordinates, the median depth in hulls, and
        quadratic in log0.
    curvature : float
    model : PoincareSVM, Log0Logistic or MedianDepth
    temperature : float > 0
        The model's log probabilities are divided by it.
    outlines : Outlines
        Outlines of the groups: a point outside all of them is in no group. Without outlines every
        point is in a group.
    """

    kind: Kind
    curvature: float
    model: Model
    temperature: float = 1.0
    outlines: Outlines = field(default_factory=Outlines)

    @classmethod
    def train(
        cls,
        points: ArrayLike,
        groups: ArrayLike,
        curvature: float,
        c: float,
        hard: bool,
        seed: int,
        kind: Kind = "poincare",
    ) -> Self:
        """Train on grouped points.

        Parameters
        ----------
        points : array (n, 2)
        groups : array of integers (n,)
        curvature : float < 0
        c : float
            0 chooses the best value by cross-validation.
        hard : bool
            Use a hard margin and ignore `c`.
        seed : int
            For the folds of the cross-validation.
        kind : Kind
            Any but "depth", which is not a model of single points
            (`curvfed.strategies.hull.classifier_choice`).

        Raises
        ------
        ValueError
            If the points are not of shape (n, 2), finite and inside the disc; if there are not n
            integer groups, at least two different ones; if `c` or the curvature is out of its
            range; or if a logistic model is to be hard.
        curvfed.geometry.margin.NotSeparableError
            A ValueError, if a group cannot be separated from the rest by a hard margin.
        """
        inside = checked_points(points, checked_curvature(curvature))
        make = partial(_make, kind, curvature)
        cost = np.inf if hard else c or best_c(make, inside, groups, seed=seed)
        return cls(kind, float(curvature), make(cost).fit(inside, groups))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats]) -> Self:
        """Inverse of `arrays`.

        Raises
        ------
        ValueError
            If an array is missing, has another shape or type than `arrays` makes, or a value that
            is not allowed.
        """
        number, curvature, c = (
            float(_read(arrays, name, ())) for name in ("kind", "curvature", "c")
        )
        kind = _KINDS[int(number)] if number in range(len(_KINDS)) else None
        if kind is None:
            raise ValueError(f"classifier: array kind is {number:g}; allowed is 0 or 2 to 6")
        model = _make(kind, checked_curvature(curvature), c)
        groups = _read(arrays, "groups", (-1,))
        if groups.size < 2 or (groups != np.round(groups)).any() or (np.diff(groups) <= 0).any():
            raise ValueError(
                "classifier: array groups must have at least two integers, in ascending order"
            )
        model.classes_ = groups.astype(np.int64)
        lines = 1 if groups.size == 2 else groups.size
        if kind == "depth":
            lines = -1
        for name, shape in _PARTS[kind].items():
            setattr(model, f"{name}_", _read(arrays, name, (lines, *shape)).copy())
        if isinstance(model, PoincareSVM):
            checked_points(model.references_, curvature)
        if isinstance(model, MedianDepth):
            model.restore(curvature)
        temperature = float(_read(arrays, "temperature", ())) if "temperature" in arrays else 1.0
        if temperature <= 0:
            raise ValueError("classifier: array temperature must be > 0")
        outlines = Outlines()
        if "outlines" in arrays:
            shape = (groups.size, -1)
            outlines = Outlines(
                _read(arrays, "centres", (groups.size, 2)), _read(arrays, "outlines", shape)
            )
        return cls(kind, curvature, model, temperature, outlines)

    def arrays(self) -> dict[str, Floats]:
        """The classifier as float64 arrays: kind, curvature, c and groups (J,), then the parameters
        of m lines.

        m = 1 for two groups, else J. All kinds but "depth" have normals (m, 2), "lorentz" (m, 3),
        "quadratic" (m, 5). "poincare" also has references (m, 2), the others intercepts (m,).
        "poincare" has platt (m, 2). "depth" has corners (n, 2) of all hulls and owners (n, 2), the
        number of each corner's hull and its group. All have temperature (); centres (J, 2) and
        outlines (J, r) if the groups' outlines are known.
        """
        stored: Kind = "poincare" if self.kind == "hinge" else self.kind
        head = {
            "kind": _KINDS.index(stored),
            "curvature": self.curvature,
            "c": self.c,
            "groups": self.groups,
        }
        head |= {"temperature": self.temperature}
        if self.outlines.radii.size:
            head |= {"centres": self.outlines.centres, "outlines": self.outlines.radii}
        parts = {name: getattr(self.model, f"{name}_") for name in _PARTS[stored]}
        return {name: np.array(value, np.float64) for name, value in (head | parts).items()}

    @property
    def c(self) -> float:
        """The cost in use; inf for a hard margin and for "depth", which needs none."""
        return self.model.C

    @property
    def groups(self) -> Integers:
        """(J,), in ascending order."""
        return self.model.classes_

    @property
    def references(self) -> Floats:
        """Reference points of the geodesics, (m, 2); (0, 2) if the kind lacks them."""
        if isinstance(self.model, PoincareSVM):
            return self.model.references_
        return np.empty((0, 2))

    @property
    def normals(self) -> Floats:
        """Normals of the lines, (m, 2). Those of "poincare" are tangent vectors at the reference
        points."""
        if isinstance(self.model, MedianDepth):
            return np.empty((0, 2))
        return self.model.normals_

    def predict(self, points: ArrayLike) -> Integers:
        """Groups (n,) of points (n, 2).

        Raises
        ------
        ValueError
            If the points are not of shape (n, 2), finite and inside the disc.
        """
        return self.model.predict(checked_points(points, self.curvature))

    def probabilities(self, points: ArrayLike) -> Floats:
        """Probabilities (n, J) of the groups in ascending order. Raises as `predict`."""
        chances = self.model.predict_proba(checked_points(points, self.curvature))
        if self.temperature == 1:
            return chances
        shares = (chances / chances.max(axis=1, keepdims=True)) ** (1 / self.temperature)
        return shares / shares.sum(axis=1, keepdims=True)

    def unknown(self, points: ArrayLike) -> Booleans:
        """Whether points (n, 2) lie outside the outlines of all groups: (n,). Raises as
        `predict`.
        """
        return self.outlines.outside(
            checked_points(points, self.curvature) * np.sqrt(-self.curvature)
        )


def _make(kind: Kind, curvature: float, c: float) -> Any:
    if kind == "depth":
        return MedianDepth()
    return _LINEAR[kind](curvature, c)


def _read(arrays: Mapping[str, Floats], name: str, shape: tuple[int, ...]) -> Floats:
    """A stored array of a given shape, where -1 allows any length."""
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"classifier: array {name} is missing")
    if (
        array.dtype != np.float64
        or array.ndim != len(shape)
        or any(expected not in (-1, size) for expected, size in zip(shape, array.shape))
    ):
        raise ValueError(
            f"classifier: array {name} is {array.dtype} {array.shape}; it must be float64 {shape}"
        )
    if not np.isfinite(array).all() and name != "c":
        raise ValueError(f"classifier: array {name} has entries that are not finite")
    return array


NONE = -1
"""A group without a name, because there are more groups than classes."""


def name_groups(
    predicted: Integers, labels: Integers, num_groups: int, num_classes: int
) -> Integers:
    """The class of each group.

    Parameters
    ----------
    predicted, labels : int arrays (n,)
        Group and class of the same points.

    Returns
    -------
    int array (num_groups,)
        Each class at most once; `NONE` if there are too few classes.
    """
    from scipy.optimize import linear_sum_assignment

    counts = np.zeros((num_groups, num_classes))
    np.add.at(counts, (predicted, labels), 1)
    names = np.full(num_groups, NONE)
    groups, classes = linear_sum_assignment(-counts)
    names[groups] = classes
    return names


def client_votes(
    names: Integers,
    predicted: Integers,
    client_classes: Sequence[str],
    public: Sequence[str],
) -> Floats:
    """A client's votes, (groups, public classes): 1 for each group that has some of its points and
    a name at the client.

    Parameters
    ----------
    names : int array (groups,)
        As `name_groups` returns them for the client's own points in the groups `predicted`.
    client_classes, public : sequences of str
        The client's class names, and the federation's; a name that is not public gets no vote.
    """
    votes = np.zeros((len(names), len(public)))
    for group in np.intersect1d(np.flatnonzero(names != NONE), predicted):
        if client_classes[names[group]] in public:
            votes[group, public.index(client_classes[names[group]])] = 1
    return votes


def elect_names(votes: Floats) -> Integers:
    """The class of each group by the clients' votes (groups, classes): the assignment with the most
    votes; `NONE` without votes."""
    from scipy.optimize import linear_sum_assignment

    names = np.full(len(votes), NONE)
    groups, classes = linear_sum_assignment(-votes)
    names[groups] = np.where(votes[groups, classes] > 0, classes, NONE)
    return names


def names_by_votes(votes: Floats, classes: Sequence[str]) -> tuple[tuple[str, ...], float | None]:
    """The names of the groups by the clients' votes (groups, classes), "" without votes, and the
    share of votes for these names."""
    elected = elect_names(votes)
    chosen = np.flatnonzero(elected != NONE)
    names = tuple("" if label == NONE else classes[label] for label in elected)
    if not votes.any():
        return names, None
    return names, float(votes[chosen, elected[chosen]].sum() / votes.sum())


def accuracy(predicted: Integers, labels: Integers, names: Integers) -> float | None:
    """The share of points with a predicted group that has the name of their class; None without
    points.
    """
    if len(labels):
        return float((names[predicted] == labels).mean())
    return None
