"""How well classes are recognised, and how far the probabilities and the groups' names of a one-shot run hold."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.report.units import printable

if TYPE_CHECKING:  # other runs have no hulls, and load nothing of them
    from curvfed.server_app.directory.hull_file import HullFile

Z = 1.959964
"""Standard normal quantile of two-sided intervals of 95%."""

BANDS = (0.0, 0.5, 0.7, 0.9, 1.0)
"""Bounds of probability between which the share of right answers is told."""


class Share(NamedTuple):
    """A share of `of` points with its interval, and what it is a share of."""

    name: str
    of: int
    share: float
    low: float
    high: float
    told: str = ""


def wilson(right: int, of: int) -> tuple[float, float]:
    """The 95% interval of a binomial share (Wilson, 1927), which holds for few points and for shares of 0 and 1 too.

    Examples
    --------
    >>> [round(bound, 3) for bound in wilson(8, 10)]
    [0.49, 0.943]
    """
    middle = (right + Z * Z / 2) / (of + Z * Z)
    half = Z * np.sqrt(right * (of - right) / of + Z * Z / 4) / (of + Z * Z)
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))


def recalls(labels: NDArray[np.int64], predicted: NDArray[np.int64], names: Sequence[str]) -> list[Share]:
    """Of each class with test data the share that is recognised, the worst first, and what it is most often taken for.

    Parameters
    ----------
    labels, predicted : int array (n,)
        Numbers of classes; a prediction of -1 is no class.
    names : sequence of str
        A class without a name is called by its number.
    """
    most = int(np.concatenate([labels, predicted]).max(initial=-1))
    names, found = [*names, *map(str, range(len(names), most + 1))], []
    for number, name in enumerate(names):
        given = predicted[labels == number]
        if len(given):
            right, wrong = int((given == number).sum()), given[given != number]
            taken, times = np.unique(wrong, return_counts=True)
            told = ""
            if len(wrong):
                often = int(taken[times.argmax()])
                told = f"{names[often] if often >= 0 else 'no name'} ({times.max()})"
            found.append(Share(name, len(given), right / len(given), *wilson(right, len(given)), told))
    return sorted(found, key=lambda one: one.share)


def bands(file: "HullFile") -> list[Share]:
    """Of the test points in each band of probability the share that is right; empty without a classifier."""
    if file.classifier is None or not len(file.test.labels):
        return []
    chances = file.classifier.probabilities(file.test.points).max(axis=1)
    right: NDArray[np.bool_] = file.predicted == file.test.labels
    found = []
    for low, high in pairwise(BANDS):
        inside = (chances >= low) & ((chances < high) | (high == BANDS[-1]))
        if count := int(inside.sum()):
            told, name = f"{100 * chances[inside].mean():.1f}%", f"{low:.0%} to {high:.0%}"
            found.append(
                Share(name, count, float(right[inside].mean()), *wilson(int(right[inside].sum()), count), told)
            )
    return found


def ballots(file: "HullFile") -> list[tuple[str, int, float, str]]:
    """Of each group its name, how many clients name it, the share of these that agree, and the names they give."""
    found = []
    for name, given in zip(file.names, file.votes, strict=False):  # files of older versions have no votes
        count, agree = int(given.sum()), given[np.array(file.voted_names) == name].sum()
        order = [one for one in np.argsort(-given, kind="stable") if given[one] > 0]
        told = ", ".join(f"{printable(file.voted_names[one])} ({given[one]:.0f})" for one in order)
        found.append((name, count, float(agree) / count if count else np.nan, told))
    return found
