"""Ollivier–Ricci curvature of the edges of graphs, by exact optimal transport."""

import logging
import math
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from curvfed.geometry.curvature import checked_edges

log = logging.getLogger("curvfed")

_ENTRIES = 2**22
"""Maximum number of distances in memory, exceeded only if a single node's neighbours need more."""
_PIVOTS = 10**8
"""Maximum steps of the solver. Its default is 10⁵; an edge between hubs of degree 2000 takes 10⁴ to
10⁵."""
_PATIENCE = 5.0
"""Seconds until the log reports the progress."""


def ollivier_ricci(edge_index: Tensor, num_nodes: int, idleness: float = 0.5) -> Tensor:
    """Ollivier–Ricci curvature of every edge x–y: 1 − W₁(μₓ, μᵧ).

    μₓ is the distribution of a lazy random walk one step after x: it stays at x with probability
    `idleness`, else it moves to a uniformly drawn neighbour. W₁ is the cost of the cheapest
    transport by distances in the graph.

    Parameters
    ----------
    edge_index : Tensor (2, E), integer
        An undirected simple graph: every edge once in each direction, in any order.
    num_nodes : int
        Nodes are 0 … num_nodes − 1.
    idleness : float
        At least 0, less than 1. If it is at least 1/(max(dₓ, dᵧ) + 1), so for every edge from 1/2
        on, the curvature is 1 − idleness times that of Lin, Lu and Yau.

    Returns
    -------
    Tensor (E,), default float dtype, on the device of `edge_index`
        One value per column, above −2 and at most 1; the two directions of an edge have equal
        values.

    Raises
    ------
    ValueError
        If the idleness is out of its range; if the shape or dtype of `edge_index` is wrong, a node
        is out of range, or an edge is a self-loop, repeated, or lacks its other direction.
    ImportError
        If the package POT is not installed.
    RuntimeError
        If the solver does not find the optimum within 10⁸ steps.

    Notes
    -----
    Ollivier, Ricci curvature of Markov chains on metric spaces (2009), Definition 3. Let dₓ ≤ dᵧ.
    Multiplied by dₓ·dᵧ/(1 − idleness), μₓ weighs dᵧ and μᵧ weighs dₓ at a neighbour, and both weigh
    s = dₓ·dᵧ·idleness/(1 − idleness) at their own node. Mass that both have at the same node stays
    there, because distances obey the triangle inequality; C is the cost of moving the rest. If s
    exceeds dₓ, the excess moves from x to y and C grows with it (Bourne et al., Ollivier–Ricci
    idleness functions of graphs, 2018), so s = dₓ suffices, and always

        curvature = (1 − idleness)·(dₓ·dᵧ + s − C)/(dₓ·dᵧ),  s ≤ dₓ.

    If s is an integer, as it is for idleness 0 and above 1/(dᵧ + 1), so are all weights and C. The
    relative error is then at most 2·eps(float64), and otherwise at most (dₓ + dᵧ)·eps(float64). The
    result is rounded to the default dtype at the end.

    An edge takes 0.1 ms for small degrees, 1 ms for degrees of hundreds, half a second between hubs
    of degree 2000 (Cora 1 s, Minesweeper 5 s). Memory grows with m·N + m², where m is the largest
    min(dₓ, dᵧ): 200 MB for m = 2000, N = 6000.

    Examples
    --------
    >>> triangle = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
    >>> ollivier_ricci(triangle, num_nodes=3)[0]
    tensor(0.7500)
    """
    if not 0 <= idleness < 1:
        raise ValueError(f"idleness: got {idleness}; must be at least 0 and less than 1")
    source, target = checked_edges(edge_index, num_nodes)
    degree = np.bincount(source, minlength=num_nodes)
    # The k-th column in the one order and the k-th in the other are the two directions of an edge.
    forward = np.lexsort((target, source))
    backward = np.lexsort((source, target))
    first = np.concatenate([[0], degree.cumsum()])
    centres = source[forward]
    neighbours = target[forward]
    # Each edge is computed once, from its end of smaller degree.
    rank = degree * num_nodes + np.arange(num_nodes)
    rising = rank[centres] < rank[neighbours]

    value = np.empty(source.size)
    lazy = idleness / (1 - idleness)
    done = 0
    late = time.monotonic() + _PATIENCE
    for x, distance in _neighbourhoods(np.unique(centres[rising]), neighbours, first):
        near_x = neighbours[first[x] : first[x + 1]]
        from_x = np.full(num_nodes, 2)
        from_x[near_x] = 1
        from_x[x] = 0
        for row in np.flatnonzero(rising[first[x] : first[x + 1]]):
            y = near_x[row]
            edge = first[x] + row
            near_y = neighbours[first[y] : first[y + 1]]
            dx = near_x.size
            dy = near_y.size
            stay = min(dx, lazy * dx * dy)
            # By distance from the other end: 0 is that end itself, 1 a common neighbour, 2 a
            # neighbour of this end only.
            supply = np.array([dy - stay, dy - dx, dy])[distance[row, near_x]]
            demand = np.array([dx - stay, 0, dx])[from_x[near_y]]
            cost = _transport(supply, demand, distance[:, near_y])
            saved = (1 - idleness) * (dx * dy + stay - cost)
            value[[forward[edge], backward[edge]]] = saved / (dx * dy)
            done += 1
            if time.monotonic() > late:
                late = math.inf
                log.info(
                    "Ollivier-Ricci curvature takes its time: %d of %d edges done",
                    done,
                    source.size // 2,
                )
    return torch.from_numpy(value).to(edge_index.device, torch.get_default_dtype())


