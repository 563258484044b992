"""MLflow: a run in a tracking store."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.strategies.base.keys import Scalar
from curvfed.tasks.stored_files import write_atomically

# By default MLflow sends usage data to its makers, and an unreachable store would hold up a run for
# minutes.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException

LAST = "curvfed.last-round"
"""Tag with the last round that the store has."""

MOST_PARAMS = 100
"""Maximum number of parameters in a message, a limit of MLflow's API."""

LONGEST = 500
"""Maximum length of a text."""


class MLflow:
    """A sink that writes a run of an MLflow experiment, in the store of `mlflow.tracking-uri` or of
    MLFLOW_TRACKING_URI, or in `mlflow.db` beside the run directories.

    Parameters
    ----------
    directory : RunDirectory
    """

    def __init__(self, directory: RunDirectory) -> None:
        self._keys = directory.config.mlflow
        self._name = directory.name
        self._results = directory.path.parent.resolve()
        self._id_file = directory.path / "checkpoint" / "mlflow"

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Create a run, or find the one that a resumed run continues; it keeps its parameters."""
        uri = self._keys.tracking_uri
        if not uri and not os.environ.get("MLFLOW_TRACKING_URI"):
            uri = f"sqlite:///{self._results / 'mlflow.db'}"
        with _locked(self._results):
            self._client = MlflowClient(tracking_uri=uri or None)
            run = self._existing() or self._new(config)
        self._id = run.info.run_id
        self._last = int(run.data.tags.get(LAST, -1))
        self._client.update_run(self._id, "RUNNING")

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Add a point to the metric of each figure, unless it is there already: a store does not
        replace points."""
        if number > self._last:
            self._log(number, figures, {LAST: str(number)})

    def end(self, rounds: int, figures: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """Add figures as metrics and texts as tags."""
        metrics = {f"summary/{name}": value for name, value in figures.items()}
        self._log(rounds, metrics, {name: text[:LONGEST] for name, text in texts.items()})
        status = "KILLED" if texts.get("error") == "interrupted" else "FAILED"
        self._client.set_terminated(
            self._id, "FINISHED" if texts["status"].startswith("completed") else status
        )

    def _log(self, number: int, figures: Mapping[str, float], tags: Mapping[str, str]) -> None:
        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, number) for name, value in figures.items()]
        self._client.log_batch(
            self._id, metrics, tags=[RunTag(key, text) for key, text in tags.items()]
        )

    def _existing(self) -> Run | None:
        """The run that a resumed run continues, if the store has it."""
        try:
            run = self._client.get_run(self._id_file.read_text())
        except FileNotFoundError:
            return None
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":  # the run used another store before
                return None
            raise
        return run if run.info.lifecycle_stage == "active" else None

    def _new(self, config: Mapping[str, Scalar]) -> Run:
        """A new run with the parameters of the configuration."""
        name = self._keys.experiment
        existing = self._client.get_experiment_by_name(name)
        experiment = existing.experiment_id if existing else self._client.create_experiment(name)
        run = self._client.create_run(experiment, run_name=self._name)
        write_atomically(self._id_file, run.info.run_id.encode())
        params = [Param(key, str(value)) for key, value in config.items()]
        for start in range(0, len(params), MOST_PARAMS):
            self._client.log_batch(run.info.run_id, params=params[start : start + MOST_PARAMS])
        return run


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process in at a time: two that open a new store at once both create its tables."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
