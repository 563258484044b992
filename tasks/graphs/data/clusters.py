"""A graph cut into clusters, some of which are a batch (Cluster-GCN, Chiang et al., KDD 2019)."""

from dataclasses import replace

import torch

from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.data.partition import metis_parts

CLUSTERS_PER_BATCH = 8
"""Each pass draws several clusters anew, so that in time every edge is in a batch (Section 3.2)."""


def clustered(graph: ClientGraph, spec: GraphSpec) -> ClientGraph:
    """Add METIS parts as clusters, `CLUSTERS_PER_BATCH` to a batch, if the graph has more nodes
    than a batch.

    Equal graphs, seeds and batch sizes give equal clusters.
    """
    num_nodes = len(graph.features)
    if not 0 < spec.batch_size < num_nodes:
        return graph
    num_clusters = min(CLUSTERS_PER_BATCH * -(-num_nodes // spec.batch_size), num_nodes)
    parts = metis_parts(graph.edge_index.numpy(), num_nodes, num_clusters, spec.seed)
    return replace(graph, clusters=torch.from_numpy(parts))
