"""Single parts against what they replace or cannot beat."""

from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import torch

from benchmarks.steps import stepper
from benchmarks.timing import Ratio, compare
from geometry.curvature import forman_ricci
from strategies.arrays import decode_arrays, encode_arrays
from strategies.config import home
from tasks.graphs.data import GraphSpec, load_client

REPEATS = 7


def sparse_against_dense(data_dir: Path, dataset: str) -> Ratio:
    """Training steps of the flat GCN with CSR features and with the same features as a dense matrix."""
    graph = load_client(GraphSpec(dataset, data_dir), 0, 10, home() / "cache")
    dense = replace(graph, features=graph.features.to_dense())
    return compare(stepper(graph, "fedavg"), stepper(dense, "fedavg"), REPEATS)


def codec_against_copies() -> Ratio:
    """The way of 4 MB through a message, against copying them once for each direction."""
    arrays = {"weight": np.random.default_rng(0).standard_normal((1000, 1000)).astype(np.float32)}
    return compare(lambda: decode_arrays(encode_arrays(arrays)), lambda: arrays["weight"].copy().tobytes(), repeats=50)


def forman_against_loop() -> Ratio:
    """Curvatures of all edges of a random graph with many triangles."""
    graph = nx.powerlaw_cluster_graph(2000, 5, 0.5, seed=0)
    pairs = np.array(graph.edges).T
    edges = torch.from_numpy(np.concatenate([pairs, pairs[::-1]], axis=1).copy())

    def loop() -> list[int]:
        neighbours: dict[int, set[int]] = {node: set() for node in range(2000)}
        for i, j in edges.t().tolist():
            neighbours[i].add(j)
        return [
            4 - len(neighbours[i]) - len(neighbours[j]) + 3 * len(neighbours[i] & neighbours[j])
            for i, j in edges.t().tolist()
        ]

    return compare(lambda: forman_ricci(edges, 2000), loop, REPEATS)
