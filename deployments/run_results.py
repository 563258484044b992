"""The directory of a run by Flower: chosen before the run begins, read when it has ended."""

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.pairs import Value
from curvfed.deployments.tables import summary_table
from curvfed.strategies.base.run_keys import RunKeys, home

COMPLETED = "finished:completed"
"""Flower's status of a completed run."""


def named(settings: Mapping[str, Value], config: RunKeys) -> dict[str, Value]:
    """Add an absolute results-dir and a run-name to the settings, so that the run directory is
    known in any case."""
    from curvfed.server_app.directory.run_directory import default_name  # takes a while to import

    name = config.run_name or default_name(config)
    return dict(settings) | {"results-dir": str(config.results_path.absolute()), "run-name": name}


def toml_pairs(config: Mapping[str, Value]) -> str:
    """Write `key=value` pairs the way `--run-config` reads them.

    Flower splits the pairs by a pattern that ends a string at the next double quote, escaped or
    not, so a quote inside a string is written as its code point.
    """
    return " ".join(f"{key}={_toml(value)}" for key, value in config.items())


def _toml(value: Value) -> str:
    if not isinstance(value, str):
        return str(value).lower()
    inner = json.dumps(value, ensure_ascii=False)[1:-1]
    return '"' + inner.replace('\\"', "\\u0022").replace("\x7f", "\\u007f") + '"'


class ExpectedSummary:
    """The `summary.json` that a run will write.

    A resumed run, or one that is refused because its name is taken, finds the summary of an earlier
    run. So the state of the file before the run is recorded, and only a changed file counts.

    Parameters
    ----------
    config : mapping
        The run config as `named` returns it.

    Attributes
    ----------
    directory : Path
        The run directory.
    """

    def __init__(self, config: Mapping[str, Value]) -> None:
        # The app writes to the default folder if it cannot write to the given one.
        folders = [Path(str(config["results-dir"])), home() / "results"]
        places = [folder / str(config["run-name"]) / "summary.json" for folder in folders]
        self.directory = places[0].parent
        self._before = {path: _stamp(path) for path in places}

    def read(self) -> tuple[Path, dict[str, Any]]:
        """Read the summary that this run wrote, empty if it wrote none; returns the run directory
        too."""
        for path, before in self._before.items():
            if _stamp(path) not in (None, before):
                with contextlib.suppress(ValueError):  # written only in part
                    return path.parent, json.loads(path.read_text(encoding="utf-8"))
        return self.directory, {}

    def tell(
        self, status: str, details: str, is_here: bool = True, wording: Callable[[str], str] = str
    ) -> bool:
        """Print the figures of the run, and if it failed the reason.

        Parameters
        ----------
        status, details : str
            Flower's status of the run.
        is_here : bool
            False if the results may be on another machine; Flower's status is then enough.
        wording : callable
            Changes the reason before it is printed.

        Returns
        -------
        bool
            Whether the run completed.
        """
        console = Console()
        folder, summary = self.read()
        if summary:
            console.print(summary_table(summary))
        if (report := folder / "report.html").exists() and summary:
            print("report:", report)
        told = str((summary or {"status": "" if is_here else "completed"})["status"])
        if status == COMPLETED and told.startswith("completed"):
            print("results:", folder)
            return True
        reason = summary.get("error") or ("" if summary else "the app left no summary; ") + details
        console.print(
            f"[red]The run failed[/red] (Flower says {status}): {escape(wording(str(reason)))}",
            soft_wrap=True,
        )
        return False


def _stamp(path: Path) -> tuple[int, ...] | None:
    """A value that changes whenever a file is written; None if the file does not exist."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
