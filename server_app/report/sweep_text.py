"""The texts of a sweep's table: heads, cells, legend, and CSV."""

import math
from collections.abc import Mapping
from typing import Any

from curvfed.server_app.report.sweep_table import LEVEL, SweepTable
from curvfed.server_app.report.table import Cell, Table
from curvfed.server_app.report.templates import render
from curvfed.server_app.report.words import FIGURE
from curvfed.strategies.base.figures import find

FAILED = "failed"

CSV_COLUMNS = [
    "unit",
    "mean",
    "std",
    "seeds",
    "best",
    "difference",
    "p",
    "pairs",
    "not_made",
    FAILED,
]


def csv_text(table: SweepTable) -> str:
    """Write a row per cell, unrounded."""
    units = [find(figure).unit for figure in table.cells[FIGURE]]
    cells = table.cells.assign(unit=units, best=table.cells["best"].astype(int))
    keys = list(dict.fromkeys([*table.rows, *table.columns, FIGURE]))
    return str(cells[[*keys, *CSV_COLUMNS]].to_csv(index=False, lineterminator="\n"))


def as_text(table: SweepTable) -> Table:
    """Write the cells as text, with mean ± spread, and a legend that explains what there is."""
    frame = table.cells
    names = table.names
    columns = [*table.columns, FIGURE]
    heads = frame[columns].drop_duplicates().to_dict("records")
    # the legend names the figure, not every head
    is_shared = frame[FIGURE].nunique() == 1 and bool(table.columns)
    is_unequal = frame["count"][frame["count"] > 0].nunique() > 1
    texts = {
        (*(cell[key] for key in table.rows), *(cell[key] for key in columns)): _cell(
            cell, is_unequal
        )
        for cell in frame.to_dict("records")
    }
    rows = [
        (
            [names.value(value) for value in row],
            [texts.get((*row, *head.values()), Cell()) for head in heads],
        )
        for row in frame[table.rows].drop_duplicates().itertuples(index=False, name=None)
    ]
    return Table(
        table.title,
        [names.key(key) for key in table.rows],
        [_head(table, head, is_shared) for head in heads],
        rows,
        _legend(table, is_shared),
    )


def _legend(table: SweepTable, is_shared: bool) -> str:
    frame = table.cells
    empty = frame[(frame["count"] == 0) & (frame["failures"] == 0)]
    text = render(
        "legend.md",
        table=table,
        level=LEVEL,
        tested=bool((frame["pairs"] > 1).any()),
        marked=bool((frame["p"] < LEVEL).any()),
        label=find(frame[FIGURE][0]).label if is_shared else "",
        counts=sorted(set(frame["count"]) - {0}),
        best=bool(frame["best"].any()),
        unrun=bool((empty["lacking"] == 0).any()),
        lacking=bool((empty["lacking"] > 0).any()),
    )
    return " ".join(text.split())


def _head(table: SweepTable, head: Mapping[str, Any], is_shared: bool) -> str:
    words = [table.names.setting(key, head[key]) for key in table.columns]
    return ", ".join(words if is_shared else [*words, find(head[FIGURE]).label])


def _cell(cell: Mapping[str, Any], is_unequal: bool) -> Cell:
    """Write mean ± spread, the mark of a significant difference, the number of seeds where cells
    differ in it."""
    kind = find(cell[FIGURE])
    text = "–" if cell["lacking"] else ""
    if cell["failures"]:
        text = FAILED
    if cell["count"]:
        text = _with_spread(cell["mean"], cell["std"], kind.digits)
        if cell["p"] < LEVEL:
            text += " ↑" if cell["difference"] > 0 else " ↓"
        if cell["not_made"] or cell["failures"] or cell["lacking"] or is_unequal:
            text += f" n = {cell['count']}"
            text += f", {cell['failures']} {FAILED}" if cell["failures"] else ""
    return Cell(text, cell["best"], cell[FAILED])


def _with_spread(mean: float, std: float, decimals: int) -> str:
    spread = "" if math.isnan(std) else f" ± {std:.{decimals}f}"
    return f"{mean:.{decimals}f}{spread}".replace("-", "−")
