"""What is made of a graph: curvatures of edges, partitions, training steps by how its features are
kept."""

from dataclasses import replace
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from one_client import graph_steps, own_graph
from textbook import both_directions, forman_by_counting

from benchmarks.measure import Call, Pair, Place, Row
from curvfed.geometry.curvature import forman_ricci
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.partition import clean_edges, metis_parts

# of graphs that are drawn
FEATURES = 32
CLASSES = 7
PARTS = 10


def rows(place: Place) -> list[Row]:
    """Curvatures of edges, and sparse features."""
    nodes = place.size(2_000, 50)
    by_products = "Forman–Ricci by sparse products, 2,000 nodes"
    by_loop = "counting in a Python loop"
    sparse = f"GCN steps on sparse features, {place.graph}"
    return [
        Row(
            "Forman–Ricci curvatures of 1M edges",
            "3 s",
            partial(_million, place.size(100_000, 50)),
            1.0,
            3,
        ),
        Row(by_products, by_loop, partial(_against_loop, nodes), 1.0, 7),
        Row(sparse, "on the same features dense", partial(_sparse_against_dense, place), 1.0, 7),
    ]


def _million(nodes: int) -> Pair:
    """Both directions of 500,000 edges, with triangles, as social graphs have them."""
    return partial(forman_ricci, both_directions(_clustered(nodes)[: 5 * nodes]), nodes), 3.0


def _against_loop(nodes: int) -> Pair:
    edges = _clustered(nodes)
    return partial(forman_ricci, both_directions(edges), nodes), partial(
        forman_by_counting, edges, nodes, True
    )


def _clustered(nodes: int) -> list[tuple[int, int]]:
    """Edges, five for each node, of a power-law graph in which half of the new edges close a
    triangle."""
    return list(nx.powerlaw_cluster_graph(nodes, 5, 0.5, seed=0).edges)


def _sparse_against_dense(place: Place) -> Pair:
    graph = own_graph(place.graph, place.data)
    dense = replace(graph, features=graph.features.to_dense())
    return graph_steps(graph, "fedavg", 50), graph_steps(dense, "fedavg", 50)


def ricci(nodes: int, edges: int) -> Call:
    """Curvatures of all edges."""
    return partial(forman_ricci, torch.from_numpy(clean_edges(_drawn(nodes, edges), nodes)), nodes)


def parts(nodes: int, edges: int) -> Call:
    """The graph cut into `PARTS` parts by METIS, after its edges were cleaned."""
    raw = _drawn(nodes, edges)
    return lambda: metis_parts(clean_edges(raw, nodes), nodes, PARTS, 0)


def step(nodes: int, edges: int) -> Any:
    """A training step of FlatLand's network, all nodes at once."""
    generator = torch.Generator().manual_seed(0)
    role = torch.randint(3, (nodes,), generator=generator)
    graph = ClientGraph(
        features=torch.randn(nodes, FEATURES, generator=generator),
        edge_index=torch.from_numpy(clean_edges(_drawn(nodes, edges), nodes)),
        labels=torch.randint(CLASSES, (nodes,), generator=generator),
        train=role == 0,
        val=role == 1,
        test=role == 2,
        class_names=tuple(map(str, range(CLASSES))),
        metric="accuracy",
        forman=0.0,
        forman_plain=0.0,
        digest="",
        partition_digest="",
    )
    return graph_steps(graph, "flatland", 1)


def _drawn(nodes: int, edges: int) -> NDArray[np.int64]:
    """Pairs drawn at random, (2, edges): a few loops and doubled ones among them."""
    return np.random.default_rng(0).integers(0, nodes, (2, edges))
