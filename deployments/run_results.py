"""The run directory as it is known before Flower is told of a run, and what the run has left there at its end."""

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from curvfed.deployments.pairs import Value
from curvfed.deployments.tables import summary_table
from curvfed.strategies.config.run_config import RunConfig

COMPLETED = "finished:completed"
"""Flower's status of a run that went well."""


def named(settings: Mapping[str, Value], config: RunConfig) -> dict[str, Value]:
    """The settings with an absolute results-dir and a run-name: the run directory is then known whatever happens."""
    from curvfed.server_app.directory.run_directory import default_name  # takes a while to import

    name = config.run_name or default_name(config)
    return dict(settings) | {"results-dir": str(config.results_path.absolute()), "run-name": name}


def toml_pairs(config: Mapping[str, Value]) -> str:
    """Write `key=value` pairs the way `--run-config` reads them.

    Flower splits the pairs by a pattern that ends a string at the next double quote, escaped or not, so a quote inside
    a string is written as its code point.
    """
    return " ".join(f"{key}={_toml(value)}" for key, value in config.items())


def _toml(value: Value) -> str:
    if not isinstance(value, str):
        return str(value).lower()
    inner = json.dumps(value, ensure_ascii=False)[1:-1]
    return '"' + inner.replace('\\"', "\\u0022").replace("\x7f", "\\u007f") + '"'


class ExpectedSummary:
    """The `summary.json` that a run is about to write.

    A run that is resumed, or refused because its name is taken, finds the summary of an earlier run in place, which says
    nothing about this one. So what is there beforehand is remembered.

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
        # The app writes to the default folder where it cannot write to the one that it is told.
        folders = [Path(str(config["results-dir"])), RunConfig().results_path]
        places = [folder / str(config["run-name"]) / "summary.json" for folder in folders]
        self.directory = places[0].parent
        self._before = {path: _stamp(path) for path in places}

    def read(self) -> tuple[Path, dict[str, Any]]:
        """The run directory and the summary that this run wrote; an empty one if it wrote none."""
        for path, before in self._before.items():
            if _stamp(path) not in (None, before):
                with contextlib.suppress(ValueError):  # cut off while it was written
                    return path.parent, json.loads(path.read_text(encoding="utf-8"))
        return self.directory, {}

    def tell(self, status: str, details: str, is_here: bool = True, wording: Callable[[str], str] = str) -> bool:
        """Print the figures of the run, and where it failed why.

        Parameters
        ----------
        status, details : str
            Flower's.
        is_here : bool
            False where the results may lie on another machine: Flower's word is enough then.
        wording : callable
            What is done to the reason before it is printed.

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
        if status == COMPLETED and (summary or {"status": "" if is_here else "completed"})["status"] == "completed":
            print("results:", folder)
            return True
        reason = summary.get("error") or ("" if summary else "the app left no summary; ") + details
        console.print(
            f"[red]The run failed[/red] (Flower says {status}): {escape(wording(str(reason)))}", soft_wrap=True
        )
        return False


def _stamp(path: Path) -> tuple[int, ...] | None:
    """A value that changes whenever a file is written again; None if it is not there."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
