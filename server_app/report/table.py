"""A table of a page, as HTML, Markdown and LaTeX."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from curvfed.server_app.report.templates import render
from curvfed.strategies.methods import METHODS

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


class Cell(NamedTuple):
    """A cell: its text, whether it is the best, and a hint for the mouse."""

    text: str = ""
    is_best: bool = False
    hint: str = ""


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes
    ----------
    title : str
    heads, columns : sequence of str
        The heads of the columns that name a row, and those of its cells.
    rows : sequence of (names, cells)
    legend : str
        Sentences below it.
    kind : str
        "figures", aligned to the right; "figures wide" for many columns; or "text".
    """

    title: str
    heads: Sequence[str]
    columns: Sequence[str]
    rows: Sequence[tuple[Sequence[str], Sequence[Cell]]]
    legend: str = ""
    kind: str = "figures"

    @property
    def html(self) -> Markup:
        """In the style of the pages, with its title above and its legend below."""
        return Markup(render("table.html.md", table=self))

    @property
    def markdown(self) -> str:
        """In GitHub's Markdown."""
        return render("table.md", table=self, methods=METHODS)

    @property
    def latex(self) -> str:
        """A `table` with the rules of booktabs."""
        return render("table.tex.md", table=self, tex=lambda text: text.translate(_LATEX))
