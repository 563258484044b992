"""A table as Markdown, LaTeX, HTML and CSV."""

import csv
import io
import math
from typing import NamedTuple

from markupsafe import Markup

from curvfed.deployments.report.cells import LEVEL, Cell, Sheet
from curvfed.deployments.report.quantities import Quantity
from curvfed.deployments.report.words import Names
from curvfed.server_app.report.templates import render
from curvfed.strategies.methods import METHODS

HERE = "curvfed.deployments.report"

MINUS = "−"
FAILED = "failed"

_LATEX = str.maketrans({
    "\\": r"\textbackslash ", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}",
    "±": r"$\pm$", MINUS: "$-$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "α": r"$\alpha$", "ε": r"$\varepsilon$",
    "<": "$<$", ">": "$>$", "^": r"\^{}", "~": r"\textasciitilde{}", "é": r"\'e",
})  # fmt: skip


class Shown(NamedTuple):
    """A cell as readers see it: ours, the paper's, whether it is the best, and why runs of it failed."""

    text: str
    paper: str
    is_best: bool
    errors: tuple[str, ...]


def number(value: float, kind: Quantity) -> str:
    """With the decimals of its quantity and a true minus sign."""
    return f"{value:.{kind.decimals}f}".replace("-", MINUS)


def markdown(sheet: Sheet) -> str:
    """A table in GitHub's Markdown, with its title above and its words below."""
    return _rendered("table.md", sheet)


def latex(sheet: Sheet) -> str:
    """A `table` of booktabs."""
    return _rendered("table.tex", sheet)


def html_table(sheet: Sheet) -> Markup:
    """A table of the app's own pages, with its title above and its words below."""
    return Markup(_rendered("table.html", sheet))


def csv_text(sheet: Sheet) -> str:
    """A row per cell, unrounded."""
    keys = [key for key, _ in sheet.rows[0]] + [key for key, _ in sheet.columns[0][0]]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*keys, "figure", "unit", "mean", "std", "seeds", "best", "difference", "p", "pairs", "paper",
                     "paper_std", "not_made", "failed"])  # fmt: skip
    for (row, column), cell in sheet.cells.items():
        kind, paired, printed = sheet.quantity(column), cell.paired, cell.printed
        writer.writerow([
            *(value for _, value in row), *(value for _, value in column[0]), column[1], kind.unit,
            _exact(cell.mean), _exact(cell.spread), " ".join(map(str, cell.values)), int(cell.is_best),
            _exact(paired.difference) if paired else "", _exact(paired.p) if paired else "",
            paired.count if paired else "", "" if printed is None else printed.value,
            "" if printed is None or printed.spread is None else printed.spread, cell.missing, "; ".join(cell.errors),
        ])  # fmt: skip
    return out.getvalue()


def place_words(sheet: Sheet, key: str, value: object) -> str:
    """A value and, where it is a number, of what."""
    return Names(sheet.names).told(key, value)


def _rendered(template: str, sheet: Sheet) -> str:
    names, cells = Names(sheet.names), sheet.cells
    heads = [names.key(key) for key, _ in sheet.rows[0]]
    of_figures = len({figure for _, figure in sheet.columns}) > 1 or not sheet.columns[0][0]
    columns = [
        ", ".join([names.told(*one) for one in place] + [sheet.quantity((place, figure)).label] * of_figures)
        for place, figure in sheet.columns
    ]
    rows = [
        ([names.value(value) for _, value in row], [_shown(sheet, cells.get((row, column)), sheet.quantity(column))
                                                    for column in sheet.columns])
        for row in sheet.rows
    ]  # fmt: skip
    empty = [cell for cell in cells.values() if not cell.values and not cell.errors]
    tested = [cell.paired for cell in cells.values() if cell.paired and cell.paired.count > 1]
    legend = render(
        "legend.txt", HERE, sheet=sheet, level=LEVEL, tested=bool(tested), marked=any(paired.mark for paired in tested),
        label="" if of_figures else sheet.quantity(sheet.columns[0]).label, counts=sorted(sheet.counts),
        best=any(cell.is_best for cell in cells.values()), printed=any(cell.printed for cell in cells.values()),
        unrun=any(not cell.lacking for cell in empty), lacking=any(cell.lacking for cell in empty),
    )  # fmt: skip
    return render(
        template, HERE, sheet=sheet, heads=heads, columns=columns, rows=rows, legend=" ".join(legend.split()),
        methods=METHODS, tex=_tex,
    )  # fmt: skip


def _shown(sheet: Sheet, cell: Cell | None, kind: Quantity) -> Shown:
    """Mean ± spread, what marks it, how many seeds where cells differ in that, and the paper's number."""
    if cell is None:
        return Shown("", "", False, ())
    text = FAILED if cell.errors else "–" if cell.lacking else ""
    if cell.values:
        text = number(cell.mean, kind) + ("" if math.isnan(cell.spread) else f" ± {number(cell.spread, kind)}")
        text += f" {cell.paired.mark}" if cell.paired and cell.paired.mark else ""
        if cell.missing or cell.errors or cell.lacking or len(sheet.counts) > 1:
            text += f" n = {len(cell.values)}" + (f", {len(cell.errors)} {FAILED}" if cell.errors else "")
    printed, paper = cell.printed, ""
    if printed is not None:
        spread = "" if printed.spread is None else f" ± {printed.spread:.{kind.decimals}f}"
        paper = f"({printed.value:.{kind.decimals}f}{spread})"
    return Shown(text, paper, cell.is_best, cell.errors)


def _tex(text: str) -> str:
    return text.translate(_LATEX)


def _exact(value: float) -> str:
    return "" if math.isnan(value) else repr(value)
