"""One table over the run directories of all sweeps in a folder: configuration and figures of every
run."""

import json
import sqlite3
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.sweep.plan import DEFAULTS
from curvfed.server_app.report import SUPERNODES, Plan, Planned, Run
from curvfed.strategies.base.dotted import dotted, toml_text

FILE = "results.sqlite"
LOGS = "logs"
TOKEN_FILE = ".shared-with"
"""Proof to tasks on other machines that they see the sweep's folder."""

SUMMARY = "summary.json"
COMPLETED = "completed"
FAILED = "failed"


class Results:
    """`results.sqlite` of a folder of run directories: table `runs`, a row per run.

    Columns are `run` (its directory), `status` ("completed" or "failed"), `error`, every key of the
    run config, and every figure of `summary.json`, those in tables of it with dots:
    `best_validation.global_accuracy`, `metrics.roc_auc`. Written by the process that holds the
    folder, a transaction per run; any other may read it meanwhile.

    It is made of the run directories and can be made again: without it, the next call of a sweep
    writes down the runs that have completed and makes no other anew than those that failed.

    Parameters
    ----------
    folder : Path

    Raises
    ------
    UsageError
        By all methods: if the file is no table of runs, cannot be written, or is locked for a
        minute.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / FILE

    def finished(self, runs: Iterable[Planned]) -> set[str]:
        """Names of those that have completed.

        A run that completed while nobody wrote it down, because the sweep was killed, is written
        down now.
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
        """Write down what became of a run.

        Parameters
        ----------
        error : str
            Why it failed; empty if it completed.
        """
        row: dict[str, Any] = {
            "run": run.name,
            "status": FAILED if error else COMPLETED,
            "error": error,
        }
        folder = self.folder / run.name
        row |= {
            key: value
            for key, value in dotted(_read(folder / SUMMARY, json.loads)).items()
            if key not in row
        }
        row |= DEFAULTS | dict(run.settings)
        row |= dotted(_read(folder / "config.toml", tomllib.loads)) | {
            SUPERNODES: run.settings.get(SUPERNODES, DEFAULTS[SUPERNODES])
        }
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
        """The rows of these runs, in their order, without those that were not made; all rows if
        None."""
        if not self._path.exists():
            return []
        with self._open() as database:
            cursor = database.execute("SELECT * FROM runs ORDER BY run")
            names = [column[0] for column in cursor.description]
            rows = {row[names.index("run")]: dict(zip(names, row, strict=True)) for row in cursor}
        return (
            list(rows.values())
            if runs is None
            else [rows[run.name] for run in runs if run.name in rows]
        )

    def select(self, plan: Plan) -> list[Run]:
        """All runs of a plan, in its order, with the rows of those that were made."""
        rows = {row["run"]: row for row in self.rows(plan.runs)}
        return [
            Run(planned, rows.get(planned.name, {}), self.folder / planned.name)
            for planned in plan.runs
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
            raise UsageError(f"{self._path}: {error}") from None
        except sqlite3.DatabaseError as error:
            raise UsageError(
                f"{self._path} is damaged ({error}); remove it, and the next call makes it again"
                " from the run directories"
            ) from None


def completed(folder: Path) -> bool:
    """Whether a run directory is that of a run that came to its end."""
    return str(_read(folder / SUMMARY, json.loads).get("status")).startswith(COMPLETED)


def _read(path: Path, loads: Callable[[str], Any]) -> dict[str, Any]:
    """What a file holds; nothing where the run did not get as far as to write it."""
    try:
        found = loads(toml_text(path.read_bytes()))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _add_columns(database: sqlite3.Connection, row: Mapping[str, Any]) -> None:
    """SQLite's names have no case: of those that differ in nothing else, the first is kept."""
    there = {name.lower() for _, name, *_ in database.execute("PRAGMA table_info(runs)")}
    for name in row:
        if name.lower() not in there:
            database.execute(f"ALTER TABLE runs ADD COLUMN {_quoted(name)}")
            there.add(name.lower())


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
