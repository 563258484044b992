"""A graph cut into clusters, some of which are a batch (Cluster-GCN, Chiang et al., KDD 2019)."""

from dataclasses import replace

import torch

from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.data.partition import metis_parts

CLUSTERS_PER_BATCH = 8
"""Several, drawn anew in every pass, so that in time every edge is in a batch (Section 3.2)."""


def clustered(graph: ClientGraph, spec: GraphSpec) -> ClientGraph:
    """The graph with its clusters, where it has more nodes than a batch: METIS parts,
    `CLUSTERS_PER_BATCH` to a batch.

    The same for the same graph, seed and batch size.
    """
    num_nodes = len(graph.features)
    if not 0 < spec.batch_size < num_nodes:
        return graph
    wanted = min(CLUSTERS_PER_BATCH * -(-num_nodes // spec.batch_size), num_nodes)
    parts = metis_parts(graph.edge_index.numpy(), num_nodes, wanted, spec.seed)
    return replace(graph, clusters=torch.from_numpy(parts))
