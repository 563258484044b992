"""Pages of many runs as Markdown, and their tables as Markdown and LaTeX."""

from pathlib import Path
from typing import Any

from curvfed.server_app.report.page import Page, Table, render
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


def markdown(table: Table) -> str:
    """A table in GitHub's Markdown."""
    return _rendered("table.md", table=table.shown, methods=METHODS)


def latex(table: Table) -> str:
    """A `table` of LaTeX with the rules of booktabs."""
    return _rendered("table.tex.md", table=table.shown, tex=lambda text: text.translate(_LATEX))


def markdown_page(page: Page, folder: Path) -> str:
    """Write the page as Markdown for a file in this folder, below which its pictures are saved."""
    places = [picture.files[0].relative_to(folder).as_posix() for picture in page.pictures]
    return _rendered("page.md", page=page, places=places, markdown=markdown).rstrip() + "\n"


def _rendered(template: str, **context: Any) -> str:
    return render(template, package=__package__, **context)
