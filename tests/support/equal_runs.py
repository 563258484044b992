"""What must be equal between equal runs, however they were made."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app_runs import Run

from curvfed.strategies.base.keys import dotted


def is_figure(column: str) -> bool:
    """Whether equal runs have equal values in it."""
    return not re.search(r"seconds|versions|results-dir|^workers$", column)


def figures(path: Path) -> dict[str, Any]:
    """Everything that must be equal between equal runs."""
    run = Run(path)
    summary = {key: value for key, value in dotted(run.summary).items() if is_figure(key)}
    return run.figures | {"summary": summary, "described": run.described}


def same_arrays(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether arrays by name have the same names and bits."""
    return one.keys() == other.keys() and all(
        one[name].tobytes() == other[name].tobytes() for name in one
    )
