"""Class names of groups: the one-to-one assignment with the most correctly labelled points, or with
the most votes."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

NONE = -1
"""A group without a name, because there are more groups than classes."""


def name_groups(
    predicted: NDArray[np.int64], labels: NDArray[np.int64], num_groups: int, num_classes: int
) -> NDArray[np.int64]:
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
    names: NDArray[np.int64],
    predicted: NDArray[np.int64],
    client_classes: Sequence[str],
    public: Sequence[str],
) -> NDArray[np.float64]:
    """A client's votes, (groups, public classes): 1 for each group that has some of its points and
    a name at the client.

    Parameters
    ----------
    names : int array (groups,)
        As `name_groups` returns them for the client's own points, whose groups are `predicted`.
    client_classes, public : sequences of str
        The client's class names, and the federation's; a name that is not public gets no vote.
    """
    votes = np.zeros((len(names), len(public)))
    for group in np.intersect1d(np.flatnonzero(names != NONE), predicted):
        if client_classes[names[group]] in public:
            votes[group, public.index(client_classes[names[group]])] = 1
    return votes


def elect_names(votes: NDArray[np.float64]) -> NDArray[np.int64]:
    """The class of each group by the clients' votes (groups, classes): the assignment with the most
    votes; `NONE` without votes."""
    from scipy.optimize import linear_sum_assignment

    names = np.full(len(votes), NONE)
    groups, classes = linear_sum_assignment(-votes)
    names[groups] = np.where(votes[groups, classes] > 0, classes, NONE)
    return names


def names_by_votes(
    votes: NDArray[np.float64], classes: Sequence[str]
) -> tuple[tuple[str, ...], float | None]:
    """The names of the groups by the clients' votes (groups, classes), "" without votes, and the
    share of votes for these names."""
    elected = elect_names(votes)
    chosen = np.flatnonzero(elected != NONE)
    names = tuple("" if label == NONE else classes[label] for label in elected)
    if not votes.any():
        return names, None
    return names, float(votes[chosen, elected[chosen]].sum() / votes.sum())


def accuracy(
    predicted: NDArray[np.int64], labels: NDArray[np.int64], names: NDArray[np.int64]
) -> float | None:
    """The share of points whose predicted group has the name of their class; None without
    points.
    """
    return float((names[predicted] == labels).mean()) if len(labels) else None
