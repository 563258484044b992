"""A table as Markdown, LaTeX, HTML and CSV."""

import csv
import io
import math
from collections.abc import Callable

from curvfed.deployments.report.cells import LEVEL, Cell, Sheet
from curvfed.deployments.report.quantities import Quantity
from curvfed.deployments.sweep.plan import SUPERNODES
from curvfed.server_app.page import Html, element, join, table
from curvfed.strategies.methods import METHODS

MINUS = "−"
FAILED = "failed"

KEY_WORDS = {
    "method": "method", "dataset": "data set", SUPERNODES: "clients", "alpha": "α", "local-epochs": "local epochs",
    "learning-rate": "learning rate", "embedding-dim": "dimension", "fraction-train": "share of clients a round",
    "hyperfed.margin": "margin", "hyperfed.slope": "slope", "hull.epsilon": "ε",
}  # fmt: skip
"""What readers call a key; the others are called by their name, without its table."""


def key_words(key: str) -> str:
    """A key of the run config in the head of a table or beside an axis."""
    return KEY_WORDS.get(key, key.rpartition(".")[2].replace("-", " "))


def value_words(sheet: Sheet, key: str, value: object) -> str:
    """A value as readers are told it."""
    text = str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
    return sheet.names.get(text, text)


def place_words(sheet: Sheet, key: str, value: object) -> str:
    """A value and, where it is a number, of what: names speak for themselves."""
    words = value_words(sheet, key, value)
    if isinstance(value, str) or words in sheet.names.values():
        return words
    return f"{words} clients" if key == SUPERNODES else f"{key_words(key)} = {words}"


def number(value: float, kind: Quantity) -> str:
    """With the decimals of its quantity and a true minus sign."""
    return f"{value:.{kind.decimals}f}".replace("-", MINUS)


def markdown(sheet: Sheet) -> str:
    """A table in GitHub's Markdown, with its title above and its words below."""

    def cell(one: Cell, kind: Quantity) -> str:
        text = _text(sheet, one, kind)
        return f"**{text}**" if one.is_best else text

    lines = [f"| {' | '.join(_row_heads(sheet) + _column_heads(sheet))} |"]
    lines.append("|" + " --- |" * len(_row_heads(sheet)) + " ---: |" * len(sheet.columns))
    for heads, cells in _lines(sheet):
        shown = [_with_paper(cell(one, kind), one, kind) if one else "" for one, kind in cells]
        lines.append(f"| {' | '.join([*(f'`{head}`' if head in METHODS else head for head in heads), *shown])} |")
    return "\n".join([*([f"**{sheet.title}**", ""] if sheet.title else []), *lines, "", legend(sheet), ""])


