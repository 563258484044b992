"""Class names of groups, for evaluation only: the one-to-one assignment with the most correctly labelled points."""

import numpy as np
from numpy.typing import NDArray

NONE = -1
"""A group without a name, because there are more groups than classes."""


def name_groups(
    predicted: NDArray[np.int64], labels: NDArray[np.int64], num_groups: int, num_classes: int
) -> NDArray[np.int64]:
    """The class that each group stands for.

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


def accuracy(predicted: NDArray[np.int64], labels: NDArray[np.int64], names: NDArray[np.int64]) -> float | None:
    """The share of points whose predicted group has the name of their class; None without points."""
    return float((names[predicted] == labels).mean()) if len(labels) else None
