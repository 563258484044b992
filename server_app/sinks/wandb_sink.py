"""Weights & Biases: a run in its own format in the run directory, or at its server."""

import os
import secrets
import shutil
from collections.abc import Mapping

from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.strategies.base.keys import Scalar
from curvfed.tasks.stored_files import write_atomically

# By default the package reports its own errors to its makers.
os.environ.setdefault("WANDB_ERROR_REPORTING", "false")

import wandb

FOLDER = "wandb"
"""Folder of the package in a run directory."""

QUIET = wandb.Settings(
    silent=True,
    console="off",
    disable_code=True,
    disable_git=True,
    host="",
    x_disable_machine_info=True,
    x_disable_meta=True,
    x_disable_stats=True,
)
"""Nothing about the server's machine, its program or its log is recorded."""


class WandB:
    """A sink that writes a run of the project `wandb.project`.

    With `wandb.mode=offline` everything stays in `wandb/` of the run directory, until `wandb sync`
    sends it; with `online` it is sent during the run, to the server and account that the package is
    configured for.

    Parameters
    ----------
    directory : RunDirectory
    """

    def __init__(self, directory: RunDirectory) -> None:
        self._keys = directory.config.wandb
        self._name = directory.name
        self._path = directory.path
        self._id_file = directory.path / "checkpoint" / FOLDER

    def start(self, config: Mapping[str, Scalar]) -> None:
        """Begin a run, or at a server continue that of a resumed run. A file in the run directory
        cannot be cut off after a round, so it begins anew, and all rounds follow."""
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
            settings=QUIET,
        )
        self._next_step = self._run.step

    def round(self, number: int, figures: Mapping[str, float]) -> None:
        """Add a point to the curve of each figure, unless it is there already: a server does not
        replace points."""
        if number >= self._next_step:
            self._run.log(dict(figures), step=number)

    def end(self, rounds: int, figures: Mapping[str, float], texts: Mapping[str, str]) -> None:
        """Add figures and texts to the summary."""
        self._run.summary.update({f"summary/{name}": value for name, value in figures.items()})
        self._run.summary.update({f"summary/{name}": text for name, text in texts.items()})
        self._run.finish(exit_code=0 if texts["status"].startswith("completed") else 1)
