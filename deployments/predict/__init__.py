"""Predictions of a trained model, as rows of a table."""

import logging
from pathlib import Path
from typing import Any

import torch

from curvfed.client_app.data import make_task
from curvfed.deployments.inputs import PredictError, RequestError, check_there
from curvfed.deployments.predict.graphs import curvature_words, graph_examples
from curvfed.deployments.predict.images import image_examples
from curvfed.deployments.predict.model import check_client, model_of
from curvfed.deployments.predict.points import by_classifier, point_examples
from curvfed.deployments.predict.prediction import (
    Options,
    Predicted,
    Prediction,
    most_likely,
    scored_prediction,
)
from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.strategies.config.device import pick_device
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import logged_from
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.store import StoreError
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.data.raw import RawGraph, RawGraphs
from curvfed.tasks.images.raw import RawImages
from curvfed.tasks.in_memory import KINDS
from curvfed.tasks.kinds import KINDS as TASKS
from curvfed.tasks.points import RawPoints
from curvfed.tasks.task import score

__all__ = ["Options", "PredictError", "Prediction", "TrainedRun", "predict"]

READERS = {
    RawGraph: graph_examples,
    RawGraphs: graph_examples,
    RawImages: image_examples,
    RawPoints: point_examples,
}
"""The function that reads the data to predict, by the class of the task's data in memory."""

EXPECTED = (PredictError, ConfigError, DataError, MessageError, StoreError)
"""Errors of data, models and personal states that do not fit together."""


@logged_from(logging.WARNING)  # the log has the same output as the predictions
def predict(
    run: TrainedRun,
    data: Any,
    client: int | None = None,
    state_path: Path | None = None,
    calibrated: bool = True,
    options: Options = Options(),  # noqa: B008
) -> Predicted:
    """Predict the classes of all nodes, graphs, images or points of `data`, or the tails of heads.

    Parameters
    ----------
    run : TrainedRun
    data : str, Raw or list
        A path, the name of the run's data set, or data in memory.
    client : int, optional
        Use this client's model, and its part of the run's own data set.
    state_path : Path, optional
        See `curvfed.deployments.predict.model.personal_state`.
    calibrated : bool
        Whether to use the calibrated classifier, if there is one.
    options : Options
        Of a run on data without classes, or on points.

    Raises
    ------
    PredictError, ConfigError, DataError, MessageError, StoreError
        If a file is missing, or data, model and personal state do not fit together.
    """
    if isinstance(data, str):
        check_there(run.config.dataset, data)
    if options.label_key is not None:
        if run.facts.task != "points":
            raise RequestError(
                f"label-key is an option of runs on points; this run is on {run.facts.task}",
                key="other-options",
            )
        run = run.with_label_key(options.label_key)
        options = options._replace(label_key=None)
    show = TASKS[run.facts.task].part("predict")
    if show is not None:
        shown: Predicted = show(run, data, client, state_path, options, calibrated)
        return shown
    if options != Options():
        raise RequestError(
            f"show, most and known are options of runs on links; this run is on {run.facts.task}",
            key="other-options",
        )
    if not isinstance(data, str | KINDS[run.facts.task]):
        raise PredictError(
            f"the data are for the classification of {data.task}, those of the run of"
            f" {run.facts.task}",
            key="other-task",
        )
    check_client(run, client)
    examples = READERS[KINDS[run.facts.task]](run, data, client, state_path)
    if not run.config.row.has_network:
        return by_classifier(run, examples)
    model, description = model_of(run, client, state_path, calibrated)
    notes = {"model": description}
    if isinstance(examples.data, ClientGraph):
        notes["curvature"] = curvature_words(model, run.config.row.is_personal)
    facts = run.facts_of(min(run.clients) if client is None else client)
    device = pick_device("auto")
    local = make_task(examples.data, run.config, facts.class_names, device, model)
    logits = local.logits(model.to(device)).double()
    classes, probabilities = most_likely(logits, facts.class_names)
    if local.metric != "accuracy":
        scored = torch.from_numpy(examples.scored)
        value = score(local.metric, logits[scored], local.labels[scored])
        if value is not None:
            examples.notes[f"{local.metric} on {examples.scored_words}"] = f"{value:.4f}"
    return scored_prediction(run, examples, classes, probabilities, notes)
