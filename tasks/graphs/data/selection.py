"""Node selection (FedHGCN, Du et al., 2024): keep the nodes that differ most from their neighbours.

Only the abstract of the paper is public, and no code: the selection is to "remove the redundancy
from the graph representation and highlight key nodes". FlatLand's authors, who ran it, add that it
takes quadratic time and space. How importance is measured is therefore an interpretation: a node is
redundant if its neighbours predict it, which is the criterion by which HGP-SL (Zhang et al., 2019)
pools nodes, here with hyperbolic distance and mean, in linear time.
"""

from dataclasses import replace

import torch
from torch import Tensor

from curvfed.geometry import lorentz
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.sparse import neighbour_sums, select_rows

CURVATURE = -1.0

MAX_RADIUS = 8.0
"""Longest feature row that enters Lorentz space; longer rows are shortened, as in the network for
whole graphs."""


def importance(features: Tensor, edge_index: Tensor) -> Tensor:
    """How far each node is from the mean of its neighbours, (N,), float64.

    The Lorentz distance at curvature -1 between the node's point, exp0 of its features, and the
    centroid of its neighbours' points, or the origin where it has none. It is 0 for a node that its
    neighbours predict.

    Parameters
    ----------
    features : Tensor, (N, F)
        Dense or CSR. Rows longer than `MAX_RADIUS` count as of that length.
    edge_index : Tensor, (2, E), int64
        As `ClientGraph` has it.
    """
    dense = (features.to_dense() if features.layout == torch.sparse_csr else features).double()
    points = lorentz.exp0(
        dense * (MAX_RADIUS / dense.norm(dim=1, keepdim=True).clamp(min=MAX_RADIUS)), CURVATURE
    )
    sums = neighbour_sums(edge_index, len(points), torch.float64) @ points
    return lorentz.dist(points, lorentz.normalize(sums, CURVATURE), CURVATURE)


def selected(graph: ClientGraph, share: float) -> Tensor:
    """Which nodes stay, (N,) bool: of every graph this share, rounded up, of the most important; of
    equals, the first.

    Where nodes are classified, all training nodes stay, and count as the most important: labels are
    scarce.
    """
    scores = importance(graph.features, graph.edge_index)
    if graph.graph_of_node is None:
        owner = torch.zeros(len(scores), dtype=torch.int64)
        sizes = torch.tensor([len(scores)])
        scores = scores.masked_fill(graph.train, torch.inf)
    else:
        owner = graph.graph_of_node
        sizes = torch.bincount(graph.graph_of_node, minlength=len(graph.labels))
    ranked = torch.argsort(scores, descending=True, stable=True)
    # graph by graph, and by importance within each
    ranked = ranked[torch.argsort(owner[ranked], stable=True)]
    place = torch.arange(len(ranked)) - (sizes.cumsum(0) - sizes)[owner[ranked]]
    quota = (share * sizes.double() - 1e-9).ceil().clamp(min=1)  # 0.55 of 100 nodes are 55, not 56
    kept = torch.zeros(len(ranked), dtype=torch.bool)
    kept[ranked] = place < quota[owner[ranked]]
    return kept | graph.train if graph.graph_of_node is None else kept


def induced(graph: ClientGraph, kept: Tensor) -> ClientGraph:
    """The data without the other nodes and their edges; curvatures and digest stay those of the
    whole data.

    Parameters
    ----------
    graph : ClientGraph
    kept : Tensor, (N,), bool
        At least one node of every graph.
    """
    numbers = kept.cumsum(0) - 1
    between = kept[graph.edge_index].all(dim=0)
    smaller = replace(
        graph,
        features=select_rows(graph.features, kept.nonzero()[:, 0]),
        edge_index=numbers[graph.edge_index[:, between]],
        edge_weights=None if graph.edge_weights is None else graph.edge_weights[between],
    )
    if graph.graph_of_node is not None:
        return replace(smaller, graph_of_node=graph.graph_of_node[kept])
    return replace(
        smaller, **{name: getattr(graph, name)[kept] for name in ("labels", "train", "val", "test")}
    )
