"""A table as Markdown, LaTeX, HTML and CSV."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from markupsafe import Markup

from curvfed.deployments.report.table import LEVEL, Table
from curvfed.deployments.report.words import FIGURE, quantity
from curvfed.server_app.report.templates import render
from curvfed.strategies.methods import METHODS

HERE = "curvfed.deployments.report"

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

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash ",
        "&": r"\&",
        "%": r"\%",
        "_": r"\_",
        "#": r"\#",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "±": r"$\pm$",
        "−": "$-$",
        "↑": r"$\uparrow$",
        "↓": r"$\downarrow$",
        "α": r"$\alpha$",
        "ε": r"$\varepsilon$",
        "<": "$<$",
        ">": "$>$",
        "^": r"\^{}",
        "~": r"\textasciitilde{}",
        "é": r"\'e",
    }
)


class Shown(NamedTuple):
    """The text of a cell; whether it is the best; the errors of failed runs."""

    text: str = ""
    is_best: bool = False
    failed: str = ""


def markdown(table: Table) -> str:
    """Write a table in GitHub's Markdown, with its title above and its legend below."""
    return _rendered("table.md", table)


def latex(table: Table) -> str:
    """Write a table as a `table` with the rules of booktabs."""
    return _rendered("table.tex", table)


def html_table(table: Table) -> Markup:
    """Write a table in the style of the app's pages, with its title above and its legend below."""
    return Markup(_rendered("table.html", table))


def csv_text(table: Table) -> str:
    """Write a row per cell, unrounded."""
    units = [quantity(figure).unit for figure in table.cells[FIGURE]]
    cells = table.cells.assign(unit=units, best=table.cells["best"].astype(int))
    keys = list(dict.fromkeys([*table.rows, *table.columns, FIGURE]))
    return str(cells[[*keys, *CSV_COLUMNS]].to_csv(index=False, lineterminator="\n"))


def _rendered(template: str, table: Table) -> str:
    frame = table.cells
    names = table.names
    columns = [*table.columns, FIGURE]
    rows = table.rows
    heads = frame[columns].drop_duplicates().to_dict("records")
    # the legend names the figure, not every head
    shared = frame[FIGURE].nunique() == 1 and bool(table.columns)
    unequal = frame["count"][frame["count"] > 0].nunique() > 1
    shown = {
        (*(cell[key] for key in rows), *(cell[key] for key in columns)): _shown(cell, unequal)
        for cell in frame.to_dict("records")
    }
    lines = [
        (
            [names.value(value) for value in row],
            [shown.get((*row, *head.values()), Shown()) for head in heads],
        )
        for row in frame[rows].drop_duplicates().itertuples(index=False, name=None)
    ]
    empty = frame[(frame["count"] == 0) & (frame["failures"] == 0)]
    legend = render(
        "legend.txt",
        HERE,
        table=table,
        level=LEVEL,
        tested=bool((frame["pairs"] > 1).any()),
        marked=bool((frame["p"] < LEVEL).any()),
        label=quantity(frame[FIGURE][0]).label if shared else "",
        counts=sorted(set(frame["count"]) - {0}),
        best=bool(frame["best"].any()),
        unrun=bool((empty["lacking"] == 0).any()),
        lacking=bool((empty["lacking"] > 0).any()),
    )
    return render(
        template,
        HERE,
        table=table,
        heads=[names.key(key) for key in rows],
        columns=[_head(table, head, shared) for head in heads],
        rows=lines,
        legend=" ".join(legend.split()),
        methods=METHODS,
        tex=_tex,
    )


def _head(table: Table, head: Mapping[str, Any], shared: bool) -> str:
    words = [table.names.setting(key, head[key]) for key in table.columns]
    return ", ".join(words if shared else [*words, quantity(head[FIGURE]).label])


def _shown(cell: Mapping[str, Any], unequal: bool) -> Shown:
    """Write mean ± spread, the mark of a significant difference, the number of seeds where cells
    differ in it."""
    kind = quantity(cell[FIGURE])
    text = "–" if cell["lacking"] else ""
    if cell["failures"]:
        text = FAILED
    if cell["count"]:
        text = kind.number(cell["mean"]) + (
            "" if math.isnan(cell["std"]) else f" ± {kind.number(cell['std'])}"
        )
        if cell["p"] < LEVEL:
            text += " ↑" if cell["difference"] > 0 else " ↓"
        if cell["not_made"] or cell["failures"] or cell["lacking"] or unequal:
            text += f" n = {cell['count']}" + (
                f", {cell['failures']} {FAILED}" if cell["failures"] else ""
            )
    return Shown(text, cell["best"], cell[FAILED])


def _tex(text: str) -> str:
    return text.translate(_LATEX)
