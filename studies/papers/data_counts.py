"""What FlatLand's Tables 5 to 7 say about the clients' data, for runs that have completed."""

import json
import tomllib
from collections.abc import Iterable
from pathlib import Path

import networkx as nx
import numpy as np

from curvfed.client_app.data import load_data
from curvfed.client_app.node import Node
from curvfed.strategies.base.figure import METRIC, Figure
from curvfed.strategies.base.figures import register
from curvfed.strategies.base.keys import dotted
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import defaults
from curvfed.tasks.graphs.data.client_graph import ClientGraph

COUNTS = {
    "mean_graphs": "graphs",
    "mean_nodes": "nodes of a graph",
    "mean_edges": "edges of a graph",
    "mean_classes": "classes",
    "mean_clustering": "clustering coefficient",
}
"""Words of the figures, by their names. Edges have no direction."""

DECIMALS = {"mean_graphs": 0, "mean_classes": 0, "mean_clustering": 3}

register(
    *(
        Figure(name, words, (METRIC,), digits=DECIMALS.get(name, 2))
        for name, words in COUNTS.items()
    )
)


def counts(folder: Path, names: Iterable[str]) -> dict[str, float | None]:
    """Figures of the data of a run: of all clients, and of a graph the mean.

    Parameters
    ----------
    folder : Path
        The directory of a completed run in a simulation, each client of which has graphs.
    names : iterable of str
        Of `COUNTS`.
    """
    clients = json.loads((folder / "clients.json").read_text(encoding="utf-8"))["clients"]
    statistics = [client["statistics"] for client in clients]
    num_graphs = sum(each["num_graphs"] for each in statistics)
    counts: dict[str, float | None] = {
        "mean_graphs": num_graphs,
        "mean_nodes": sum(each["num_nodes"] for each in statistics) / num_graphs,
        "mean_edges": sum(each["num_edges"] for each in statistics) / num_graphs,
        "mean_classes": len({name for client in clients for name in client["class_names"]}),
    }
    if "mean_clustering" in names:
        counts["mean_clustering"] = _mean_clustering(folder, len(clients))
    return {name: counts[name] for name in names}


def _mean_clustering(folder: Path, num_clients: int) -> float:
    """The clustering coefficient, as a mean over the nodes of a client and then over the
    clients."""
    settings = dotted(tomllib.loads((folder / "config.toml").read_text(encoding="utf-8")))
    keys = defaults()
    config = parse({key: settings[key] for key in settings if key in keys})
    means = []
    for client in range(num_clients):
        graph = load_data(config, Node(partition=client, num_partitions=num_clients))
        assert isinstance(graph, ClientGraph)
        network = nx.Graph()
        network.add_nodes_from(range(len(graph.labels)))
        network.add_edges_from(graph.edge_index.t().tolist())
        means.append(nx.average_clustering(network))
    return float(np.mean(means))
