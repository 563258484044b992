"""The summary of a run that failed, also of one that could not begin."""

import contextlib
import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from curvfed.strategies.base.run_keys import home
from curvfed.strategies.config.run_config import RunConfig
from curvfed.tasks.atomic_file import write_atomically


def write_failure(error: str, raw: Mapping[str, Any], config: RunConfig | None) -> Path | None:
    """Write the summary of a run that could not begin into a new directory; returns its path, or None if none can be made.

    The directory is made where the run directory would have been, or if that is impossible below the default results
    folder. An existing directory is never changed.

    Parameters
    ----------
    raw : mapping
        The configuration as given, possibly invalid.
    config : RunConfig or None
        The parsed configuration, if it is valid.
    """
    run_name, results_dir = raw.get("run-name"), raw.get("results-dir")
    wanted = run_name if isinstance(run_name, str) and run_name == Path(run_name).name else ""
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    names = [f"{wanted}-refused-{stamp}"] if wanted else [f"refused-{stamp}"]
    if wanted and raw.get("resume") is not True:  # a resumed run keeps its own directory
        names.insert(0, wanted)
    given = [Path(results_dir)] if isinstance(results_dir, str) and results_dir else []
    with contextlib.suppress(RuntimeError):  # "~name" without such a user
        given = [folder.expanduser() for folder in given]
    for folder in [*given, home() / "results"]:
        for name in names:
            try:
                (folder / name).mkdir(parents=True)
                text = json.dumps(failed_summary(error, config), indent=2)
                write_atomically(folder / name / "summary.json", text.encode())
            except (OSError, ValueError):
                continue
            return folder / name
    return None


def failed_summary(error: str, config: RunConfig | None) -> dict[str, Any]:
    """All keys of a summary, for a run without figures."""
    return {
        "status": "failed",
        "error": error,
        "method": config.method if config else None,
        "dataset": config.dataset if config else None,
        "seed": config.seed if config else None,
        "num_clients": None,
        "rounds": 0,
        "global_accuracy": None,
        "personal_accuracy_mean": None,
        "personal_accuracy_std": None,
        "metrics": {},
        "best_validation": None,
        "bytes_up": None,
        "bytes_down": None,
        "seconds": None,
        "seconds_training": None,
        "seconds_aggregation": None,
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the main libraries."""
    return {"python": platform.python_version()} | {name: version(name) for name in ("flwr", "torch", "numpy")}
