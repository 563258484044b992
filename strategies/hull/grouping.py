"""Which of the clients' convex hulls belong to the same class, from the distances between them alone.

The server sees hulls without labels, but knows which come from the same client. The paper cuts the complete graph over the
hulls, whose edges weigh 1/(average pairwise distance) (Eq. 8), in balanced parts: for two classes by Kernighan and Lin,
for more by spectral clustering. Both go wrong where clients lack classes, for the parts are not of equal size then.
The assignment here needs no balance: it holds on to what is sure, that a client has one hull of a class.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Matrix = NDArray[np.float64]

METHODS = ("assignment", "kernighan-lin", "spectral")

MOST_STARTS = 50
"""Clients that the assignment starts from, each with sweeps of its own."""

_SAME_CLIENT = 0.01  # of the least weight: what keeps hulls of one client apart in spectral clustering
_ROUNDING = 1e-12  # of the cost of the whole: what is gained beyond it is gained
_SWEEPS = 100  # over all clients, before a start gives up; usual are 2 to 4


def group(
    clients: Sequence[Sequence[ArrayLike]], num_groups: int, curvature: float, method: str = "assignment", seed: int = 0
) -> list[list[int]]:
    """Put every hull in a group, by the average hyperbolic distances of any two.

    Parameters
    ----------
    clients : sequence of clients, each a sequence of arrays (m, 2)
        The points of every hull in the Poincaré disc of radius 1/√|curvature|, m ≥ 1. A client may have none.
    num_groups : int
        1 or more.
    curvature : float
        Sectional curvature, negative. It scales all distances.
    method : {"assignment", "kernighan-lin", "spectral"}
        "assignment" is deterministic, and two hulls of a client never share a group. The others are as published:
        "kernighan-lin" makes two groups of equal size, or of sizes that differ by one; "spectral" may put hulls of a
        client together, and may leave groups out.
    seed : int
        Of the two published ones.

    Returns
    -------
    list of list of int
        The group of every hull, numbered by first appearance. They are `num_groups`, but for "spectral".

    Raises
    ------
    ValueError
        If there are fewer hulls than groups; if a hull is no array (m, 2) of finite points in the disc; if the curvature
        is not negative and finite; if the method is none of the three; if "kernighan-lin" is asked for other than two
        groups; or if under "assignment" a client has more hulls than there are groups.

    Notes
    -----
    The assignment minimises Σ over hulls of the average distance between its points and those of its group, of which every
    hull, itself among them, counts the same: Σ_g Σ_{u,v ∈ g} d(u, v) / |g| with d of Eq. 8. Of hulls as distributions this
    is the cost of k-means in terms of their energy distances, so groups of any sizes compare. What a hull adds to
    a group depends on no other of its client, so that the best places of a client's hulls, the others held, are an
    assignment (Kuhn, 1955). Sweeps over the clients take these until nothing is gained. Every client starts once with a
    group per hull, those with the most hulls first, `MOST_STARTS` at most; where groups are left to open, the hull that is
    furthest from all open ones opens the next. The cheapest result is kept; of some 1,500 cases of few random hulls it was
    beside the optimum in two. Clients start and are swept in an order that distances alone decide: the result does not
    depend on theirs, but for ties.

    Time on one core: 2 ms for 3 clients of 8 classes with 6 points per hull, 70 ms for 10 clients with 25, 25 s for 1,000
    clients of 2 classes with 10.
    """
    if method not in METHODS:
        raise ValueError(f'grouping: method "{method}"; allowed is one of {", ".join(METHODS)}')
    hulls = _checked(clients, curvature)
    if not 1 <= num_groups <= len(hulls):
        raise ValueError(f"grouping: {num_groups} groups of {len(hulls)} hulls; allowed are 1 to {len(hulls)}")
    owner = np.repeat(np.arange(len(clients)), [len(client) for client in clients])
    distances = average_distances(hulls, curvature)
    if method == "assignment":
        found = _assignment(distances, owner, num_groups)
    elif method == "kernighan-lin":
        found = _kernighan_lin(distances, num_groups, seed)
    else:
        found = _spectral(distances, owner, num_groups, seed)
    number: dict[int, int] = {}
    named = iter([number.setdefault(one, len(number)) for one in found])
    return [[next(named) for _ in client] for client in clients]


def average_distances(hulls: Sequence[Matrix], curvature: float) -> Matrix:
    """Average hyperbolic distance between the points of any two hulls (Eq. 8).

    Parameters
    ----------
    hulls : sequence of n arrays (m, 2), float64
        Finite points of the open disc, m ≥ 1.
    curvature : float
        Negative.

    Returns
    -------
    array (n, n)
        Symmetric. On the diagonal are the averages over all ordered pairs of a hull's points, a point with itself among
        them. The relative error of a distance is about eps/(1 − |curvature|·‖x‖²).
    """
    # 2 asinh(‖x − y‖ / √(gap(x) gap(y))) has no cancellation where points are near each other, as acosh would.
    points, root = np.concatenate(hulls), math.sqrt(-curvature)
    norms = root * np.hypot(*points.T)
    scale = math.sqrt(root) / np.sqrt((1 - norms) * (1 + norms))
    sizes = np.array([len(hull) for hull in hulls])
    starts = np.cumsum(sizes) - sizes
    sums = np.zeros((len(hulls), len(hulls)))
    for row, (start, size) in enumerate(zip(starts, sizes)):
        ours, theirs = slice(start, start + size), slice(start, None)
        (x, y), (other_x, other_y) = points[ours].T, points[theirs].T
        apart = np.hypot(x[:, None] - other_x, y[:, None] - other_y) * scale[ours, None] * scale[theirs]
        sums[row, row:] = np.add.reduceat(np.arcsinh(apart).sum(axis=0), starts[row:] - start)
    sums += np.triu(sums, 1).T
    averages: Matrix = 2 / root * sums / np.outer(sizes, sizes)
    return averages


def _assignment(distances: Matrix, owner: NDArray[np.intp], num_groups: int) -> list[int]:
    clients = [np.flatnonzero(owner == client) for client in np.unique(owner)]
    clients.sort(key=lambda hulls: (-len(hulls), distances[hulls].mean()))
    most = len(clients[0])
    if most > num_groups:
        raise ValueError(
            f"grouping: a client has {most} hulls, there are {num_groups} groups; by assignment it has at most one in each"
        )
    best = _Groups(distances, num_groups)
    for start in clients[:MOST_STARTS]:
        groups = _Groups(distances, num_groups)
        groups.open(start)
        groups.settle(clients)
        if groups.cost < best.cost - groups.rounding:
            best = groups
    return [int(one) for one in best.group]


class _Groups:
    """Groups of hulls in the making; `cost` is Σ_g Σ_{u,v ∈ g} d(u, v) / |g|, infinite before all hulls have a group."""

    def __init__(self, distances: Matrix, num_groups: int) -> None:
        self.distances, self.own = distances, distances.diagonal()
        self.group = np.full(len(distances), -1)
        self.members = np.zeros((len(distances), num_groups))
        self.sums = np.zeros(num_groups)  # Σ_{u,v ∈ g} d(u, v)
        self.rounding = _ROUNDING * float(distances.sum())
        # More than any hull can add: an empty group must be filled whatever it costs.
        self.urgent = 1 + 4 * float(distances.max()) * len(distances)

    @property
    def cost(self) -> float:
        if (self.group < 0).any():
            return math.inf
        return float((self.sums / self.members.sum(axis=0)).sum())

    def open(self, hulls: NDArray[np.intp]) -> None:
        """A group for each of these, and then for those that are furthest from all groups, up to the last."""
        opening = list(hulls)
        while len(opening) < len(self.sums):
            opening.append(int(np.argmax(self._apart(opening))))
        self._put(np.array(opening), np.arange(len(opening)))

    def _apart(self, opening: list[int]) -> Matrix:
        """Energy distance of every hull to the nearest of these, less than any for these themselves."""
        apart: Matrix = (2 * self.distances[:, opening] - self.own[opening] - self.own[:, None]).min(axis=1)
        apart[opening] = -math.inf
        return apart

    def settle(self, clients: Sequence[NDArray[np.intp]]) -> None:
        """Assign every client's hulls in turn, the others held, until nothing is gained."""
        for _ in range(_SWEEPS):
            if not sum([self._assign(hulls) for hulls in clients]):
                return

    def _assign(self, hulls: NDArray[np.intp]) -> bool:
        """Take a client's hulls to where they add least; whether they moved."""
        from scipy.optimize import linear_sum_assignment

        before = self.group[hulls]
        self._take(hulls[before >= 0])
        sizes, towards = self.members.sum(axis=0), self.distances[hulls] @ self.members
        more = self.sums + 2 * towards + self.own[hulls][:, None]
        added = more / (sizes + 1) - self.sums / np.maximum(sizes, 1) - self.urgent * (sizes == 0)
        after = linear_sum_assignment(added)[1]
        rows = np.arange(len(hulls))
        gained = (before < 0).any() or added[rows, before].sum() - added[rows, after].sum() > self.rounding
        self._put(hulls, after if gained else before)
        return bool(gained)

    def _put(self, hulls: NDArray[np.intp], groups: NDArray[np.intp]) -> None:
        """Add hulls to as many different groups."""
        self.sums[groups] += 2 * (self.distances[hulls] * self.members[:, groups].T).sum(axis=1) + self.own[hulls]
        self.group[hulls] = groups
        self.members[hulls, groups] = 1

    def _take(self, hulls: NDArray[np.intp]) -> None:
        """Take hulls out of as many different groups."""
        groups = self.group[hulls]
        self.members[hulls, groups] = 0
        self.group[hulls] = -1
        self.sums[groups] -= 2 * (self.distances[hulls] * self.members[:, groups].T).sum(axis=1) + self.own[hulls]


