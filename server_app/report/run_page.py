"""`report.html`: one self-contained page about a run, made from the files of its directory
alone.
"""

import os
import shlex
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from curvfed.server_app.directory.run_files import CALIBRATIONS, RunFiles
from curvfed.server_app.report import class_scores, results
from curvfed.server_app.report.round_figures import figures
from curvfed.server_app.report.templates import Picture, render
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.parse import fields
from curvfed.strategies.config.run_config import config_class
from curvfed.strategies.methods import METHODS
from curvfed.tasks.names import is_named
from curvfed.tasks.stored_files import write_atomically

MOST_DROPPED = 100
"""Dropped replies that are listed; if there are more, the page tells their number."""

CHECKOUT = "Or by Flower's own command, in a checkout of curvfed:"

PATHS = ("dataset", "data-dir", "test-data", "results-dir", "init-from")
"""Keys whose values may be paths."""

ONE_RUN_ONLY = frozenset({"run-name", "resume"})
"""Keys that another run must not take over."""


def write_report(run_dir: Path) -> Path:
    """Make `report.html` of a run directory, or make it again; equal files give equal bytes.

    Parameters
    ----------
    run_dir : Path
        With any of summary.json, config.toml, clients.json, rounds.csv and clients.csv.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    OSError
        If the page cannot be written.
    """
    run = RunFiles.read(run_dir)
    path = run_dir / "report.html"
    # Names from other machines may hold what UTF-8 cannot encode.
    write_atomically(path, page_text(run, figures(run)).encode("utf-8", "replace"), private=True)
    return path


def page_text(run: RunFiles, pictures: Sequence[Picture]) -> str:
    """The page of a run with these pictures."""
    method = run.summary.get("method") or ""
    dataset = run.summary.get("dataset")
    of_hulls = import_module(f"{__package__}.hull_classes") if run.hulls is not None else None
    title = f"{method} on {Path(dataset).name}" if method and dataset else f"Run {run.name}"
    return render(
        "run.html.md",
        run=run,
        title=title,
        method=METHODS.get(method),
        pictures=pictures,
        results=results,
        scores=class_scores,
        of_hulls=of_hulls,
        tested=class_scores.of_run(run),
        one_shot=results.is_one_shot(run),
        most_dropped=MOST_DROPPED,
        calibrations=CALIBRATIONS,
        commands=_commands(run),
        changed=_changed(run),
        meanings=_meanings(run),
        toml=_toml,
    )


def _commands(run: RunFiles) -> dict[str, str]:
    """Commands that repeat the run, with the keys that differ from the defaults, by what they
    do.
    """
    if not run.config:
        return {}
    keys = [
        key
        for key in dict.fromkeys(["method", "dataset", "seed", *_changed(run)])
        if key in run.config
    ]
    told = {key: _absolute(key, run.config[key]) for key in keys if key not in ONE_RUN_ONLY}
    pairs = " ".join(f"{key}={_toml(value)}" for key, value in told.items())
    flower = f"flwr run . --stream --run-config {shlex.quote(pairs)}"
    words = [shlex.quote(f"{key}={_plain(value)}") for key, value in told.items()]
    parts = max((about.get("num_partitions", 0) for about in run.clients), default=0)
    # runs of earlier versions do not tell the parts
    clients = parts or len(run.clients) + len(run.refused)
    # Clients that bring their own data do not share a partition, and cannot be simulated.
    if any(about.get("partition_digest") for about in run.clients):
        flower += f" --federation-config 'num-supernodes={clients} client-resources-num-cpus=1'"
        words.append(f"num-supernodes={clients}")
    elif run.clients:
        submit = " ".join(["curvfed cluster run", *words])
        return {"On the nodes, which have the data:": submit, CHECKOUT: flower}
    same = " ".join(words)
    return {
        "In one process:": f"curvfed simulate {same}",
        "Through Flower:": f"curvfed run {same}",
        CHECKOUT: flower,
    }


def _absolute(key: str, value: Any) -> Any:
    """A value that is a path from the current folder, as one from anywhere."""
    is_path = key in PATHS and isinstance(value, str) and not (key == "dataset" and is_named(value))
    return os.path.abspath(value) if is_path and value and os.path.exists(value) else value


def _changed(run: RunFiles) -> list[str]:
    """Keys whose values are not the defaults."""
    every = defaults()
    return [key for key, value in run.config.items() if key not in every or every[key] != value]


def _toml(value: Any) -> str:
    """A value as Flower's command line takes it: without escapes inside quotes."""
    if isinstance(value, str):
        return f"'{value}'" if '"' in value or "\\" in value else f'"{value}"'
    return _plain(value)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _meanings(run: RunFiles) -> dict[str, str]:
    """What each key of the run's configuration means."""
    method = METHODS.get(str(run.config.get("method")))
    known = (
        fields(config_class(method, str(run.config.get("aggregation")), _changed(run)))
        if method
        else fields()
    )
    return {key: field.description or "" for key, field in known}
