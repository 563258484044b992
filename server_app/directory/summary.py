"""The content of `summary.json`, also for a run that failed or could not begin."""

import contextlib
import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.server_app.answer import personal_figures, trivial_scores
from curvfed.server_app.directory.checkpoint import State
from curvfed.server_app.directory.run_lock import has_begun
from curvfed.server_app.federation import Federation
from curvfed.strategies.base.figure import RUN
from curvfed.strategies.base.figures import BEST, GLOBAL_ACCURACY, PERSONAL_ACCURACY, names
from curvfed.strategies.base.run_keys import RunKeys, home
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks.amounts import amount
from curvfed.tasks.stored_files import write_atomically

LAST = 3
"""Number of last rounds in the average of the global accuracy; at small alpha it varies by up to 20
points between rounds."""


def summary(
    config: RunConfig,
    state: State,
    federation: Federation,
    aggregation: dict[str, float],
    settings: dict[str, Any],
) -> dict[str, Any]:
    """All keys except status, error and warnings.

    Parameters
    ----------
    aggregation : dict
        Figures of the aggregation.
    settings : dict
        Values that the run chose for keys without a given value.
    """
    figures = personal_figures(state.latest, federation.descriptions, state.cohort)
    totals = state.totals
    rounds = max(totals.get("rounds", 0), 1)
    num_own = sum(
        not description.partition_digest for description in federation.descriptions.values()
    )
    last = state.scored.get("last", [])
    calibrated = state.scored.get("calibrated")
    metrics = figures.pop("metrics") | aggregation
    has_scores = metrics.get(federation.metric, figures[PERSONAL_ACCURACY]) is not None
    # Beside no personal score, the score of the trivial answer at the clients compares nothing.
    metrics |= trivial_scores(federation.descriptions if has_scores else {})
    metrics |= {
        "heterogeneity": federation.heterogeneity(),
        "replies_dropped": int(totals.get("dropped", 0)),
        "nodes_refused": len(federation.refused),
    }
    metrics |= state.scored.get("figures", {})
    if len(last) == LAST:
        metrics["global_accuracy_last3"] = float(np.mean(last))
    if calibrated is not None:
        metrics |= {
            "global_accuracy_uncalibrated": last[-1],
            "global_accuracy_calibrated": calibrated,
        }
    sizes = {size for size in state.examples.values() if size}
    asked = max(state.train_requests.values(), default=0)
    metrics |= config.guard.figures(sizes, asked)
    if reason := state.scored.get("not_calibrated"):
        metrics["not_calibrated"] = reason
    final = calibrated
    if final is None and last:
        final = last[-1]
    absences = [
        {"partition": partition, "asked": state.train_requests[partition], **absence}
        for partition, absence in sorted(state.absences.items())
    ]
    dataset = f"own data of {amount(num_own, 'node')}" if num_own else config.dataset
    return {
        "method": config.method,
        "dataset": dataset,
        "seed": config.seed,
        "num_clients": len(federation.nodes),
        "rounds": state.round,
        GLOBAL_ACCURACY: final,
        **figures,
        "metrics": metrics,
        "settled": settings,
        "absences": absences,
        BEST: state.best,
        "bytes_up": totals.get("bytes_up", 0.0) / rounds,
        "bytes_down": totals.get("bytes_down", 0.0) / rounds,
        "seconds": totals.get("seconds"),
        "seconds_training": totals.get("seconds_training", 0.0),
        "seconds_aggregation": totals.get("seconds_aggregation", 0.0),
        "versions": versions(),
    }


def write_failure(
    error: str, key: str, raw: Mapping[str, Any], config: RunKeys | None
) -> Path | None:
    """Write the summary of a run that could not begin into a new directory; returns its path, or
    None if none can be made.

    The directory is made where the run directory would have been, or if that is impossible below
    the default results folder. A run that is there is never changed.

    Parameters
    ----------
    error, key : str
        The text of the error, and its stable key.
    raw : mapping
        The configuration as given, possibly invalid.
    config : RunKeys or None
        The parsed configuration, if it is valid.
    """
    run_name = raw.get("run-name")
    results_dir = raw.get("results-dir")
    asked_name = run_name if isinstance(run_name, str) and run_name == Path(run_name).name else ""
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    names = [f"{asked_name}-refused-{stamp}"] if asked_name else [f"refused-{stamp}"]
    if asked_name and raw.get("resume") is not True:  # a resumed run keeps its own directory
        names.insert(0, asked_name)
    folders = [Path(results_dir)] if isinstance(results_dir, str) and results_dir else []
    with contextlib.suppress(RuntimeError):  # "~name" without such a user
        folders = [folder.expanduser() for folder in folders]
    for folder in [*folders, home() / "results"]:
        for name in names:
            try:
                (folder / name).mkdir(
                    parents=True, mode=0o700, exist_ok=not has_begun(folder / name)
                )
                text = json.dumps(failed_summary(error, key, config), indent=2)
                write_atomically(folder / name / "summary.json", text.encode(), private=True)
            except (OSError, ValueError):
                with contextlib.suppress(OSError):
                    (folder / name).rmdir()  # empty on a full disk
                continue
            return folder / name
    return None


def failed_summary(error: str, key: str, config: RunKeys | None) -> dict[str, Any]:
    """All keys of a summary, for a run without figures; an empty data set is not known."""
    return {
        "status": "failed",
        "error": error,
        "error_key": key,
        "method": config.method if config else None,
        "dataset": config.dataset or None if config else None,
        "seed": config.seed if config else None,
        "num_clients": None,
        "rounds": 0,
        **dict.fromkeys(names(RUN)),
        "metrics": {},
        "absences": [],
        BEST: None,
        "versions": versions(),
        "warnings": [],
        "warning_keys": [],
    }


version_of = cache(version)
"""The version of a library, read once in a process."""


def versions() -> dict[str, str]:
    """Versions of Python and of the main libraries."""
    return {"python": platform.python_version()} | {
        name: version_of(name) for name in ("flwr", "torch", "numpy")
    }
