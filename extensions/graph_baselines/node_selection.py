"""The most important nodes of a client's graphs, for training on a share of them (FedHGCN)."""

import torch
from torch import Tensor

from curvfed.geometry import lorentz
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.sparse import neighbour_sums

CURVATURE = -1.0

MAX_RADIUS = 8.0
"""Longest feature row that is mapped to Lorentz space; longer rows are shortened, as in the network
for whole graphs."""


def importance(features: Tensor, edge_index: Tensor) -> Tensor:
    """The distance of each node from the mean of its neighbours, (N,), float64.

    Only the abstract of the paper is public, and no code: the selection is to "remove the
    redundancy from the graph representation and highlight key nodes". FlatLand's authors, who ran
    it, add that it takes quadratic time and space. How importance is measured is therefore an
    interpretation: a node is redundant if its neighbours predict it, which is the criterion by
    which HGP-SL (Zhang et al., 2019) pools nodes, here with hyperbolic distance and mean, in linear
    time.

    The Lorentz distance at curvature -1 between the node's point, exp0 of its features, and the
    centroid of its neighbours' points, or the origin without neighbours. It is 0 for a node that
    its neighbours predict.

    Parameters
    ----------
    features : Tensor, (N, F)
        Dense or CSR. Rows longer than `MAX_RADIUS` are shortened to it.
    edge_index : Tensor, (2, E), int64
        As in `ClientGraph`.
    """
    dense = (features.to_dense() if features.layout == torch.sparse_csr else features).double()
    norms = dense.norm(dim=1, keepdim=True)
    points = lorentz.exp0(dense * (MAX_RADIUS / norms.clamp(min=MAX_RADIUS)), CURVATURE)
    sums = neighbour_sums(edge_index, len(points), torch.float64) @ points
    return lorentz.dist(points, lorentz.normalize(sums, CURVATURE), CURVATURE)


def selected(graph: ClientGraph, share: float) -> Tensor:
    """The mask (N,) of the nodes that stay: in each graph this share, rounded up, of the most
    important nodes; the first of equals.

    If nodes are classified, all training nodes stay and count as the most important, as labels are
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
    # Sorted by graph, then by importance.
    ranked = ranked[torch.argsort(owner[ranked], stable=True)]
    place = torch.arange(len(ranked)) - (sizes.cumsum(0) - sizes)[owner[ranked]]
    # Rounding must not make 56 nodes of 0.55 of 100.
    quota = (share * sizes.double() - 1e-9).ceil().clamp(min=1)
    mask = torch.zeros(len(ranked), dtype=torch.bool)
    mask[ranked] = place < quota[owner[ranked]]
    return mask | graph.train if graph.graph_of_node is None else mask
