"""MLflow: a run in a tracking store."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.sinks.sink import Sink
from curvfed.strategies.base.dotted import Scalar
from curvfed.tasks.atomic_file import write_atomically

# By its own defaults MLflow reports its use to its makers, and a store that is gone would hold up a run for minutes.
for _name, _value in {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}.items():
    os.environ.setdefault(_name, _value)

from mlflow import MlflowClient  # noqa: E402
from mlflow.entities import Metric, Param, Run, RunTag  # noqa: E402
from mlflow.exceptions import MlflowException  # noqa: E402

LAST = "curvfed.last-round"
"""Tag of the last round that the store has."""

MOST_PARAMS = 100
"""Of one message, by MLflow's API."""

LONGEST = 500
"""Characters of a text that are sent."""


class MLflow(Sink):
    """A run of an MLflow experiment, in the store of `mlflow.tracking-uri` or of MLFLOW_TRACKING_URI, or `mlflow.db` beside
    the run directories.

    Parameters
    ----------
    directory : RunDirectory
    """

    def __init__(self, directory: RunDirectory) -> None:
        self._keys, self._name = directory.config.mlflow, directory.name
        self._results = directory.path.parent.resolve()
        self._id_file = directory.path / "checkpoint" / "mlflow"

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Make the run, or find the one that a resumed run began; its parameters are those that it began with."""
        own = None if os.environ.get("MLFLOW_TRACKING_URI") else f"sqlite:///{self._results / 'mlflow.db'}"
        with _alone(self._results):
            self._client = MlflowClient(tracking_uri=self._keys.tracking_uri or own)
            run = self._begun()
            if run is None:
                run = self._client.create_run(self._experiment(), run_name=self._name)
                write_atomically(self._id_file, run.info.run_id.encode())
                params = [Param(key, str(value)) for key, value in config.items()]
                for start in range(0, len(params), MOST_PARAMS):
                    self._client.log_batch(run.info.run_id, params=params[start : start + MOST_PARAMS])
        self._id = run.info.run_id
        self._last = int(run.data.tags.get(LAST, -1))
        self._client.update_run(self._id, "RUNNING")

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """One metric per figure, unless they are there: a store takes everything twice."""
        if number > self._last:
            self._log(number, figures, {LAST: str(number)})

    def end(self, rounds: int, figures: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """Figures are metrics, texts tags."""
        named = {f"summary/{name}": value for name, value in figures.items()}
        self._log(rounds, named, {name: text[:LONGEST] for name, text in texts.items()})
        status = "KILLED" if texts.get("error") == "interrupted" else "FAILED"
        self._client.set_terminated(self._id, "FINISHED" if texts["status"] == "completed" else status)

    def _log(self, number: int, figures: Mapping[str, float], tags: Mapping[str, str]) -> None:
        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, number) for name, value in figures.items()]
        self._client.log_batch(self._id, metrics, tags=[RunTag(key, text) for key, text in tags.items()])

    def _begun(self) -> Run | None:
        """The run that this one goes on with, if the store has it."""
        try:
            run = self._client.get_run(self._id_file.read_text())
        except FileNotFoundError:
            return None
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":  # the store is another than before
                return None
            raise
        return run if run.info.lifecycle_stage == "active" else None

    def _experiment(self) -> str:
        name = self._keys.experiment
        found = self._client.get_experiment_by_name(name)
        return found.experiment_id if found else self._client.create_experiment(name)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time: two that open a new store at once make each other's tables."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