def _neighbourhoods(
    nodes: np.ndarray, neighbours: np.ndarray, first: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """Each of `nodes` with the distances from its neighbours, in order, to all nodes: (degree, N),
    limited to 3.

    If x–y is an edge, no distance between a neighbour of x and a neighbour of y exceeds 3.
    """
    from scipy.sparse import csr_array

    num_nodes = first.size - 1
    degree = np.diff(first)
    adjacency = csr_array(
        (np.ones(neighbours.size, dtype=bool), neighbours, first), shape=(num_nodes, num_nodes)
    )
    # By blocks: a sparse product for every node would take longer than all the transport.
    block_numbers = degree[nodes].cumsum() * num_nodes // _ENTRIES
    cuts = np.flatnonzero(np.diff(block_numbers)) + 1
    for block in np.split(nodes, cuts) if nodes.size else []:
        sources = np.concatenate([neighbours[first[x] : first[x + 1]] for x in block])
        rows = adjacency[sources]
        distance = np.where((rows @ adjacency).toarray(), np.uint8(2), np.uint8(3))
        distance[rows.toarray()] = 1
        distance[np.arange(sources.size), sources] = 0
        yield from zip(block.tolist(), np.split(distance, degree[block].cumsum()[:-1]))


def _transport(supply: np.ndarray, demand: np.ndarray, distance: np.ndarray) -> float:
    """Least cost of moving `supply` (n,) to `demand` (m,), of equal sums, over `distance` (n,
    m).
    """
    rows = np.flatnonzero(supply)
    columns = np.flatnonzero(demand)
    if not rows.size:
        return 0.0
    cost = distance[np.ix_(rows, columns)].astype(np.float64)
    supply = supply[rows].astype(np.float64)
    demand = demand[columns].astype(np.float64)
    _, solution = _emd()(supply, demand, cost, _PIVOTS, log=True, center_dual=False)
    if solution["warning"]:
        raise RuntimeError(
            f"optimal transport from {rows.size} to {columns.size} nodes: {solution['warning']}"
        )
    return float(solution["cost"])


@cache
def _emd() -> Callable[..., Any]:
    """POT's network simplex. The package takes seconds to import."""
    with warnings.catch_warnings():
        # Python warns of an escape in one of its docstrings when it first compiles the file.
        warnings.simplefilter("ignore")
        try:
            import ot
        except ImportError as error:
            raise ImportError("ollivier_ricci needs the package POT: pip install pot") from error
    return cast(Callable[..., Any], ot.emd)
