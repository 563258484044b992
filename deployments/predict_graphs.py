"""Predictions on graphs: classes of nodes, or of whole graphs."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from curvfed.client_app.client import Client
from curvfed.client_app.node_config import IN_MEMORY
from curvfed.client_app.personal import scatter
from curvfed.deployments.trained_run import PredictError, Prediction, TrainedRun
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.graphs.client_graph import ClientGraph
from curvfed.tasks.graphs.client_task import GraphTask, client_task
from curvfed.tasks.graphs.tu import graph_dataset_names, is_path
from curvfed.tasks.in_memory import Raw


def predict_graphs(run: TrainedRun, data: str | Raw, client: int | None, state_path: Path | None) -> Prediction:
    """Predict the classes of all nodes, or graphs, of `data`: a `.pt` file, a folder, the run's own data set, or in memory.

    Raises
    ------
    PredictError, ConfigError, DataError, MessageError, StoreError
        If something is absent, or data, model and personal state do not fit together.
    """
    node, known = _node(run, data, client)
    number = min(run.clients) if client is None else client
    party = Client(run.config, run.config.run_name, number, node)
    graph, facts = party.data, run.facts_of(number)
    data = data if isinstance(data, str) else "the data"
    if not isinstance(graph, ClientGraph) or graph.task != facts.task:
        raise PredictError(f"{data} is for the classification of {graph.task}, the run's data of {facts.task}")
    width = graph.features.shape[1]
    if width != facts.num_features:
        raise PredictError(f"{data} has {width} features per node, the model of this run takes {facts.num_features}")
    if known and graph.digest != run.clients[number].digest:
        raise PredictError(f"{data} is not what client {client} of this run trained on; have its files changed?")
    party.prepare(replace(facts, ricci_std=0.0), stamp=0)  # the curvature is in the personal state
    party.receive(run.shared.sent_to(number))
    about = {"method": run.config.method}
    model: nn.Module = party.model
    if client is not None and run.has_own_parts:
        arrays, stamp = run.personal_state(number, state_path)
        scatter(arrays, party.personal, None)
        model = party.learner.scored
        about["personal parameters"] = f"of client {client}, after round {stamp}"
    about["curvature"] = _curvature(party)
    if not known and graph_dataset_names(run.config.dataset):
        about["features"] = "as they are in the file; the run scaled attributes by each client's own training graphs"
    trained_on = graph.digest in {met.digest for met in run.clients.values()}
    logits = cast(GraphTask, party.task).logits(model)
    probabilities, classes = logits.softmax(dim=1).max(dim=1)
    return Prediction(
        facts.task.removesuffix("s"),
        [str(number) for number in range(len(classes))],
        [facts.class_names[index] for index in classes.tolist()],
        probabilities.cpu(),
        about | _scores(graph, party, model, facts, trained_on),
    )


def _node(run: TrainedRun, data: str | Raw, client: int | None) -> tuple[dict[str, Any], bool]:
    """The node configuration by which a client would find `data`, and whether these are its own part of the run's."""
    if not isinstance(data, str):
        return {IN_MEMORY: data, "device": "auto"}, False
    if data.lower() != run.config.dataset.lower():
        # The columns of a public data set are its own; those of folders count from 0, in runs and here.
        public = graph_dataset_names(run.config.dataset) is not None and not is_path(run.config.dataset)
        if not data.lower().endswith(".pt") and (public or not Path(data).expanduser().is_dir()):
            folder = "" if public else ", or a folder of graphs"
            raise PredictError(
                f'DATA is "{data}"; allowed is "{run.config.dataset}", the run\'s own, a .pt file{folder}'
            )
        return {"data-path": data, "device": "auto"}, False
    if client is None or client not in run.clients:
        raise PredictError(f"--client is {client}; of {data}, the data set of this run, it says the part: {run.listed}")
    return run.part_of(client) | {"device": "auto"}, True


def _curvature(party: Client) -> str:
    curvature = getattr(party.model, "curvature", None)
    if curvature is None:
        return "none, the model is flat"
    learned = "learned by this client" if "k" in party.personal else "learned, the same for every client"
    return f"{curvature.item():.4f}, {learned if party.method.learns_curvature else 'constant'}"


def _scores(graph: ClientGraph, party: Client, model: nn.Module, facts: Facts, trained_on: bool) -> dict[str, str]:
    """Scores on the test examples of a split that the run used; of data that are new to it, on all of them."""
    which = f"the test {facts.task}"
    if not trained_on:
        graph, which = replace(graph, test=torch.ones_like(graph.test)), f"all {facts.task}"
    config = party.config
    found = client_task(graph, facts.class_names, party.device, config.batch_size, config.node_share).scores(model)
    scores = {graph.metric: found.get("test"), "accuracy": found.get("accuracy", found.get("test"))}
    told = {f"{name} on {which}": f"{value:.4f}" for name, value in scores.items() if value is not None}
    return {facts.task: f"{len(graph.labels)}, {int(graph.test.sum())} to score on"} | told
