"""Predictions of a trained model, as rows of a table."""

import logging
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.predict.graphs import predict_graphs
from curvfed.deployments.predict.images import predict_images
from curvfed.deployments.predict.output import check, write
from curvfed.deployments.predict.points import predict_points
from curvfed.deployments.predict.prediction import Prediction
from curvfed.deployments.predict.trained_run import PredictError, RequestError, TrainedRun
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.run_log import logged_from
from curvfed.strategies.wire.arrays import MessageError
from curvfed.strategies.wire.store import StoreError
from curvfed.tasks.errors import DataError
from curvfed.tasks.in_memory import KINDS, Raw

__all__ = ["PredictError", "Prediction", "TrainedRun", "main", "predict"]

TASKS = {
    "nodes": predict_graphs,
    "graphs": predict_graphs,
    "images": predict_images,
    "points": predict_points,
}
"""The function that predicts, by the task of the run."""

EXPECTED = (PredictError, ConfigError, DataError, MessageError, StoreError)
"""Errors of data, models and personal states that do not fit together."""


@logged_from(logging.WARNING)  # the log has the same output as the predictions
def predict(
    run: TrainedRun,
    data: str | Raw,
    client: int | None = None,
    state_path: Path | None = None,
    calibrated: bool = True,
) -> Prediction:
    """Predict the classes of all nodes, graphs, images or points of `data`.

    Parameters
    ----------
    run : TrainedRun
    data : str or Raw
        A path, the name of the run's data set, or data in memory.
    client : int, optional
        Use this client's model, and its part of the run's own data set.
    state_path : Path, optional
        See `TrainedRun.personal_state`.
    calibrated : bool
        Whether to use the calibrated classifier, if there is one.

    Raises
    ------
    PredictError, ConfigError, DataError, MessageError, StoreError
        If a file is missing, or data, model and personal state do not fit together.
    """
    if not isinstance(data, str | KINDS[run.facts.task]):
        task = next(name for name, kind in KINDS.items() if isinstance(data, kind))
        raise PredictError(
            f"the data are for the classification of {task}, those of the run of {run.facts.task}",
            key="other-task",
        )
    if client is not None and client not in run.clients:
        raise RequestError(
            f"--client is {client}; the clients of this run are {run.listed}", key="client"
        )
    reason = run.reason_for_own_models
    if client is None and reason:
        raise RequestError(
            f"--client N is needed: {run.config.method} {reason}, so there is a model for every one"
            f" of the clients {run.with_models}",
            key="client",
        )
    return TASKS[run.facts.task](run, data, client, state_path, calibrated)


def main(
    folder: Path,
    data: str,
    client: int | None = None,
    state_path: Path | None = None,
    calibrated: bool = True,
    out: Path | None = None,
) -> None:
    """Write the predictions of the run in `folder`.

    Raises
    ------
    PredictError, ConfigError, DataError, MessageError, StoreError, OSError
        If it cannot be done.
    """
    check(out, data)
    prediction = predict(TrainedRun.read(folder), data, client, state_path, calibrated)
    write(prediction, data, out)
    console = Console(stderr=True)
    for name, value in prediction.notes.items():
        console.print(f"{name}: {escape(value)}", soft_wrap=True, highlight=False)
