"""The figures of a run as a table for the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table


def summary_table(summary: Mapping[str, Any]) -> Table:
    """Lay out the figures of a run, one per row, those that the method does not have left out."""
    figures = {key: value for key, value in summary.items() if not isinstance(value, Mapping)}
    mean, spread = figures.get("personal_accuracy_mean"), figures.pop("personal_accuracy_std", None)
    if mean is not None and spread is not None:
        figures["personal_accuracy_mean"] = f"{mean:.4f} ± {spread:.4f}"
    figures |= {f"best_validation.{key}": value for key, value in (summary.get("best_validation") or {}).items()}
    figures |= summary.get("metrics") or {}
    table = Table(show_header=False)
    for key, value in figures.items():
        if value is not None:
            table.add_row(key.replace("_", " "), f"{value:.4f}" if isinstance(value, float) else str(value))
    return table
