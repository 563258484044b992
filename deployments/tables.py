"""The figures of a run as a table for the terminal."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table


def summary_table(summary: Mapping[str, Any]) -> Table:
    """Lay out the figures of a run: the last round beside the one of the best validation score, where there is one."""
    best: Mapping[str, Any] = summary.get("best_validation") or {}
    last, at_best = _figures(summary), _figures(best)
    table = Table("", "last round", *(["best validation"] if best else []))
    for key, value in last.items():
        cells = [_words(value), _words(at_best.get(key))] if best else [_words(value)]
        if any(cells):
            table.add_row(key.replace("_", " "), *cells)
    return table


def _figures(part: Mapping[str, Any]) -> dict[str, Any]:
    """One level of names; mean and deviation in one cell."""
    figures = {key: value for key, value in part.items() if not isinstance(value, Mapping)} | (
        part.get("metrics") or {}
    )
    mean, spread = figures.get("personal_accuracy_mean"), figures.pop("personal_accuracy_std", None)
    if mean is not None and spread is not None:
        figures["personal_accuracy_mean"] = f"{mean:.4f} ± {spread:.4f}"
    return {"round" if key == "rounds" else key: value for key, value in figures.items()}


def _words(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)
