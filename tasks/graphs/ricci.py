"""The curvature -1/K of a network: trained, K being a function of the scalar k and optionally of a
small network, and the constant curvature that fits a client's graph best."""

import json
import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from curvfed.geometry.arrays import Floats
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.partition import components, largest
from curvfed.tasks.graphs.model_spec import ModelSpec, start
from curvfed.tasks.stored_files import UNSEALED, check_whole, sealed, write_atomically

NUM_STATISTICS = 4
ESTIMATOR_WIDTH = 8


@dataclass(frozen=True)
class CurvatureMap:
    """The map from k to K.

    Attributes
    ----------
    radius : callable
        k -> K, increasing, 1 at k = 0.
    inverse : callable
        K -> k, for K in the open range of `radius`.
    deviation : float
        The k of a graph with a mean Ricci curvature one standard deviation above the clients' mean.
    """

    radius: Callable[[Tensor], Tensor]
    inverse: Callable[[float], float]
    deviation: float


def _sigmoid_radius(k: Tensor) -> Tensor:
    """FlatLand, Appendix E.2: K in (0.5, 1.5), so the curvature is in (-2, -2/3)."""
    return torch.sigmoid(k) + 0.5


def _sigmoid_inverse(radius: float) -> float:
    return math.log((radius - 0.5) / (1.5 - radius))


def _exp_radius(k: Tensor) -> Tensor:
    """Log K in (-3, 3), so the curvature is in (-20, -1/20).

    The length of an Adam step does not depend on the gradient, so the factor 10 also sets the
    speed: log K moves by up to 30 times the learning rate.
    """
    return torch.exp(3 * torch.tanh(10 * k))


def _exp_inverse(radius: float) -> float:
    return math.atanh(math.log(radius) / 3) / 10


def _wide_radius(k: Tensor) -> Tensor:
    """Log K in (-6, 6), so the curvature is in (-403, -1/403): room for the curvatures that fit
    the clients' graphs of citations, -.06 to -4."""
    return torch.exp(6 * torch.tanh(5 * k))


def _wide_inverse(radius: float) -> float:
    return math.atanh(math.log(radius) / 6) / 5


# Functions of the module, not lambdas, because a network is stored with its map.
CURVATURE_MAPS = {
    "sigmoid": CurvatureMap(_sigmoid_radius, _sigmoid_inverse, 1.0),
    "exp": CurvatureMap(_exp_radius, _exp_inverse, 1 / 30),
    "wide": CurvatureMap(_wide_radius, _wide_inverse, 1 / 15),
}


REACH = 4.0
"""k starts within ±4 deviations of a map, beyond which the maps are nearly constant."""


def start_of_fit(curvature: float, chosen: CurvatureMap) -> float:
    """The k of a curvature, at most 0, or the nearest k at which a run starts."""
    farthest = REACH * chosen.deviation
    bounds = torch.tensor([-farthest, farthest], dtype=torch.float64)
    ends = chosen.radius(bounds).tolist()
    radius = -1 / curvature if curvature < 0 else math.inf
    if radius <= ends[0]:
        return -farthest
    return farthest if radius >= ends[1] else chosen.inverse(radius)


class CurvatureEstimator(nn.Module):
    """A client's addition to its k: a small network on statistics of its graph (FlatLand, Table 9,
    "MLP").

    It adds 0 at the start, so every client begins at curvature -1. All parameters and the
    statistics are personal: the first gradient of shared weights would disclose the statistics.
    """

    def __init__(self) -> None:
        super().__init__()
        self.statistics = nn.Parameter(torch.zeros(NUM_STATISTICS), requires_grad=False)
        self.hidden = nn.Linear(NUM_STATISTICS, ESTIMATOR_WIDTH)
        self.out = nn.Parameter(torch.zeros(ESTIMATOR_WIDTH))
        start(self.hidden.weight, self.hidden.bias)

    def forward(self) -> Tensor:
        """The addition to k, ()."""
        return (self.out * torch.tanh(self.hidden(self.statistics))).mean()


def graph_statistics(graph: ClientGraph) -> Tensor:
    """The estimator's input from a client's graph, each value about 1: (NUM_STATISTICS,).

    Mean Forman-Ricci curvature with triangles and without, both by asinh, mean degree and number of
    nodes, both by log.
    """
    num_nodes = len(graph.features)
    num_edges = graph.edge_index.shape[1]
    curvature_statistics = (
        math.asinh(graph.forman),
        math.asinh(graph.forman_plain),
        math.log1p(num_edges / num_nodes),
        math.log10(num_nodes),
    )
    return torch.tensor(curvature_statistics)


class CurvedNet(nn.Module):
    """A network in a space of curvature c. It is learned, c = -1/K with K a function of the scalar
    parameter `k` that is 1 at k = 0; or it is a number, which may be 0.

    Under `flatland` each client keeps its own `k`, which starts from the Ricci curvature of its
    graph.

    Parameters
    ----------
    curvature_map : str
        "sigmoid", "exp" or "wide": the map from k to K, as the run's key `flatland.curvature-map`.
    curvature : float or None
        The number, at most 0; None: learned.

    Examples
    --------
    >>> CurvedNet().curvature.item(), CurvedNet(curvature=0.0).curvature
    (-1.0, 0.0)
    """

    def __init__(self, curvature_map: str = "sigmoid", curvature: float | None = None) -> None:
        super().__init__()
        self.k = nn.Parameter(torch.tensor(0.0)) if curvature is None else None
        self.estimator: CurvatureEstimator | None = None
        self._map = CURVATURE_MAPS[curvature_map]
        self._curvature = curvature

    def _add_estimator(self, spec: ModelSpec) -> None:
        """Add the estimator. Call this last, so that the seeded start of the other parameters does
        not depend on it."""
        self.estimator = CurvatureEstimator() if spec.estimates_curvature else None

    @property
    def curvature(self) -> Tensor | float:
        """The sectional curvature: () if it is learned, else the number."""
        if self.k is None:
            assert self._curvature is not None, "k and the number exclude each other"
            return self._curvature
        k: Tensor = self.k
        if self.estimator is not None:
            k = k + self.estimator()
        return -1 / self._map.radius(k)


