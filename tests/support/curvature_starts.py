"""Runs whose curvatures stay where they start, and the exact curvatures of their graphs."""

import math
from pathlib import Path

import numpy as np
import torch
from graph_fixtures import tu_graphs, write_tu

from curvfed.tasks import generated

SETS = ("MUTAG", "BZR", "PROTEINS")
SIZES = (24, 16, 12)
STILL = {"num_rounds": 1, "learning_rate": 1e-30}
"""Settings of a run whose parameters stay where they start."""


def write_sets(root: Path) -> Path:
    """A data folder with three data sets of labelled nodes."""
    for seed, (name, size) in enumerate(zip(SETS, SIZES, strict=True)):
        write_tu(root, name, tu_graphs(size, seed), attributes=False)
    return root


def edges_of(task: str, client: int) -> tuple[torch.Tensor, int]:
    """Both directions of the edges of a client, and its number of nodes."""
    if task == "nodes":
        tree = generated.generate_tree(seed=0, client=client)
        return torch.from_numpy(tree.edge_index), len(tree.labels)
    result, start = [], 0
    for graph in tu_graphs(SIZES[client], seed=client):
        result += [
            pair
            for i, j in graph.edges
            for pair in ((start + i, start + j), (start + j, start + i))
        ]
        start += len(graph.node_labels)
    return torch.tensor(sorted(result)).T, start


def forman(task: str, client: int, triangles: bool = True) -> float:
    """Mean of 4 - d - d' and, if wanted, three times the triangles, over the edges."""
    edges, num_nodes = edges_of(task, client)
    neighbours: list[set[int]] = [set() for _ in range(num_nodes)]
    for i, j in edges.T.tolist():
        neighbours[i].add(j)
    values = [
        4
        - len(neighbours[i])
        - len(neighbours[j])
        + 3 * triangles * len(neighbours[i] & neighbours[j])
        for i, j in edges.T.tolist()
    ]
    return float(np.mean(values))


def forman_by_degree(task: str, client: int) -> float:
    """The same with triangles, where every node weighs its degree."""
    edges, num_nodes = edges_of(task, client)
    neighbours: list[set[int]] = [set() for _ in range(num_nodes)]
    for i, j in edges.T.tolist():
        neighbours[i].add(j)
    values = []
    for i, j in edges.T.tolist():
        of_nodes = [len(neighbours[node]) * (2 - len(neighbours[node])) for node in (i, j)]
        values.append(sum(of_nodes) + 3 * len(neighbours[i] & neighbours[j]))
    return float(np.mean(values))


def on(task: str, sets) -> dict:
    """Settings of a run on nodes, or on graphs."""
    return {} if task == "nodes" else {"dataset": ",".join(SETS), "data_dir": str(sets)}


def curvatures(result, number: int = 1) -> np.ndarray:
    return np.array(
        [float(row["curvature"]) for row in result.clients if row["round"] == str(number)]
    )


def standardized(values) -> np.ndarray:
    return (np.array(values) - np.mean(values)) / np.std(values)


RADII = {
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)) + 0.5,
    "exp": lambda z: np.exp(3 * np.tanh(z / 3)),
}
BOUNDS = {"sigmoid": (-2, -2 / 3), "exp": (-math.exp(3), -math.exp(-3))}
