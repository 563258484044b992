"""Names of the groups by the clients' votes, where the server has no test points that name them."""

import logging
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.hull.naming import NONE, elected

log = logging.getLogger("curvfed")


def named_by(votes: NDArray[np.float64], classes: Sequence[str]) -> tuple[tuple[str, ...], float | None]:
    """Elect the names, and log each group's votes.

    Parameters
    ----------
    votes : array (groups, classes)
        How many clients give a group the name of a class.

    Returns
    -------
    names : tuple of str
        "" for a group without any vote.
    agreed : float or None
        The share of all votes that are for the names elected; None without votes.
    """
    elect = elected(votes)
    names = tuple("" if one == NONE else classes[one] for one in elect)
    for group, (name, given) in enumerate(zip(names, votes, strict=True)):
        order = np.argsort(-given, kind="stable")
        told = ", ".join(f"{classes[one]} {given[one]:.0f}" for one in order if given[one] > 0)
        if told:
            log.info("group %d: %s (votes: %s)", group + 1, name or "no name", told)
    chosen = np.flatnonzero(elect != NONE)
    return names, float(votes[chosen, elect[chosen]].sum() / votes.sum()) if votes.any() else None
