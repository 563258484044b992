"""`report.html`: one self-contained page about a run, made from the files of its directory alone."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.server_app import hull_outcome, outcome, traffic
from curvfed.server_app.gallery import clients_table, gallery
from curvfed.server_app.hull_tables import hull_tables
from curvfed.server_app.page import Html, amount, duration, element, is_number, page, section, table
from curvfed.server_app.run_files import CALIBRATIONS, RunFiles, numbers
from curvfed.strategies.config.parse import fields, parse
from curvfed.strategies.config.run_config import flatten
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
    one_shot = hull_outcome.is_one_shot(run)
    content = page(
        _title(run),
        _headline(run, one_shot),
        section("Result", *(hull_outcome if one_shot else outcome).result(run)),
        section("Pictures", *gallery(run)),
        section("Hulls", *hull_tables(run)),
        section("Clients", *clients_table(run)),
        section("Messages", *(traffic.phases if one_shot else traffic.messages)(run)),
        section("Dropped replies and refused nodes", *_dropped(run, one_shot)),
        section("Time", *_time(run, one_shot)),
        section("Run it again", *_again(run)),
        section("Configuration", *_configuration(run)),
        section("Versions", *_versions(run)),
    )
    path = run_dir / "report.html"
    # Names from other machines may hold what UTF-8 cannot.
    write_atomically(path, content.encode("utf-8", "replace"))
    return path


def _title(run: RunFiles) -> str:
    method, dataset = run.summary.get("method"), run.summary.get("dataset")
    return f"{method} on {Path(dataset).name}" if method and dataset else f"Run {run.name}"


def _headline(run: RunFiles, one_shot: bool) -> Html:
    told = run.summary
    status = told.get("status", "not finished")
    about = [element("span", status, class_=status if status in ("completed", "failed") else "open")]
    if is_number(told.get("num_clients")):
        about.append(element("span", amount(told["num_clients"], "client")))
    if one_shot or is_number(told.get("rounds")):
        about.append(element("span", "one shot" if one_shot else amount(told["rounds"], "round")))
    if is_number(told.get("seed")):
        about.append(element("span", f"seed {told['seed']}"))
    about.append(element("span", "run ", element("code", run.name)))
    parts = [element("h1", _title(run)), element("p", *about, class_="about")]
    if method := METHODS.get(told.get("method") or ""):
        parts.append(element("p", f"{method.summary[0].upper()}{method.summary[1:]}.", class_="about"))
    if told.get("error"):
        what = element("strong", f"The run failed {_when_it_failed(run, one_shot)}.")
        parts.append(element("div", what, element("pre", told["error"]), class_="error", role="alert"))
    return element("header", *parts, (hull_outcome if one_shot else outcome).lead(run))


def _when_it_failed(run: RunFiles, one_shot: bool) -> str:
    if one_shot:
        return f"after phase {run.rounds['phase'][-1]}" if run.rounds else "before its first phase was over"
    return f"after round {run.summary['rounds']}" if run.summary.get("rounds") else "before its first round was over"


def _dropped(run: RunFiles, one_shot: bool) -> list[Html]:
    """Everything that did not count, with its reason: a row each."""
    reasons = run.scores.get("dropped", ())
    dropped = [
        (_where(run, i, one_shot), f"partition {run.scores['partition'][i]}", reason)
        for i, reason in enumerate(reasons)
        if reason
    ]
    rows = [("start", name, reason) for name, reason in run.refused.items()] + dropped[:MOST_DROPPED]
    if not rows:
        return [element("p", "None.")] if run.scores else []
    parts = [table(["when", "who", "reason"], rows, "text", label="Dropped replies and refused nodes")]
    if len(dropped) > MOST_DROPPED:
        parts.append(element("p", f"{len(dropped):,} replies were dropped; clients.csv has them all.", class_="note"))
    return parts


def _where(run: RunFiles, row: int, one_shot: bool) -> str:
    """The round of a row of clients.csv, and its phase where there are others of the same clients in it."""
    phase, number = run.scores["phase"][row], f"round {run.scores['round'][row]}"
    if one_shot:
        return f"phase {phase}"
    return f"{number}, phase {phase}" if phase in traffic.MASKING else number


def _time(run: RunFiles, one_shot: bool) -> list[Html]:
    whole = ("Whole run", duration(run.summary.get("seconds")))
    rows = [whole, *(_time_of_one_shot(run) if one_shot else _time_of_rounds(run))]
    rows = [row for row in rows if row[1] != "–"]
    return [table([], rows, label="Time")] if rows else []


def _time_of_one_shot(run: RunFiles) -> list[tuple[str, str]]:
    decoding: Any = (run.summary.get("metrics") or {}).get("seconds_decoding")
    total: Any = run.summary.get("seconds_aggregation")
    learning = total - decoding if is_number(decoding) and is_number(total) else None
    return [("Decoding of the sum", duration(decoding)), ("Grouping, training of the classifier", duration(learning))]


def _time_of_rounds(run: RunFiles) -> list[tuple[str, str]]:
    told = run.summary
    rounds, calibration, tuning = (
        run.by_round("seconds", *phases)[1] for phases in ((TRAIN,), CALIBRATIONS, (FINE_TUNE,))
    )
    phases = zip(run.rounds.get("phase", ()), numbers(run.rounds, "seconds"), strict=True)
    counted = float(np.nansum([seconds for phase, seconds in phases if phase not in WITHIN_SUM]))
    whole: Any = told.get("seconds")
    rest = whole - counted if is_number(whole) and counted and whole >= counted else None
    return [
        ("Outside the rounds: data, models, checkpoints", duration(rest)),
        ("Local training, summed over the clients", duration(told.get("seconds_training"))),
        ("Aggregation", duration(told.get("seconds_aggregation"))),
        ("First round, with what is set up once", duration(float(rounds[0]) if len(rounds) else None)),
        ("A later round, median", duration(float(np.median(rounds[1:])) if len(rounds) > 1 else None)),
        ("Calibration", duration(float(calibration.sum()) if len(calibration) else None)),
        ("Fine-tuning", duration(float(tuning.sum()) if len(tuning) else None)),
    ]


def _again(run: RunFiles) -> list[Html]:
    """Two commands that hold what differs from the defaults."""
    if not run.config:
        return []
    keys = [key for key in dict.fromkeys(["method", "dataset", "seed", *_changed(run)]) if key in run.config]
    keys = [key for key in keys if key not in ONE_RUN_ONLY]
    pairs = " ".join(f"{key}={_toml(run.config[key])}" for key in keys)
    plain = " ".join(shlex.quote(f"{key}={_plain(run.config[key])}") for key in keys)
    parts = max((about.get("num_partitions", 0) for about in run.clients), default=0)
    clients = parts or len(run.clients) + len(run.refused)  # else that of an earlier version
    # Clients that bring their own data have no partition in common, and cannot be simulated.
    simulated = any(about.get("partition_digest") for about in run.clients)
    flower, alone = (
        f"flwr run . --stream --run-config {shlex.quote(pairs)}",
        f"curvfed simulate {plain}",
    )
    if simulated:
        flower += f" --federation-config 'num-supernodes={clients} client-resources-num-cpus=1'"
        alone += f" num-supernodes={clients}"
    lines = [element("p", "Through Flower:"), element("pre", flower)]
    if simulated or not run.clients:
        lines += [element("p", "Or in one process, which starts quicker:"), element("pre", alone)]
    return lines


def _changed(run: RunFiles) -> list[str]:
    """Keys whose values are not the defaults."""
    defaults = flatten(parse({}))
    return [key for key, value in run.config.items() if key not in defaults or defaults[key] != value]


def _toml(value: Any) -> str:
    """A value as Flower's command line takes it: no escapes within quotes."""
    if isinstance(value, str):
        return f"'{value}'" if '"' in value or "\\" in value else f'"{value}"'
    return _plain(value)


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _configuration(run: RunFiles) -> list[Html]:
    if not run.config:
        return []
    meanings, changed = {key: field.description or "" for key, field in fields()}, _changed(run)
    chosen = run.summary.get("settled") or {}
    rows = []
    for key, value in run.config.items():
        parts = [element("strong" if key in changed else "code", _toml(value))]
        if key in chosen:
            parts.append(element("span", f" → {_toml(chosen[key])}"))
        cell = element("td", *parts)
        rows.append((key, cell, meanings.get(key, "")))
    title = f"All {len(rows)} keys; {len(changed)} differ from the defaults, in bold"
    title += "; → is what the run chose" if chosen else ""
    inner = table(["key", "value", "what it is"], rows, "text", label="Configuration")
    return [element("details", element("summary", title), inner)]


def _versions(run: RunFiles) -> list[Html]:
    versions = [f"{name} {version}" for name, version in (run.summary.get("versions") or {}).items()]
    parts = [element("p", ", ".join(versions))] if versions else []
    if run.absent:
        parts.append(element("p", f"Not in the run directory: {', '.join(run.absent)}.", class_="note"))
    return parts