def latex(sheet: Sheet) -> str:
    """A `table` of booktabs."""

    def cell(one: Cell, kind: Quantity) -> str:
        text = _text(sheet, one, kind).replace("±", r"$\pm$").replace(MINUS, "$-$")
        text = text.replace("↑", r"$\uparrow$").replace("↓", r"$\downarrow$")
        return rf"\textbf{{{text}}}" if one.is_best else text

    title = f"{sheet.title}. " if sheet.title else ""
    lines = [r"\begin{table}", rf"\caption{{{_tex(title + legend(sheet))}}}", r"\centering"]
    lines.append(rf"\begin{{tabular}}{{{'l' * len(_row_heads(sheet))}{'r' * len(sheet.columns)}}}")
    lines += [
        r"\toprule",
        " & ".join(_tex(head) for head in _row_heads(sheet) + _column_heads(sheet)) + r" \\",
        r"\midrule",
    ]
    for heads, cells in _lines(sheet):
        shown = [_with_paper(cell(one, kind), one, kind, _tex) if one else "" for one, kind in cells]
        lines.append(" & ".join([*map(_tex, heads), *shown]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def html_table(sheet: Sheet) -> Html:
    """A table of the app's own pages, with its title above and its words below."""

    def cell(one: Cell | None, kind: Quantity) -> Html:
        if one is None:
            return element("td")
        text = _text(sheet, one, kind)
        why = {"title": "; ".join(one.errors)} if one.errors else {}
        shown = element("b", text) if one.is_best else join(text)
        return element("td", Html(_with_paper(shown, one, kind, lambda text: join(text))), **why)

    rows = [[*names, *(cell(one, kind) for one, kind in cells)] for names, cells in _lines(sheet)]
    body = table(_row_heads(sheet) + _column_heads(sheet), rows, label=sheet.title or "table")
    return join(element("h3", sheet.title) if sheet.title else None, body, element("p", legend(sheet), class_="note"))


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


def legend(sheet: Sheet) -> str:
    """What the cells mean, in sentences, as far as the table has it."""
    counts = sheet.counts
    cells = sheet.cells.values()
    words = [sheet.words.strip()] if sheet.words.strip() else []
    if not _heads_say_figures(sheet):
        words.append(f"Cells: {sheet.quantity(sheet.columns[0]).label}.")
    if counts:
        if max(counts) == 1:
            words.append("One seed.")
        else:
            least = f"{min(counts)} to " if min(counts) < max(counts) else ""
            words.append(f"Mean ± standard deviation over {least}{max(counts)} seeds.")
    if any(cell.is_best for cell in cells):
        words.append(f"Bold: the best of a {'row' if sheet.across else 'column'}, on the same data.")
    if tested := [cell.paired for cell in cells if cell.paired and cell.paired.count > 1]:
        test = f"above or below {sheet.against} by a paired t-test over the seeds, p < {LEVEL:g}"
        marked = any(paired.mark for paired in tested)
        words.append(f"↑ ↓: {test}, not corrected for the number of tests." if marked else f"None is {test}.")
    if any(cell.printed for cell in cells):
        words.append("In brackets: the paper's.")
    empty = [cell for cell in cells if not cell.values and not cell.errors]
    if any(not cell.lacking for cell in empty):
        words.append("Empty: not run.")
    if any(cell.lacking for cell in empty):
        words.append("–: run, without such a figure.")
    return " ".join(words)


def _row_heads(sheet: Sheet) -> list[str]:
    return [key_words(key) for key, _ in sheet.rows[0]]


def _heads_say_figures(sheet: Sheet) -> bool:
    return len({figure for _, figure in sheet.columns}) > 1 or not sheet.columns[0][0]


def _column_heads(sheet: Sheet) -> list[str]:
    """The values that head a column, and what it has where the table has several figures or no other head."""
    told = _heads_say_figures(sheet)
    return [
        ", ".join(
            [place_words(sheet, key, value) for key, value in place]
            + ([sheet.quantity((place, figure)).label] if told else [])
        )
        for place, figure in sheet.columns
    ]


def _lines(sheet: Sheet) -> list[tuple[list[str], list[tuple[Cell | None, Quantity]]]]:
    return [
        (
            [value_words(sheet, key, value) for key, value in row],
            [(sheet.cells.get((row, column)), sheet.quantity(column)) for column in sheet.columns],
        )
        for row in sheet.rows
    ]


def _text(sheet: Sheet, cell: Cell, kind: Quantity) -> str:
    """Mean ± spread, what marks it, and how many seeds where cells differ in that."""
    if not cell.values:
        return FAILED if cell.errors else "–" if cell.lacking else ""
    text = number(cell.mean, kind)
    if not math.isnan(cell.spread):
        text += f" ± {number(cell.spread, kind)}"
    text += f" {cell.paired.mark}" if cell.paired and cell.paired.mark else ""
    if cell.missing or cell.errors or cell.lacking or len(sheet.counts) > 1:
        text += f" n = {len(cell.values)}"
        text += f", {len(cell.errors)} {FAILED}" if cell.errors else ""
    return text


def _with_paper(text: str, cell: Cell, kind: Quantity, escape: Callable[[str], str] = str) -> str:
    if cell.printed is None:
        return text
    printed = cell.printed
    spread = "" if printed.spread is None else f" ± {printed.spread:.{kind.decimals}f}"
    return f"{text} {escape(f'({printed.value:.{kind.decimals}f}{spread})')}".strip()


def _exact(value: float) -> str:
    return "" if math.isnan(value) else repr(value)


def _tex(text: str) -> str:
    for letter, escaped in (
        ("\\", r"\textbackslash "), ("&", r"\&"), ("%", r"\%"), ("_", r"\_"), ("#", r"\#"), ("$", r"\$"), ("{", r"\{"),
        ("}", r"\}"), ("±", r"$\pm$"), (MINUS, "$-$"), ("↑", r"$\uparrow$"), ("↓", r"$\downarrow$"), ("α", r"$\alpha$"),
        ("ε", r"$\varepsilon$"), ("<", "$<$"), (">", "$>$"), ("^", r"\^{}"), ("~", r"\textasciitilde{}"), ("é", r"\'e"),
    ):  # fmt: skip
        text = text.replace(letter, escaped)
    return text
