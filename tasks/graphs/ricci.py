"""The curvature -1/K of a network: trained, K being a function of the scalar k and optionally of a
small network; and the curvature of a client's graph, from which it starts."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from curvfed.geometry.curvature import forman_ricci
from curvfed.tasks import plugins
from curvfed.tasks.graphs.data.client_graph import ClientGraph, positive_weights
from curvfed.tasks.graphs.model_spec import ModelSpec, start

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


VERTEX_WEIGHTS = {"one": 0, "degree": 1, "inverse-degree": -1}
"""The exponents of a node's degree in its weight, by the name of the weights."""


def graph_curvature(
    graph: ClientGraph, kind: str, cache_dir: Path, vertex_weights: str = "one"
) -> float:
    """The curvature of a client's graph.

    Parameters
    ----------
    graph : ClientGraph
    kind : str
        A name of the group `curvfed.graph-curvatures`, with a function from the graph and the next
        folder; else the mean Forman-Ricci curvature over the edges, with triangles.
    cache_dir : Path
        Folder that stores what takes seconds: a real node starts a process per message.
    vertex_weights : str
        A key of `VERTEX_WEIGHTS`, of the Forman-Ricci curvature. The degree of a node is the sum of
        the weights of its edges.
    """
    if kind in plugins.additions(plugins.GRAPH_CURVATURES):
        curvature: float = plugins.addition(plugins.GRAPH_CURVATURES, kind)(graph, cache_dir)
        return curvature
    exponent = VERTEX_WEIGHTS[vertex_weights]
    if not exponent or not graph.edge_index.numel():
        return graph.forman
    weights = positive_weights(graph.edge_weights)
    num_nodes = len(graph.features)
    degree = graph.edge_index[0].bincount(weights, minlength=num_nodes).double()
    vertices = degree.where(degree > 0, 1.0) ** exponent
    values = forman_ricci(graph.edge_index, num_nodes, weights=weights, vertex_weights=vertices)
    return float(values.double().mean())