DIMENSIONS = 5
"""Dimension of the space that is fitted."""

NODES = 300
"""Maximum number of nodes, from the graph's largest component, in a fit of distances."""


def fitted_curvature(graph: ClientGraph, cache_dir: Path | None = None) -> float:
    """The curvature, at most 0, at which the distances of a graph's nodes are distorted least; 0
    too if a sphere fits best, or if there are too few connected nodes.

    Parameters
    ----------
    graph : ClientGraph
    cache_dir : Path, optional
        Folder that stores it by the digest of the data: a fit takes seconds, and a real node starts
        a process per message.

    Raises
    ------
    DataError
        If the data are a set of graphs.
    """
    if graph.graph_of_node is not None:
        raise DataError(
            'flatland.curvature-init = "fit": the data are graphs; allowed are nodes of one graph',
            key="not-a-graph",
        )
    name = f"stress-{DIMENSIONS}-{NODES}-{graph.digest}.json"
    path = None if cache_dir is None else cache_dir / name
    return cached_number(path, lambda: _fitted(graph))


def _fitted(graph: ClientGraph) -> float:
    from curvfed.geometry.distortion import fit

    distances, _ = sampled_distances(graph, NODES)
    if len(distances) <= DIMENSIONS:
        return 0.0
    return min(fit(distances, DIMENSIONS).curvature, 0.0)


def sampled_distances(graph: ClientGraph, max_nodes: int, seed: int = 0) -> tuple[Floats, int]:
    """Numbers of edges between nodes of the largest connected component.

    Parameters
    ----------
    graph : ClientGraph
    max_nodes : int
        Of a larger component, this number of nodes is drawn uniformly.
    seed : int

    Returns
    -------
    distances : array (m, m), float64
        Distances in the whole component.
    size : int
        Number of nodes of the component.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import shortest_path

    num_nodes = len(graph.labels)
    edges = graph.edge_index.numpy()
    nodes = largest(components(edges, num_nodes))
    entries = np.ones(edges.shape[1], np.int8)
    adjacency = csr_array((entries, tuple(edges)), shape=(num_nodes, num_nodes))
    chosen = nodes
    if len(nodes) > max_nodes:
        chosen = np.sort(np.random.default_rng(seed).choice(nodes, max_nodes, replace=False))
    distances = shortest_path(adjacency, directed=False, unweighted=True, indices=chosen)
    return distances[:, chosen], len(nodes)


IDLENESS = 0.5
"""Idleness of the lazy random walk in Ollivier's curvature: half of the mass stays at its node."""

GRAPHS_AT_A_TIME = 100
"""Graphs of a set in one piece: the work per edge grows with the number of nodes in a piece."""

log = logging.getLogger("curvfed")


def mean_ricci(graph: ClientGraph, kind: str, cache_dir: Path | None = None) -> float:
    """Mean Ricci curvature over the edges; 0 without edges.

    Parameters
    ----------
    kind : str
        "ollivier", else Forman's curvature with triangles.
    cache_dir : Path, optional
        Folder that stores Ollivier's curvature by the digest of the data: it takes seconds, and a
        real node starts a process per message.
    """
    if kind != "ollivier":
        return graph.forman
    if cache_dir is None:
        path = None
    else:
        path = cache_dir / f"ollivier-{IDLENESS}-{graph.digest}.json"
    return cached_number(path, lambda: _mean_ollivier(graph))


def cached_number(path: Path | None, compute: Callable[[], float]) -> float:
    """The number stored in a file; if missing, it is computed and stored."""
    if path is not None and (stored := _read(path)) is not None:
        return stored
    value = compute()
    if path is not None:
        _write(path, value)
    return value


def _mean_ollivier(graph: ClientGraph) -> float:
    from curvfed.geometry.curvature import ollivier_ricci

    total = 0.0
    for edge_index, num_nodes in _pieces(graph):
        total += float(ollivier_ricci(edge_index, num_nodes, IDLENESS).double().sum())
    return total / max(graph.edge_index.shape[1], 1)


def _pieces(graph: ClientGraph) -> Iterator[tuple[Tensor, int]]:
    """Edges and number of nodes; a set of graphs in pieces of `GRAPHS_AT_A_TIME`."""
    if graph.graph_of_node is None:
        if graph.edge_index.shape[1]:
            yield graph.edge_index, len(graph.features)
        return
    of_edge = graph.graph_of_node[graph.edge_index[0]]
    for first in range(0, len(graph.labels), GRAPHS_AT_A_TIME):
        limits = torch.tensor([first, first + GRAPHS_AT_A_TIME])
        start, end = torch.searchsorted(graph.graph_of_node, limits).tolist()
        low, high = torch.searchsorted(of_edge, limits).tolist()
        if high > low:
            yield graph.edge_index[:, low:high] - start, end - start


def _read(path: Path) -> float | None:
    try:
        data = path.read_bytes()
        check_whole(data)
        value = float(json.loads(data)[-1])
        return value if math.isfinite(value) else None
    except (OSError, ValueError):
        return None


def _write(path: Path, value: float) -> None:
    """Store the value. If the folder cannot be written, the next process computes it again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, sealed(json.dumps([UNSEALED, value]).encode()), private=True)
    except OSError as error:
        log.warning("the curvature of a graph cannot be kept in %s: %s", path.parent, error)
