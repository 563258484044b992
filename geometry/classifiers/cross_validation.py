"""Choice of a classifier's cost C by cross-validation."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvfed.geometry.classifiers.linear_classifier import LinearClassifier

GRID = tuple(10.0**power for power in range(-2, 6))
FOLDS = 5


def best_c(
    make: Callable[[float], LinearClassifier],
    X: ArrayLike,
    y: ArrayLike,
    grid: Sequence[float] = GRID,
    folds: int = FOLDS,
    seed: int = 0,
) -> float:
    """The C that classifies the most held-out points correctly.

    Parameters
    ----------
    make : callable
        Makes a classifier with a given C.
    X : array (n, d)
    y : array (n,)
    grid : sequence of floats, > 0 and finite
    folds : int ≥ 2
        See `stratified_folds`.
    seed : int

    Returns
    -------
    float
        Of equally good values the middle one in ascending order, or the smaller of the two middle
        ones. The middle of a range in which C does not matter is furthest from values that are
        worse.

    Raises
    ------
    ValueError
        If the grid is empty, a value is not > 0 and finite, or folds < 2; also as `fit`.
    """
    costs = sorted(float(cost) for cost in grid)
    if not costs or not (costs[0] > 0 and math.isfinite(costs[-1])):
        raise ValueError("a grid of C must have values, > 0 and finite")
    points = np.asarray(X)
    labels = np.asarray(y)
    training_masks = stratified_folds(labels, folds, seed)
    right = np.zeros(len(costs), int)
    for fold in training_masks:
        if not fold.all():
            shown = points[fold]
            hidden = points[~fold]
            hidden_labels = labels[~fold]
            models = make(costs[0]).fit_each(shown, labels[fold], costs)
            right += [np.count_nonzero(model.predict(hidden) == hidden_labels) for model in models]
    best = np.flatnonzero(right == right.max())
    return costs[int(best[(best.size - 1) // 2])]


def stratified_folds(y: ArrayLike, folds: int, seed: int) -> NDArray[np.bool_]:
    """Masks of the training points of each fold; each fold holds out an equal share of each class.

    Parameters
    ----------
    y : array (n,)
    folds : int ≥ 2
    seed : int

    Returns
    -------
    array (folds, n), bool
        Every point is held out of one fold. The numbers of held-out points, in total and of each
        class, differ by at most one between folds. The only member of a class is never held out, so
        that every fold has all classes.

    Raises
    ------
    ValueError
        If folds < 2.
    """
    if folds < 2:
        raise ValueError(f"{folds} folds; there must be at least 2")
    labels = np.asarray(y)
    rng = np.random.default_rng(seed)
    training = np.ones((folds, labels.size), bool)
    num_assigned = 0
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        if members.size > 1:
            training[(num_assigned + np.arange(members.size)) % folds, members] = False
            num_assigned += members.size
    return training
