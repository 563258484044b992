"""Clients whose hulls lie where the other clients' hulls of the same group are not."""

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.hull.bodies import Bodies

FAR = 0.6
"""A client is odd if the share of its corners that lie deepest in their own group is below this part of the median share.

Of 10 clients with ten overlapping classes, also with Dirichlet(0.1) parts, honest shares are at least 0.6 of the median
and those of clients with points on the rim, noise or shuffled labels 0.1 to 0.5 of it.
"""


def odd_clients(bodies: Bodies) -> NDArray[np.int64]:
    """The numbers of the clients that look odd beside the others; of fewer than three, nobody can tell which one it is.

    A client of one class has no class that it could be taken for by mistake, but its corners can lie in another group.
    """
    clients, groups = np.unique(bodies.clients), np.unique(bodies.groups)
    if len(clients) < 3:
        return np.zeros(0, np.int64)
    shares = []
    for client in clients:
        mine = bodies.clients == client
        deepest = groups[bodies.depths_without(mine).argmax(axis=1)]
        shares.append(float((deepest == bodies.labels[mine[bodies.hull_of]]).mean()))
    odd: NDArray[np.int64] = clients[np.array(shares) < FAR * np.median(shares)]
    return odd


def without(bodies: Bodies, odd: NDArray[np.int64]) -> Bodies:
    """The hulls of the others; a group that only odd clients have keeps its hulls, so that no class is lost."""
    honest = ~np.isin(bodies.clients, odd)
    return bodies.where(honest | ~np.isin(bodies.groups, bodies.groups[honest]))
