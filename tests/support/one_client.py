"""One client of ten alone: its steps, rounds and fine-tuning, without server and files."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from curvfed.client_app.client import Client
from curvfed.client_app.description import describe
from curvfed.client_app.node import Node
from curvfed.client_app.personal import collect_state
from curvfed.client_app.rounds import class_sums
from curvfed.strategies.base.run_keys import home
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.base.tensors import load_arrays
from curvfed.strategies.base.training import make_optimizer, train
from curvfed.strategies.config.build_method import (
    build_model,
    fixed_head,
    initial_aggregation,
    learner_class,
    model_spec,
)
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.wire.messages import CALIBRATE, Facts
from curvfed.tasks.graphs.client_task import client_task
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.dataset import GraphDataset

CLIENTS = 10

Settings = Mapping[str, Any]
Call = Callable[[], object]


def weight_of(client: Client) -> int:
    """The client's weight in the average."""
    num_examples = client.task.num_examples
    return min(num_examples, 1) if client.config.weights == "uniform" else num_examples


def a_round(settings: Settings) -> Call:
    """The second round of client 0, over and over: nothing is aggregated in between."""
    client, facts = a_client(settings)
    learner, server = client.learner, initial_aggregation(client.config, facts, range(CLIENTS))
    learner.round = 1
    learner.receive(server.sent_to(0))
    trained = learner.train()
    reply = {name: np.array(array) for name, array in learner.share().items()}
    server.aggregate({0: Statistics(reply, weight_of(client), {"steps": trained.steps})})
    learner.round = 2

    def once() -> None:
        learner.receive(server.sent_to(0))
        learner.train()
        learner.share()

    return once


def some_rounds(
    settings: Settings, num: int = 2
) -> tuple[list[float], dict[str, float], dict[str, Any]]:
    """The first rounds of client 0, alone aggregated: losses, scores, and what it sent last."""
    client, facts = a_client(settings)
    learner, server, losses = (
        client.learner,
        initial_aggregation(client.config, facts, range(CLIENTS)),
        list[float](),
    )
    for round_number in range(1, num + 1):
        received = server.sent_to(0)
        learner.receive(received)
        trained = client.fit(round_number)
        assert trained is not None
        losses.append(trained.loss)
        reply = {name: np.array(array) for name, array in learner.share().items()}
        update = Statistics(reply, weight_of(client), {"steps": trained.steps})
        server.aggregate({0: update})
    if client.config.fine_tunes:
        client.fine_tune(num)
    if (calibration := client.config.calibrator) is not None:
        reply[CALIBRATE] = class_sums(client, calibration)[0]
    return losses, client.scores(), reply | collect_state(client.personal, client.kept_optimizer)


def a_fine_tuning(settings: Settings) -> Call:
    """The fine-tuning of client 0."""
    client, _ = a_client(settings)
    return client.learner.fine_tune


def a_client(settings: Settings) -> tuple[Client, Facts]:
    """The first of ten, with its model at its start; it writes nothing to the disk."""
    config = parse(dict(settings))
    client = Client(config, "benchmark", Node(partition=0, num_partitions=CLIENTS))
    about = describe(client)
    partitions = tuple(range(CLIENTS)) if learner_class(client.method).lists_clients else ()
    facts = Facts(
        about.task, about.num_features, about.class_names, about.shape, partitions=partitions
    )
    client.prepare(facts, 0)
    if client.fixed:
        load_arrays(fixed_head(model_spec(client.config, facts), config.seed), client.tensors)
    return client, facts


def own_graph(dataset: str, folder: Path | None) -> ClientGraph:
    """Client 0's of ten."""
    return GraphDataset(GraphSpec(dataset, folder or Path()), home() / "cache").client(0, CLIENTS)


def graph_steps(graph: ClientGraph, method: str, num: int) -> Call:
    """Training steps of a method's model on a graph."""
    config = resolve_defaults(parse({"method": method}), "nodes")
    facts = Facts("nodes", graph.features.shape[1], graph.class_names)
    task = client_task(graph, facts.class_names, torch.device("cpu"))
    model = build_model(model_spec(config, facts), 0)
    optimizer = make_optimizer(dict(model.named_parameters()), config)
    return lambda: train(model, task, optimizer, num)
