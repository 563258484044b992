"""The table of all runs of the sweeps in a folder, with configurations and figures."""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from curvfed.deployments.arguments import UsageError
from curvfed.deployments.errors import MachineError
from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.extensions.sweeps.commands.pages.study import SUPERNODES, Planned
from curvfed.extensions.sweeps.commands.sweep import DEFAULTS
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.strategies.base.keys import dotted
from curvfed.strategies.base.run_keys import home

FILE = "results.sqlite"

DATA_DIGEST = "data-digest"
"""The column that tells runs on a file apart from those after its content has changed."""

COMPLETED = "completed"
FAILED = "failed"


def default_results() -> Path:
    """The folder of the runs of all sweeps; equal runs are shared."""
    return home() / "sweeps"


class Results:
    """`results.sqlite` of a folder of run directories: table `runs`, a row per run.

    Columns are `run` (its directory), `status` ("completed" or "failed"), `error`, `data-digest` of
    the user's own files, each key of the run config, and each figure of `summary.json`, nested
    ones with dots: `best_validation.global_accuracy`, `metrics.roc_auc`. The process that locks the
    folder writes it, with a transaction per run; other processes can read it meanwhile.

    If the file is missing, the next call of a sweep makes it again from the run directories, and
    repeats only failed runs.

    Parameters
    ----------
    folder : Path

    Raises
    ------
    MachineError
        By all methods, if the file cannot be written, or is locked for a minute.
    UsageError
        By all methods, if the file is no table of runs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / FILE

    def finished(self, runs: Iterable[Planned]) -> set[str]:
        """Names of the completed runs.

        A completed run that is not in the table, because the sweep was killed, is recorded.
        """
        recorded = {row["run"] for row in self.rows() if row["status"] == COMPLETED}
        done = set()
        for run in runs:
            if completed(self.folder / run.name):
                done.add(run.name)
                if run.name not in recorded:
                    self.record(run)
        return done

    def record(self, run: Planned, error: str = "") -> None:
        """Record the outcome of a run.

        Parameters
        ----------
        error : str
            The reason of its failure; empty if it completed.
        """
        row: dict[str, Any] = {
            "run": run.name,
            "status": FAILED if error else COMPLETED,
            "error": error,
            DATA_DIGEST: run.data_digest,
        }
        files = RunFiles(self.folder / run.name)
        row |= {key: value for key, value in dotted(files.summary).items() if key not in row}
        row |= DEFAULTS | dict(run.settings)
        row |= files.config
        row[SUPERNODES] = run.settings.get(SUPERNODES, DEFAULTS[SUPERNODES])
        values = [
            json.dumps(value) if isinstance(value, list | dict) else value for value in row.values()
        ]
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")  # one transaction, new columns included
            _add_columns(database, row)
            names = ", ".join(map(_quoted, row))
            marks = ", ".join("?" * len(row))
            database.execute(f"INSERT OR REPLACE INTO runs ({names}) VALUES ({marks})", values)

    def rows(self, runs: Iterable[Planned] | None = None) -> list[dict[str, Any]]:
        """The rows of these runs, in their order, without missing ones; all rows if None."""
        if not self._path.exists():
            return []
        with self._open() as database:
            cursor = database.execute("SELECT * FROM runs ORDER BY run")
            names = [column[0] for column in cursor.description]
            rows = {row[names.index("run")]: dict(zip(names, row, strict=True)) for row in cursor}
        if runs is None:
            return list(rows.values())
        return [rows[run.name] for run in runs if run.name in rows]

    def select(self, runs: Sequence[Planned]) -> list[Run]:
        """The runs, in their order, with the rows of the existing ones."""
        rows = {row["run"]: row for row in self.rows(runs)}
        return [
            Run(planned, rows.get(planned.name, {}), self.folder / planned.name) for planned in runs
        ]

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, timeout=60)) as database, database:
                database.execute(
                    "CREATE TABLE IF NOT EXISTS runs (run TEXT PRIMARY KEY, status TEXT, error"
                    " TEXT)"
                )
                yield database
        except sqlite3.OperationalError as error:
            raise MachineError(f"{self._path}: {error}", key="results-file") from None
        except sqlite3.DatabaseError as error:
            raise UsageError(
                f"{self._path} is damaged ({error}); remove it, and the next call makes it again"
                " from the run directories",
                key="results-file",
            ) from None


def completed(folder: Path) -> bool:
    """Whether a run directory has a completed run."""
    return str(RunFiles(folder).summary.get("status")).startswith(COMPLETED)


def _add_columns(database: sqlite3.Connection, row: Mapping[str, Any]) -> None:
    """Add missing columns. SQLite ignores case: of names that differ only in it, the first
    counts."""
    existing = {name.lower() for _, name, *_ in database.execute("PRAGMA table_info(runs)")}
    for name in row:
        if name.lower() not in existing:
            database.execute(f"ALTER TABLE runs ADD COLUMN {_quoted(name)}")
            existing.add(name.lower())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
