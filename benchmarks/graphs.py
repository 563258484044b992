"""What is made of a graph once, and what a step takes by how its features are kept."""

from dataclasses import replace

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from benchmarks.row import Place, Row
from benchmarks.steps import stepper
from benchmarks.timing import Ratio, against_budget, compare, seconds
from curvfed.geometry.curvature import forman_ricci
from curvfed.strategies.config.run_config import home
from curvfed.tasks.graphs.data import GraphSpec, load_client

REPEATS = 7
MILLION = 1_000_000


def rows(place: Place) -> list[Row]:
    """Curvatures of edges, and sparse features."""
    return [
        Row("Forman–Ricci curvatures of 1M edges", "3 s", "budget", forman_of_a_million, 1.0),
        Row(
            "Forman–Ricci by sparse products, 2,000 nodes", "counting in a Python loop", "peer", forman_against_loop, 1.0
        ),
        Row(
            f"GCN steps on sparse features, {place.graph}", "on the same features dense", "twin",
            lambda: sparse_against_dense(place), 1.0,
        ),
    ]  # fmt: skip


def sparse_against_dense(place: Place) -> Ratio:
    """Training steps of the flat GCN with CSR features and with the same features as a dense matrix."""
    graph = load_client(GraphSpec(place.graph, place.folder), 0, 10, home() / "cache")
    dense = replace(graph, features=graph.features.to_dense())
    return compare(stepper(graph, "fedavg"), stepper(dense, "fedavg"), REPEATS)


def forman_of_a_million() -> Ratio:
    """Both directions of 500,000 edges between 100,000 nodes, with triangles, as social graphs have them."""
    edges, num_nodes = _clustered(100_000, 5)
    chosen = _both(edges[:, : MILLION // 2])
    return against_budget(lambda: seconds(lambda: forman_ricci(chosen, num_nodes)), 3.0, 3)


def forman_against_loop() -> Ratio:
    """Curvatures of all edges of a random graph with many triangles."""
    half, num_nodes = _clustered(2000, 5)
    edges = _both(half)

    def loop() -> list[int]:
        neighbours: dict[int, set[int]] = {node: set() for node in range(num_nodes)}
        for i, j in edges.t().tolist():
            neighbours[i].add(j)
        return [
            4 - len(neighbours[i]) - len(neighbours[j]) + 3 * len(neighbours[i] & neighbours[j])
            for i, j in edges.t().tolist()
        ]

    return compare(lambda: forman_ricci(edges, num_nodes), loop, REPEATS)


def _clustered(num_nodes: int, each: int) -> tuple[Tensor, int]:
    """Edges (2, m) of a power-law graph in which half of the new edges close a triangle."""
    graph = nx.powerlaw_cluster_graph(num_nodes, each, 0.5, seed=0)
    return torch.from_numpy(np.array(graph.edges).T.copy()), num_nodes


def _both(edges: Tensor) -> Tensor:
    return torch.cat([edges, edges.flip(0)], dim=1)
