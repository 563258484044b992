"""Support vector machines in the Poincaré disc and in the plane.

The loss is the squared hinge, as in the authors' program, or the hinge of the paper's Eq. 7.
"""

import inspect
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from curvfed.geometry import poincare
from curvfed.geometry.arrays import Booleans, Floats, Indices
from curvfed.geometry.hull import convex_hull
from curvfed.geometry.linear_classifiers import LinearClassifier, checked_curvature, checked_points
from curvfed.geometry.margin import (
    NotSeparableError,
    fit_platt,
    hinge_margin,
    log_platt,
    margins,
    soft_margin,
)


class Estimator:
    """A classifier that `clone`, `cross_val_score` and their like accept; its parameters are those
    of `__init__`."""

    _estimator_type = "classifier"  # read by scikit-learn before 1.6

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; `deep` is ignored, because none is an estimator."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name.

        Raises
        ------
        ValueError
            If a name is not a parameter, or a value is out of its range.
        """
        parameters = self.get_params()
        for name in params.keys() - parameters:
            raise ValueError(
                f"{type(self).__name__}: no parameter {name!r}; allowed are {', '.join(parameters)}"
            )
        vars(self).update(vars(type(self)(**parameters | params)))
        return self

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Share of the points (n, 2) predicted as their label (n,)."""
        return float(np.mean(self.predict(X) == np.asarray(y)))  # type: ignore[attr-defined]

    def check_fitted(self) -> None:
        """Raise NotFittedError if `fit` has not been called; ValueError without scikit-learn."""
        if hasattr(self, "classes_"):
            return
        message = f"This {type(self).__name__} is not fitted yet; call fit first"
        try:
            from sklearn.exceptions import NotFittedError
        except ImportError:
            raise ValueError(message) from None
        raise NotFittedError(message)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, Tags, TargetTags

        return Tags("classifier", TargetTags(required=True), classifier_tags=ClassifierTags())


_PAIRS = 3  # reference points are tried between this number of closest pairs of extreme points


class OneVsRest(Estimator, LinearClassifier):
    """A support vector machine for each class against the rest; a single machine for two classes.

    Parameters
    ----------
    C : float > 0
        Cost of the slack, at most 1e12; `math.inf` is the hard margin.

    Attributes
    ----------
    soft_margin : callable
        Of the class: `curvfed.geometry.margin.soft_margin` or `hinge_margin`.
    platt_ : array (m, 2), float64
        The result of `platt.fit_platt` on the training data.

    Notes
    -----
    Cross-validation with eight classes trains a thousand of these small machines. All machines of a
    fit are trained as one batch, in the time in which scikit-learn's LinearSVC trains one or two.
    """

    platt_: Floats
    soft_margin = staticmethod(soft_margin)

    def _prepared(self, points: Floats, labels: Indices) -> Callable[[], None]:
        num = len(self.classes_)
        sides: Booleans = labels == np.arange(1 if num == 2 else 0, num)[:, None]
        candidates = self._candidates(points, sides)
        features = self._features(points, candidates)
        signed = np.where(sides, 1, -1)[:, None, None] * features

        def train() -> None:
            problems = signed.reshape(-1, *signed.shape[2:])
            normals = margins(problems, self.C, self.soft_margin).reshape(features.shape[:-1])
            scores = (normals[..., None, :] @ features)[..., 0, :]
            right = np.count_nonzero((scores > 0) == sides[:, None], axis=-1)
            best = np.arange(len(sides)), right.argmax(axis=-1)
            if np.isinf(self.C) and not normals[best].any(axis=-1).all():
                raise NotSeparableError(
                    "C = inf, but a class cannot be separated from the rest; give a finite C"
                )
            self._store(normals[best], candidates[best])
            self.platt_ = fit_platt(scores[best], sides)

        return train

    def _logs(self, scores: Floats) -> Floats:
        logs = log_platt(scores, self.platt_)
        if len(logs) == 1:
            return np.concatenate([log_platt(scores, -self.platt_), logs])
        return logs

    @abstractmethod
    def _candidates(self, points: Floats, sides: Booleans) -> Floats:
        """Reference points (m, k, 2) to try, the most promising first, for points (n, 2) and sides
        (m, n).

        The one with the best accuracy on the training data is used, or the first of these.
        """

    @abstractmethod
    def _features(self, points: Floats, references: Floats) -> Floats:
        """Features (..., d, n) of points (n, 2) for reference points (..., 2)."""

    @abstractmethod
    def _store(self, normals: Floats, references: Floats) -> None:
        """Store normals (m, d) and reference points (m, 2) as attributes."""


