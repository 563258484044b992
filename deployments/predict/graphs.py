"""Graphs and their nodes to predict: a file, or a run's own data set."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from curvfed.client_app.data import load_data
from curvfed.client_app.node import Node
from curvfed.deployments.inputs import PredictError, RequestError
from curvfed.deployments.predict.prediction import (
    OF_KNOWN_CLASS,
    Examples,
    is_own,
    own_name,
    without_other_classes,
)
from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.strategies.config.run_config import open_dataset
from curvfed.tasks import kinds
from curvfed.tasks.amounts import amount
from curvfed.tasks.class_names import names_of
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data import is_path
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.raw import ATOMS
from curvfed.tasks.graphs.data.user_file import read_user_file
from curvfed.tasks.graphs.dataset import GraphDataset
from curvfed.tasks.in_memory import Raw
from curvfed.tasks.record_split import RecordSplit
from curvfed.tasks.registry import graph_sets
from curvfed.tasks.sources import STORED


def graph_examples(
    run: TrainedRun, data: str | Raw, client: int | None, state_path: Path | None
) -> Examples:
    """All nodes, or graphs, of `data`: a `.pt` file, a folder, the run's own data set, or in
    memory.

    Examples of unknown class, and of a class that the run lacks, do not count in scores.

    Raises
    ------
    PredictError, ConfigError, DataError
        If a file is missing, or the data do not fit the run.
    """
    number = min(run.clients) if client is None else client
    node = _node(run, data, client, number)
    # The whole file of the run has the nodes on which the clients trained.
    is_whole = isinstance(data, str) and node.num_partitions is None and is_own(run, data)
    if is_whole:
        run.check_unchanged(str(data))
    graph = load_data(run.config, node)
    data = data if isinstance(data, str) else "the data"
    facts = run.facts_of(number)
    if not isinstance(graph, ClientGraph) or graph.task != facts.task:
        raise PredictError(
            f"{data} is for the classification of {graph.task}, the run's data of {facts.task}",
            key="other-task",
        )
    if graph.num_features != facts.num_features:
        raise PredictError(
            f"{data} has {amount(graph.num_features, 'feature')} per node, the model of this run"
            f" takes {facts.num_features}",
            key="num-features",
        )
    notes = {}
    if node.num_partitions is not None:
        run.check_same(data, number, graph.digest)
    elif node.data is not None and _has_scaled(run):
        notes["features"] = (
            "unscaled, as in the file; the run scaled attributes by each client's own training"
            " graphs"
        )
    scored = graph.labels >= 0
    scored_words = f"all {facts.task}{'' if bool(scored.all()) else OF_KNOWN_CLASS}"
    trained: ClientGraph | None = graph
    if not is_whole and node.num_partitions is None:
        trained = run.own_data(partial(_own_graph, run, node, graph.task), state_path)
    if trained is not None:
        scored = trained.test
        scored_words = f"the test {facts.task}"
    names = [] if graph.numbers is None else list(map(str, graph.numbers.tolist()))
    labels = names_of(graph.labels.tolist(), graph.class_names)
    graph = _of_classes(graph, facts.class_names)
    examples = Examples(graph, labels, scored.numpy(), scored_words, names, notes)
    return without_other_classes(examples, facts.class_names, facts.task)


def _of_classes(graph: ClientGraph, class_names: Sequence[str]) -> ClientGraph:
    """The graph with these classes alone; the examples of others are of unknown class, and in no
    split."""
    known = tuple(name for name in graph.class_names if name in class_names)
    if known == graph.class_names:
        return graph
    numbers = {name: number for number, name in enumerate(known)}
    # The last entry belongs to the label −1.
    new_labels = torch.tensor([*(numbers.get(name, -1) for name in graph.class_names), -1])
    labels = new_labels[graph.labels]
    is_known = labels >= 0
    return replace(
        graph,
        labels=labels,
        train=graph.train & is_known,
        val=graph.val & is_known,
        test=graph.test & is_known,
        class_names=known,
    )


def _own_graph(run: TrainedRun, node: Node, task: str, split: RecordSplit | None) -> ClientGraph:
    """A node's own graphs with its split."""
    dataset = open_dataset(run.config, task, split)
    graph: ClientGraph
    if node.data_path is not None:
        graph = dataset.own(node.data_path)
    else:
        graph = dataset.in_memory(node.data)
    return graph


def _has_scaled(run: TrainedRun) -> bool:
    """Whether the run's graphs have attributes, which a run scales; of absent files it is
    assumed."""
    name = run.config.dataset
    is_folder = is_path(name) and not name.lower().endswith(STORED)
    if not (kinds.KINDS[run.facts.task].has_spaces and (graph_sets(name) or is_folder)):
        return False
    dataset = GraphDataset.of_run(run.config)
    try:
        sets = [dataset.find(source) for source in dataset.sources()] or [dataset.locate()]
    except DataError:
        return True
    names = set[str]()
    for located in sets:
        if located is None:
            return True
        names |= {file.name for file in located.files}
    has_table = "node-feat.csv.gz" in names and run.facts.num_features != sum(ATOMS)
    return has_table or any(name.endswith("_node_attributes.txt") for name in names)


def _node(run: TrainedRun, data: str | Raw, client: int | None, number: int) -> Node:
    """A client with `data`; it has `num_partitions` for a part of the run's data set."""
    if not isinstance(data, str):
        return Node(partition=number, data=data)
    if is_own(run, data) and (client is not None or not data.lower().endswith(STORED)):
        if client is None:
            raise RequestError(
                f"client is missing; for {data}, the data set of this run, it names the part:"
                f" {run.listed}",
                key="client",
            )
        return run.part_of(client)
    # The columns of a public data set are its own; those of folders are counted from 0.
    public = graph_sets(run.config.dataset) is not None
    if not data.lower().endswith(STORED) and (public or not Path(data).expanduser().is_dir()):
        folder = "" if public else ", or a folder of graphs"
        raise RequestError(
            f'DATA is "{data}"; allowed is {own_name(run)}a .pt file{folder}', key="data"
        )
    path = Path(data).expanduser()
    if path.is_dir():
        return Node(partition=number, data_path=path)
    graph = read_user_file(path, run.facts.class_names)
    return Node(partition=number, data=graph)


def curvature_words(model: nn.Module, is_personal: Any) -> str:
    """The curvature of a network's space, and its origin."""
    curvature: Any = getattr(model, "curvature", 0.0)
    if isinstance(curvature, float) and not curvature:
        return "0, the model is flat"
    k = dict(model.named_parameters()).get("k")
    origin = "constant"
    if k is not None and k.requires_grad:
        is_own = is_personal("k")
        origin = "learned by this client" if is_own else "learned, the same for every client"
    return f"{torch.as_tensor(curvature).item():.4f}, {origin}"
