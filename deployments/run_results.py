"""The directory of a run by Flower: chosen before the run, and read at its end."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from curvfed.deployments.arguments import Value
from curvfed.deployments.terminal import open_console, summary_table
from curvfed.strategies.base.run_keys import RunKeys, home

COMPLETED = "finished:completed"
"""Flower's status of a completed run."""


def named(settings: Mapping[str, Value], config: RunKeys) -> dict[str, Value]:
    """Add an absolute results-dir and a run-name to the settings, which fix the run directory."""
    from curvfed.server_app.directory.run_name import default_name  # its import takes a while

    name = config.run_name or default_name(config)
    return dict(settings) | {"results-dir": str(config.results_path.absolute()), "run-name": name}


def toml_pairs(config: Mapping[str, Value]) -> str:
    """Write `key=value` pairs for `--run-config`.

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
    """The future `summary.json` of a run.

    The folder of a resumed run, or of one refused for its name, has the summary of an earlier run.
    So the state of the file before the run is recorded, and only a changed file counts.

    Parameters
    ----------
    config : mapping
        The run config, as `named` returns it.

    Attributes
    ----------
    directory : Path
        The run directory.
    """

    def __init__(self, config: Mapping[str, Value]) -> None:
        # The app writes to the default folder if it cannot write to results-dir.
        folders = [Path(str(config["results-dir"])), home() / "results"]
        runs = [folder / str(config["run-name"]) for folder in folders]
        self.directory = runs[0]
        self._before = {run: _file_state(run / "summary.json") for run in runs}

    def read(self) -> tuple[Path, dict[str, Any]]:
        """The run directory, and the summary of this run; empty without one."""
        from curvfed.server_app.directory.run_files import RunFiles  # its import takes a while

        for run, before in self._before.items():
            if _file_state(run / "summary.json") not in (None, before):
                summary = RunFiles(run).summary
                if summary:
                    return run, summary
        return self.directory, {}

    def report(
        self, status: str, details: str, is_here: bool = True, wording: Callable[[str], str] = str
    ) -> bool:
        """Print the figures of the run, and the reason if it failed.

        Parameters
        ----------
        status, details : str
            Flower's status of the run.
        is_here : bool
            False if the results can be on another machine; Flower's status then decides.
        wording : callable
            Adds to the reason before it is printed.

        Returns
        -------
        bool
            Whether the run completed.
        """
        console = open_console()
        folder, summary = self.read()
        if summary:
            from curvfed.server_app.directory.run_files import RunFiles  # its import takes a while

            console.print(summary_table(summary, RunFiles(folder).fine_tuned))
            page = folder / "report.html"
            if page.exists():
                print("report:", page)
        run_status = "" if is_here else "completed"
        if summary:
            run_status = str(summary["status"])
        if status == COMPLETED and run_status.startswith("completed"):
            print("results:", folder)
            return True
        reason = str(summary.get("error") or details)
        if not summary:
            reason = f"the app left no summary; {details}"
        console.print(
            Text.assemble(("The run failed", "red"), f" (Flower says {status}): {wording(reason)}"),
            soft_wrap=True,
        )
        return False


def _file_state(path: Path) -> tuple[int, ...] | None:
    """A value that changes with each write of a file; None if the file does not exist."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
