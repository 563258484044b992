"""The builder of pages, of one run and of many: their numbers as readers see them, their tables and
pictures, and the templates that put them together."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from curvfed.server_app.directory import is_number
from curvfed.server_app.report import style
from curvfed.tasks.amounts import amount


def percent(fraction: Any) -> str:
    """A fraction as percent with one decimal."""
    if is_number(fraction):
        return f"{100 * fraction:.1f}%"
    return "–"


def number(value: Any, digits: int = 4) -> str:
    """A number without a unit: an int with separated thousands, a float with `digits` decimals."""
    if not is_number(value):
        return "–"
    if isinstance(value, int):
        text = f"{value:,d}"
    else:
        text = f"{value:,.{digits}f}"
    return text.replace("-", "−")


def printable(text: str, longest: int = 18) -> str:
    """A text on one line, cut short, with ? for letters that cannot be printed: names come from
    other machines."""
    letters = [letter if letter.isprintable() else "?" for letter in text]
    plain = " ".join("".join(letters).split())
    if len(plain) <= longest:
        return plain
    return f"{plain[: longest - 1]}…"


_WHOLE = re.compile(r"\([^()]{1,30}\)|\S+(?: [±–] \S+| (?:k|M|G|T)?B\b| (?:s|min|h)\b)+")
"""Parts of a cell that stay on one line: an interval, a mean with its spread, a number with its
unit."""


_NUMBER = re.compile(r"[-−]?\d+(?:\.\d*)?(?:e[-+]?\d+)?")


def whole_parts(text: str) -> Markup:
    """A cell's text as HTML that breaks between its parts, never inside one."""
    html = Markup()
    end = 0
    for part in _WHOLE.finditer(text):
        html += escape(text[end : part.start()])
        html += Markup('<span class="whole">{}</span>').format(part[0])
        end = part.end()
    return html + escape(text[end:])


def render(template: str, package: str = "curvfed.server_app.report", **context: Any) -> str:
    """Render a template of the folder `templates` of a package, by Jinja2, which escapes in HTML
    everything that is not marked as HTML: much of it comes from other machines.

    The templates' names end in `.md` because they go to the SuperLink, and Flower's bundle takes
    no `.html`.
    """
    return _environment(package).get_template(template).render(context)


def _is_html(template: str | None) -> bool:
    return template is None or template.endswith(".html.md")


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=_is_html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["amount"] = amount
    environment.filters["whole_parts"] = whole_parts
    return environment


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
    optional : collection of str
        The columns that `shown` leaves out where they tell nothing apart; without any
        other column, it leaves out the rows.
    is_folded : bool
        Whether a page shows the names after a row's first one below it, not in columns.
    """

    title: str
    heads: Sequence[str]
    columns: Sequence[str]
    rows: Sequence[tuple[Sequence[str], Sequence[Cell]]]
    legend: str = ""
    kind: str = "figures"
    optional: Collection[str] = ()
    is_folded: bool = False

    @cached_property
    def shown(self) -> "Table":
        """The table without optional columns that are empty, or equal in all of several rows; the
        legend names what is equal."""
        equal = {}
        kept = []
        for place, column in enumerate(self.columns):
            texts = [cells[place].text for _, cells in self.rows]
            values = [text for text in texts if text not in ("", "–")]
            if column in self.optional and not values:
                continue
            is_equal = len(set(values)) == 1 and 1 < len(values) == len(texts)
            if column in self.optional and is_equal:
                equal[column] = values[0]
            else:
                kept.append(place)
        pairs = "; ".join(f"{column}: {text}" for column, text in equal.items())
        rows = [(names, [cells[place] for place in kept]) for names, cells in self.rows]
        if equal and not kept:
            rows = []
        legend = f"{self.legend} The same in all rows: {pairs}." if equal else self.legend
        columns = [self.columns[place] for place in kept]
        return replace(self, columns=columns, rows=rows, legend=legend.strip(), optional=())

    def details(self, names: Sequence[str]) -> str:
        """The names of a row after its first one, in a line: a number or a bool with its head, a
        text alone."""
        parts = []
        for head, name in zip(self.heads[1:], names[1:], strict=True):
            is_bare = name not in ("true", "false") and not _NUMBER.fullmatch(name)
            parts.append(name if is_bare else f"{head} = {name}")
        return ", ".join(filter(None, parts))

    @property
    def html(self) -> Markup:
        """In the style of the pages, with its title above and its legend below."""
        return Markup(render("table.html.md", table=self.shown))


@dataclass(frozen=True)
class Picture:
    """A picture of a page.

    Attributes
    ----------
    figure : matplotlib Figure
        Made within `style.applied`.
    title : str
        The subject of the picture; unique in its page.
    caption : str
    files : sequence of Path
        The saved PNG and SVG; empty if the picture is not saved.
    """

    figure: Any
    title: str
    caption: str
    files: Sequence[Path] = ()

    def saved(self, stem: Path, pdf: bool = False) -> "Picture":
        """Save it as `stem`.png and `stem`.svg on white paper, and as `stem`.pdf too if asked."""
        return replace(self, files=style.save(self.figure, stem, pdf))

    @property
    def html(self) -> Markup:
        """The element, in the page's own colours."""
        text = f"{self.title}. {self.caption}"
        return Markup('<svg role="img" aria-label="{}" {}</svg>').format(
            text, style.to_svg(self.figure, self.title)
        )


@dataclass(frozen=True)
class Page:
    """The content of a page.

    Attributes
    ----------
    title : str
    words : sequence of str
        Paragraphs on subject and outcome.
    notes : sequence of str
        Warnings.
    pictures : sequence of Picture
    tables : sequence of Table
    csv : sequence of str
        Tables unrounded.
    about : sequence of (class, text)
        How the run ended, and how large it was.
    headline : Table or None
        The run's scores and those of trivial answers.
    error : str
        The reason for a failure.
    commands : mapping of str to str
        Commands that repeat the run, by their effect.
    configuration : Table or None
        Shown folded, at the end.
    versions : mapping of str to str
    """

    title: str
    words: Sequence[str]
    notes: Sequence[str]
    pictures: Sequence[Picture]
    tables: Sequence[Table]
    csv: Sequence[str] = ()
    about: Sequence[tuple[str, str]] = ()
    headline: Table | None = None
    error: str = ""
    commands: Mapping[str, str] = field(default_factory=dict)
    configuration: Table | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


def html_page(page: Page) -> str:
    """Write the page as one HTML file that needs nothing else."""
    return render("page.html.md", page=page, colours=style.VARIABLES)
