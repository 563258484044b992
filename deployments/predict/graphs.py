"""Predictions on graphs: classes of nodes, or of whole graphs."""

from dataclasses import replace
from pathlib import Path
from typing import cast

from curvfed.client_app.client import Client
from curvfed.client_app.node.node import Node
from curvfed.client_app.personal import restore_state
from curvfed.deployments.predict.prediction import (
    Examples,
    Prediction,
    is_own,
    most_likely,
    own_name,
    prediction,
)
from curvfed.deployments.predict.trained_run import PredictError, RequestError, TrainedRun
from curvfed.tasks.graphs.client_task import GraphTask
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.tu import graph_dataset_names, is_path
from curvfed.tasks.graphs.data.user_file import read_user_file
from curvfed.tasks.in_memory import Raw
from curvfed.tasks.metrics import score


def predict_graphs(
    run: TrainedRun, data: str | Raw, client: int | None, state_path: Path | None, calibrated: bool
) -> Prediction:
    """Predict the classes of all nodes, or graphs, of `data`: a `.pt` file, a folder, the run's own
    data set, or in memory.

    Examples of unknown class do not count in scores.

    Raises
    ------
    PredictError, ConfigError, DataError, MessageError, StoreError
        If a file is missing, or data, model and personal state do not fit together.
    """
    number = min(run.clients) if client is None else client
    node = _node(run, data, client, number)
    # The whole file of the run has the nodes on which the clients trained.
    is_whole = isinstance(data, str) and node.num_partitions is None and is_own(run, data)
    if is_whole:
        run.check_unchanged(str(data))
    trained = Client(run.config, run.config.run_name, node)
    graph = trained.data
    facts = run.facts_of(number)
    data = data if isinstance(data, str) else "the data"
    if not isinstance(graph, ClientGraph) or graph.task != facts.task:
        raise PredictError(
            f"{data} is for the classification of {graph.task}, the run's data of {facts.task}",
            key="other-task",
        )
    width = graph.features.shape[1]
    if width != facts.num_features:
        raise PredictError(
            f"{data} has {width} features per node, the model of this run takes"
            f" {facts.num_features}",
            key="num-features",
        )
    if node.num_partitions is not None:
        run.check_same(data, number, graph.digest)
    # The curvature is part of the personal state.
    trained.prepare(replace(facts, ricci_std=0.0), stamp=0)
    trained.receive(run.shared.sent_to(number))
    model = trained.model
    notes = {"model": "global" if run.shared.is_global else f"client {client}'s own"}
    if client is not None and run.has_own_parts:
        arrays, stamp = run.personal_state(number, state_path)
        restore_state(arrays, trained.personal, None)
        model = trained.learner.scored
        notes = {
            "model": f"global, with the personal parameters of client {client} after round {stamp}"
        }
    notes["curvature"] = _curvature(trained)
    if node.num_partitions is None and graph_dataset_names(run.config.dataset):
        notes["features"] = (
            "unscaled, as in the file; the run scaled attributes by each client's own training"
            " graphs"
        )
    task = cast(GraphTask, trained.task)
    logits = task.logits(model)
    labels = [facts.class_names[label] for label in task.labels.tolist()]
    if is_whole or run.trained_on(graph.digest, state_path):
        scored = graph.test
        scored_words = f"the test {facts.task}"
    else:  # no client trained on these data
        scored = graph.labels >= 0
        scored_words = f"all {facts.task}{'' if bool(scored.all()) else ' of known class'}"
    names = [] if graph.numbers is None else list(map(str, graph.numbers.tolist()))
    examples = Examples(graph, labels, scored.numpy(), scored_words, names)
    if graph.metric != "accuracy":
        value = score(graph.metric, logits[scored], task.labels[scored])
        if value is not None:
            notes[f"{graph.metric} on {scored_words}"] = f"{value:.4f}"
    return prediction(run, examples, *most_likely(logits, facts.class_names), notes)


def _node(run: TrainedRun, data: str | Raw, client: int | None, number: int) -> Node:
    """A client with `data`; it has `num_partitions` for a part of the run's data set."""
    if not isinstance(data, str):
        return Node(partition=number, data=data, device="auto")
    if is_own(run, data) and (client is not None or not data.lower().endswith(".pt")):
        if client is None:
            raise RequestError(
                f"--client is missing; for {data}, the data set of this run, it names the part:"
                f" {run.listed}",
                key="client",
            )
        return run.part_of(client).model_copy(update={"device": "auto"})
    # The columns of a public data set are its own; those of folders are counted from 0.
    public = graph_dataset_names(run.config.dataset) is not None and not is_path(run.config.dataset)
    if not data.lower().endswith(".pt") and (public or not Path(data).expanduser().is_dir()):
        folder = "" if public else ", or a folder of graphs"
        raise RequestError(
            f'DATA is "{data}"; allowed is {own_name(run)}a .pt file{folder}', key="data"
        )
    path = Path(data).expanduser()
    if path.is_dir():
        return Node(partition=number, data_path=path, device="auto")
    graph = read_user_file(path, run.facts.class_names)
    return Node(partition=number, data=graph, device="auto")


def _curvature(client: Client) -> str:
    curvature = getattr(client.model, "curvature", None)
    if curvature is None:
        return "none, the model is flat"
    if (k := client.parameters.get("k")) is None or not k.requires_grad:
        origin = "constant"
    elif "k" in client.personal:
        origin = "learned by this client"
    else:
        origin = "learned, the same for every client"
    return f"{curvature.item():.4f}, {origin}"
