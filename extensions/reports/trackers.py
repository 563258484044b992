"""MLflow, a run in a tracking store; and Weights & Biases, a run in its own format in the run
directory, or at its server. Both packages are imported when a run uses them."""

import contextlib
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.sinks import Sink
from curvfed.strategies.base.keys import Scalar
from curvfed.strategies.base.statistics import add_prefix
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks.stored_files import write_atomically

if TYPE_CHECKING:
    from mlflow.entities import Run

# By default MLflow sends usage data to its makers, and an unreachable store would hold up a run for
# minutes.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
# By default wandb reports its own errors to its makers.
os.environ.setdefault("WANDB_ERROR_REPORTING", "false")

LAST = "curvfed.last-round"
"""Tag with the last round that the store has."""

MOST_PARAMS = 100
"""Maximum number of parameters in a message, a limit of MLflow's API."""

LONGEST = 500
"""Maximum length of a text."""

PROMPT_SECONDS = 1
"""Seconds that the package waits for a key at a terminal without an account."""

FOLDER = "wandb"
"""Folder of the package in a run directory."""

QUIET: dict[str, Any] = {
    "silent": True,
    "console": "off",
    "disable_code": True,
    "disable_git": True,
    "host": "",
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
}
"""Nothing about the server's machine, its program or its log is recorded."""


class MLflow(Sink):
    """A sink that writes a run of an MLflow experiment, in the store of `mlflow.tracking-uri` or of
    MLFLOW_TRACKING_URI, or in `mlflow.db` next to the run directories.

    Parameters
    ----------
    directory : RunDirectory
    """

    package = "mlflow"

    def __init__(self, directory: RunDirectory) -> None:
        super().__init__(directory)
        self._keys = directory.config.mlflow
        self._name = directory.name
        self._results = directory.path.parent.resolve()
        self._id_file = directory.path / "checkpoint" / "mlflow"

    @classmethod
    def check(cls, config: RunConfig) -> None:
        """Ask MLflow's server for the experiment; files on this machine need none.

        Raises
        ------
        MlflowException
            If the server does not answer or refuses.
        """
        uri = config.mlflow.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI", "")
        if "://" in uri and not uri.startswith(("sqlite:", "file:")):
            from mlflow import MlflowClient

            MlflowClient(tracking_uri=uri).get_experiment_by_name(config.mlflow.experiment)

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Create a run, or find the one that a resumed run continues; it keeps its parameters."""
        from mlflow import MlflowClient

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
        metrics = add_prefix("summary/", figures)
        self._log(rounds, metrics, {name: text[:LONGEST] for name, text in texts.items()})
        status = "KILLED" if texts.get("error") == "interrupted" else "FAILED"
        self._client.set_terminated(
            self._id, "FINISHED" if texts["status"].startswith("completed") else status
        )

    def _log(self, number: int, figures: Mapping[str, float], tags: Mapping[str, str]) -> None:
        from mlflow.entities import Metric, RunTag

        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, number) for name, value in figures.items()]
        self._client.log_batch(
            self._id, metrics, tags=[RunTag(key, text) for key, text in tags.items()]
        )

    def _existing(self) -> "Run | None":
        """The run that a resumed run continues, if the store has it."""
        from mlflow.exceptions import MlflowException

        try:
            run = self._client.get_run(self._id_file.read_text())
        except FileNotFoundError:
            return None
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":  # the run used another store before
                return None
            raise
        return run if run.info.lifecycle_stage == "active" else None

    def _new(self, config: Mapping[str, Scalar]) -> "Run":
        """A new run with the parameters of the configuration."""
        from mlflow.entities import Param

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


class WandB(Sink):
    """A sink that writes a run of the project `wandb.project`.

    With `wandb.mode=offline` everything stays in `wandb/` of the run directory, until `wandb sync`
    sends it; with `online` it is sent during the run, to the server and account that the package is
    configured for.

    Parameters
    ----------
    directory : RunDirectory
    """

    package = "wandb"

    def __init__(self, directory: RunDirectory) -> None:
        super().__init__(directory)
        self._keys = directory.config.wandb
        self._name = directory.name
        self._path = directory.path
        self._id_file = directory.path / "checkpoint" / FOLDER

    @classmethod
    def check(cls, config: RunConfig) -> None:
        """Let the server verify the account, if figures are sent to it.

        Raises
        ------
        PermissionError, AuthenticationError
            If no account is logged in, or the server does not answer or refuses it.
        """
        if config.wandb.mode == "offline":
            return
        import wandb

        if not wandb.login(verify=True, timeout=PROMPT_SECONDS):
            raise PermissionError(
                "no account is logged in; allowed are `wandb login`, WANDB_API_KEY, and"
                " wandb.mode=offline"
            )

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Begin a run, or at a server continue that of a resumed run. A file in the run directory
        cannot be cut off after a round, so it begins anew, and all rounds follow."""
        import wandb

        if not self._id_file.exists():
            write_atomically(self._id_file, secrets.token_hex(4).encode())
        run_id = self._id_file.read_text()
        for folder in (self._path / FOLDER).glob(f"offline-run-*-{run_id}"):
            shutil.rmtree(folder)
        self._run = wandb.init(
            project=self._keys.project,
            name=self._name,
            id=run_id,
            resume="allow" if self._keys.mode == "online" else None,
            mode=self._keys.mode,
            dir=str(self._path),
            config=dict(config),
            settings=wandb.Settings(**QUIET),
        )
        self._next_step = self._run.step

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Add a point to the curve of each figure, unless it is there already: a server does not
        replace points."""
        if number >= self._next_step:
            self._run.log(dict(figures), step=number)

    def end(self, rounds: int, figures: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """Add figures and texts to the summary."""
        self._run.summary.update(add_prefix("summary/", figures))
        self._run.summary.update(add_prefix("summary/", texts))
        self._run.finish(exit_code=0 if texts["status"].startswith("completed") else 1)