def _weights(distances: Matrix) -> Matrix:
    """Edge weights 1/d(u, v) (Eq. 8). Hulls that are one and the same point would have an infinite one."""
    weights: Matrix = 1 / np.maximum(distances, max(1e-9 * float(distances.max()), np.finfo(np.float64).tiny))
    weights /= weights.max()
    return weights


def _kernighan_lin(distances: Matrix, num_groups: int, seed: int) -> list[int]:
    import networkx
    from networkx.algorithms.community import kernighan_lin_bisection

    if num_groups != 2:
        raise ValueError(f"grouping: kernighan-lin makes two groups, not {num_groups}; use assignment or spectral")
    weights = _weights(distances)
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(weights)))
    graph.add_weighted_edges_from((u, v, float(weights[u, v])) for u in range(len(weights)) for v in range(u))
    second = kernighan_lin_bisection(graph, seed=seed)[1]
    return [int(hull in second) for hull in range(len(weights))]


def _spectral(distances: Matrix, owner: NDArray[np.intp], num_groups: int, seed: int) -> list[int]:
    from sklearn.cluster import SpectralClustering

    if num_groups in (1, len(distances)):  # no choice, and too few eigenvectors for the solver
        return [hull % num_groups for hull in range(len(distances))]
    weights = _weights(distances)
    weights[owner[:, None] == owner] = _SAME_CLIENT * weights.min()
    clustering = SpectralClustering(num_groups, affinity="precomputed", assign_labels="discretize", random_state=seed)
    return [int(one) for one in clustering.fit_predict(weights)]


def _checked(clients: Sequence[Sequence[ArrayLike]], curvature: float) -> list[Matrix]:
    """All hulls in one row, or ValueError."""
    if not -math.inf < curvature < 0:
        raise ValueError(f"grouping: curvature {curvature}; the Poincaré disc needs a negative, finite number")
    hulls = []
    for number, client in enumerate(clients):
        for which, hull in enumerate(client):
            points = np.asarray(hull, np.float64)
            where = f"grouping: hull {which} of client {number}"
            if points.ndim != 2 or points.shape[1] != 2 or not len(points):
                raise ValueError(f"{where} has shape {points.shape}; allowed is (m, 2), m at least 1")
            if not (np.hypot(*points.T) * math.sqrt(-curvature) < 1).all():
                raise ValueError(f"{where} has points that are not finite or not within radius 1/√|curvature|")
            hulls.append(points)
    return hulls
