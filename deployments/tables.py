"""Tables for the terminal: the figures of a run, and lists."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from curvfed.strategies.base.figures import BEST, DETAIL, FIGURES, PERSONAL_ACCURACY, find
from curvfed.strategies.methods import METHODS

FIRST = ("status", "error", "error_key", "method", "dataset", "seed", "num_clients", "rounds")
"""The keys of a summary above its figures."""


def summary_table(summary: Mapping[str, Any]) -> Table:
    """Lay out the figures of a run: the last round, and beside it the best validation round if
    there is one."""
    method = METHODS.get(summary.get("method") or "")  # which registers its figures
    columns = {"last round" if method is None else method.stage: summary}
    if summary.get(BEST):
        columns["best validation"] = summary[BEST]
    values = [_values(column) for column in columns.values()]
    table = Table("", *columns)
    for name in dict.fromkeys([*FIRST, *FIGURES, *values[0]]):
        cells = [column.get(name, "") for column in values]
        if any(cells) and DETAIL not in find(name).levels:
            table.add_row(find(name).words, *cells)
    return table


def _values(summary: Mapping[str, Any]) -> dict[str, str]:
    """The printed values of a summary and of its metrics, with mean and deviation in one."""
    stored = dict(summary) | (summary.get("metrics") or {})
    stored["rounds"] = stored.get("rounds", stored.pop("round", None))
    spread = stored.pop("personal_accuracy_std", None)
    values = {
        name: find(name).text(str(value) if name in FIRST and value is not None else value)
        for name, value in stored.items()
        if not isinstance(value, Mapping | list)
    }
    if values.get(PERSONAL_ACCURACY) and spread is not None:
        values[PERSONAL_ACCURACY] += f" ± {find(PERSONAL_ACCURACY).text(spread)}"
    return values


def print_rows(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Print a table, its cells folded to the width of the terminal."""
    table = Table(*head)
    for column in table.columns:
        column.overflow = "fold"
    for row in rows:
        table.add_row(*map(escape, row))
    Console().print(table)