class PoincareSVM(OneVsRest):
    """Support vector machine in the Poincaré disc. Its hyperplanes are geodesics through reference
    points p.

    The score is w·log_p(x). The reference point p replaces an intercept.

    Parameters
    ----------
    curvature : float < 0
    C : float > 0
        Cost of the squared hinge (Eq. 7 with the hinge squared), at most 1e12; `math.inf` is the
        hard margin (Eq. 6).
    reference : array (2,) or (m, 2), optional
        Reference points inside the disc, one for all classifiers or one for each. If None, the
        geodesic midpoints of the three closest pairs of extreme points of the two sides are tried.
        The one with the best accuracy on the training data is used; of equally good ones, that of
        the closest pair.

    Attributes
    ----------
    references_ : array (m, 2), float64
    normals_ : array (m, 2), float64
        w, tangent vectors at p.

    Raises
    ------
    ValueError
        If the curvature or C is out of its range, or a reference point is not inside the disc.

    Notes
    -----
    Chien et al., Highly scalable and provably accurate classification in Poincaré balls (2021), as
    in the paper's Eqs. 1, 5, 6 and 7, with the three pairs of its Appendix I.2.

    Examples
    --------
    >>> points = [[0.5, 0.1], [0.4, -0.2], [-0.5, 0.1], [-0.3, 0.2]]
    >>> labels = ["right", "right", "left", "left"]
    >>> PoincareSVM(curvature=-1.0, C=1.0).fit(points, labels).predict([[0.2, 0.0]])
    array(['right'], dtype='<U5')
    """

    references_: Floats

    def __init__(self, curvature: float, C: float, reference: ArrayLike | None = None) -> None:
        super().__init__(C, checked_curvature(curvature))
        self.reference = (
            None if reference is None else checked_points(np.atleast_2d(reference), curvature)
        )

    def _candidates(self, points: Floats, sides: Booleans) -> Floats:
        if self.reference is not None:
            if len(self.reference) not in (1, len(sides)):
                raise ValueError(
                    f"{len(self.reference)} reference points for {len(sides)} classifiers"
                )
            return np.broadcast_to(self.reference[:, None], (len(sides), 1, 2))
        ends = np.array([self._closest(points[side], points[~side]) for side in sides])
        start, end = torch.from_numpy(ends).unbind(dim=-2)
        half_way = poincare.log(start, end, self.curvature) / 2
        return poincare.exp(start, half_way, self.curvature).numpy()

    def _closest(self, first: Floats, second: Floats) -> Floats:
        """The closest pairs of extreme points, (3, 2, 2). If there are fewer pairs, the closest one
        is repeated."""
        start, end = (side[convex_hull(side, self.curvature)] for side in (first, second))
        # sinh² of half the distance, divided by |c|: it has the same order as the distance.
        squares = np.square(start[:, None] - end).sum(axis=-1)
        apart = squares / (self._defect(start)[:, None] * self._defect(end))
        order = np.argsort(apart, axis=None, kind="stable")[:_PAIRS]
        padding = np.full(_PAIRS - order.size, order[0])
        i, j = np.unravel_index(np.append(order, padding), apart.shape)
        return np.stack([start[i], end[j]], axis=1)

    def _defect(self, points: Floats) -> Floats:
        return 1 + self.curvature * np.square(points).sum(axis=-1)

    def _features(self, points: Floats, references: Floats) -> Floats:
        origin = torch.tensor(references).unsqueeze(-2)
        return (
            poincare.log(origin, torch.from_numpy(points), self.curvature).mT.contiguous().numpy()
        )

    def _store(self, normals: Floats, references: Floats) -> None:
        self.normals_ = normals
        self.references_ = references

    def _scores(self, points: Floats) -> Floats:
        self.check_fitted()
        return (self.normals_[:, None] @ self._features(points, self.references_))[:, 0]


class PoincareHingeSVM(PoincareSVM):
    """`PoincareSVM` with the plain hinge of Eq. 7. The relative error of w is about 1e-7."""

    soft_margin = staticmethod(hinge_margin)


class EuclideanSVM(OneVsRest):
    """Support vector machine on Euclidean coordinates. The score is w·x + b, and b² is part of the
    regularised norm.

    It is one-vs-rest as LinearSVC, but Platt's probabilities decide between more than two classes.

    Parameters
    ----------
    C : float > 0
        Cost of the squared hinge, at most 1e12; `math.inf` is the hard margin.

    Attributes
    ----------
    normals_ : array (m, 2), float64
        w.
    intercepts_ : array (m,), float64
        b.

    Examples
    --------
    >>> points = [[0.5, 0.1], [0.4, -0.2], [-0.5, 0.1], [-0.3, 0.2]]
    >>> labels = ["right", "right", "left", "left"]
    >>> EuclideanSVM(C=1.0).fit(points, labels).predict([[0.2, 0.0]])
    array(['right'], dtype='<U5')
    """

    intercepts_: Floats

    def _candidates(self, points: Floats, sides: Booleans) -> Floats:
        return np.zeros((len(sides), 1, 2))

    def _features(self, points: Floats, references: Floats) -> Floats:
        rows = np.vstack([points.T, np.ones(len(points))])
        return np.broadcast_to(rows, (*references.shape[:-1], *rows.shape))

    def _store(self, normals: Floats, references: Floats) -> None:
        self.normals_ = normals[:, :2].copy()
        self.intercepts_ = normals[:, 2].copy()

    def _scores(self, points: Floats) -> Floats:
        self.check_fitted()
        return self.normals_ @ points.T + self.intercepts_[:, None]
