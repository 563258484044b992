"""`report.html`: one self-contained page about a run, made from the files of its directory alone."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from curvfed.server_app.directory.run_files import CALIBRATIONS, RunFiles, numbers
from curvfed.server_app.report import hull_results, round_results, traffic
from curvfed.server_app.report.client_table import client_table
from curvfed.server_app.report.hull_tables import hull_tables
from curvfed.server_app.report.round_figures import figures
from curvfed.server_app.report.templates import Table, render
from curvfed.server_app.report.units import duration, is_number
from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.parse import fields
from curvfed.strategies.config.run_config import RunConfig, config_class
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.messages import FINE_TUNE, FORGET, KEYS, SHARES, TRAIN, UNMASK
from curvfed.tasks.atomic_file import write_atomically

MOST_DROPPED = 100
"""Dropped replies that are listed; of the others the number is told."""

WITHIN_SUM = frozenset({KEYS, SHARES, UNMASK, FORGET})
"""Steps of a secure sum, whose time is in that of the phase that it masks."""

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
    one_shot = hull_results.is_one_shot(run)
    content = render(
        "run.html.md", run=run, one_shot=one_shot, method=METHODS.get(run.summary.get("method") or ""),
        title=_title(run), pictures=figures(run), before={
            "Result": (hull_results if one_shot else round_results).results(run),
        }, after={
            "Hulls": hull_tables(run),
            "Clients": client_table(run),
            "Messages": (traffic.phases if one_shot else traffic.messages)(run),
            "Dropped replies and refused nodes": _dropped(run, one_shot),
            "Time": _time(run, one_shot),
        }, commands=_commands(run), configuration=_configuration(run), results=round_results,
        hull=hull_results if one_shot else None, unmasked=UNMASK in run.rounds.get("phase", ()),
    )  # fmt: skip
    path = run_dir / "report.html"
    # Names from other machines may hold what UTF-8 cannot.
    write_atomically(path, content.encode("utf-8", "replace"))
    return path


def _title(run: RunFiles) -> str:
    method, dataset = run.summary.get("method"), run.summary.get("dataset")
    return f"{method} on {Path(dataset).name}" if method and dataset else f"Run {run.name}"


def _dropped(run: RunFiles, one_shot: bool) -> list[Any]:
    """Everything that did not count, with its reason: a row each."""
    reasons = run.scores.get("dropped", ())
    dropped = [
        (_where(run, row, one_shot), f"partition {run.scores['partition'][row]}", reason)
        for row, reason in enumerate(reasons)
        if reason
    ]
    rows = [("start", name, reason) for name, reason in run.refused.items()] + dropped[:MOST_DROPPED]
    if not rows:
        return ["None."] if run.scores else []
    more = f"{len(dropped):,} replies were dropped; clients.csv has them all."
    table = Table(["when", "who", "reason"], rows, "Dropped replies and refused nodes", "text")
    return [table, *([more] if len(dropped) > MOST_DROPPED else [])]


def _where(run: RunFiles, row: int, one_shot: bool) -> str:
    """The round of a row of clients.csv, and its phase where there are others of the same clients in it."""
    phase, number = run.scores["phase"][row], f"round {run.scores['round'][row]}"
    if one_shot:
        return f"phase {phase}"
    return f"{number}, phase {phase}" if phase in traffic.MASKING else number


def _time(run: RunFiles, one_shot: bool) -> list[Any]:
    told = run.summary
    whole, total = (told.get(name) for name in ("seconds", "seconds_aggregation"))
    decoding = (told.get("metrics") or {}).get("seconds_decoding")
    rounds, calibration, tuning = (
        run.by_round("seconds", *phases)[1] for phases in ((TRAIN,), CALIBRATIONS, (FINE_TUNE,))
    )
    phases = zip(run.rounds.get("phase", ()), numbers(run.rounds, "seconds"), strict=True)
    counted = float(np.nansum([seconds for phase, seconds in phases if phase not in WITHIN_SUM]))
    rows = [
        ("Decoding of the sum", decoding),
        ("Grouping, training of the classifier", _less(total, decoding)),
    ] if one_shot else [
        ("Outside the rounds: data, models, checkpoints", _less(whole, counted or None)),
        ("Local training, summed over the clients", told.get("seconds_training")),
        ("Aggregation", total),
        ("First round, with what is set up once", float(rounds[0]) if len(rounds) else None),
        ("A later round, median", float(np.median(rounds[1:])) if len(rounds) > 1 else None),
        ("Calibration", float(calibration.sum()) if len(calibration) else None),
        ("Fine-tuning", float(tuning.sum()) if len(tuning) else None),
    ]  # fmt: skip
    shown = [(title, duration(seconds)) for title, seconds in [("Whole run", whole), *rows] if is_number(seconds)]
    return [Table([], shown, "Time")] if shown else []


def _less(whole: Any, part: Any) -> Any:
    """What is left of a time without a part of it; None where that is not known."""
    return whole - part if is_number(whole) and is_number(part) and whole >= part else None


def _commands(run: RunFiles) -> dict[str, str]:
    """Commands that make the run again, which hold what differs from the defaults, by what they do."""
    if not run.config:
        return {}
    keys = [key for key in dict.fromkeys(["method", "dataset", "seed", *_changed(run)]) if key in run.config]
    keys = [key for key in keys if key not in ONE_RUN_ONLY]
    pairs = " ".join(f"{key}={_toml(run.config[key])}" for key in keys)
    plain = " ".join(shlex.quote(f"{key}={_plain(run.config[key])}") for key in keys)
    parts = max((about.get("num_partitions", 0) for about in run.clients), default=0)
    clients = parts or len(run.clients) + len(run.refused)  # else that of an earlier version
    # Clients that bring their own data have no partition in common, and cannot be simulated.
    simulated = any(about.get("partition_digest") for about in run.clients)
    flower, alone = f"flwr run . --stream --run-config {shlex.quote(pairs)}", f"curvfed simulate {plain}"
    if simulated:
        flower += f" --federation-config 'num-supernodes={clients} client-resources-num-cpus=1'"
        alone += f" num-supernodes={clients}"
    told = {"Through Flower:": flower}
    return told | ({"Or in one process, which starts quicker:": alone} if simulated or not run.clients else {})


def _changed(run: RunFiles) -> list[str]:
    """Keys whose values are not the defaults."""
    every = defaults()
    return [key for key, value in run.config.items() if key not in every or every[key] != value]


def _toml(value: Any) -> str:
    """A value as Flower's command line takes it: no escapes within quotes."""
    if isinstance(value, str):
        return f"'{value}'" if '"' in value or "\\" in value else f'"{value}"'
    return _plain(value)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _configuration(run: RunFiles) -> dict[str, Any]:
    """All keys as a table, and how many of them differ from the defaults."""
    method = METHODS.get(str(run.config.get("method")))
    kind = config_class(method, str(run.config.get("aggregation"))) if method else RunConfig
    meanings, changed = {key: field.description or "" for key, field in fields(kind)}, _changed(run)
    chosen, rows = run.summary.get("settled") or {}, []
    for key, value in run.config.items():
        cell = Markup("<td><{0}>{1}</{0}>{2}</td>").format(
            "strong" if key in changed else "code", _toml(value), f" → {_toml(chosen[key])}" if key in chosen else ""
        )
        rows.append((key, cell, meanings.get(key, "")))
    table = Table(["key", "value", "what it is"], rows, "Configuration", "text")
    return {"table": table, "changed": len(changed), "chosen": bool(chosen)}
