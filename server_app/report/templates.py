"""Pages from Jinja2 templates. Everything is escaped that is not marked as HTML: much of it comes from other machines.

Templates of the pages of runs end in `.md` too, since they go to the SuperLink, and Flower's bundle takes no `.html`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup, escape

from curvfed.server_app.report import units

HERE = "curvfed.server_app.report"


@dataclass(frozen=True)
class Table:
    """A table that scrolls in its own box; the first cell of a row is its heading.

    Attributes
    ----------
    header : sequence
        Empty for none.
    rows : sequence of sequences
        A cell that is `Markup` brings its own `<td>`.
    label : str
        What a screen reader calls the box.
    kind : {"figures", "figures wide", "text"}
        Figures are aligned to the right; many columns of them leave little room to the first.
    """

    header: Sequence[Any]
    rows: Sequence[Sequence[Any]]
    label: str
    kind: str = "figures"


@dataclass(frozen=True)
class Picture:
    """A picture of the page of a run.

    Attributes
    ----------
    svg : Markup
        The whole element but for its alternative text.
    words : str
        The macros `words` and `words_alt` of captions.html.md make its caption and its alternative text.
    facts : mapping
        What these macros are told.
    """

    svg: Markup
    words: str
    facts: Mapping[str, Any]


def render(template: str, package: str = HERE, **context: Any) -> str:
    """Render a template of a package's folder `templates`, which may use those of the pages of runs."""
    return _environment(package).get_template(template).render(context)


def on_one_line(text: str) -> Markup:
    """What a macro says, without its line breaks; text that is no HTML is escaped."""
    return Markup(" ".join(escape(text).split()))


def _is_html(template: str | None) -> bool:
    return template is None or template.endswith((".html", ".html.md"))


@cache
def _environment(package: str) -> Environment:
    loader = ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, HERE))])
    made = Environment(
        loader=loader, autoescape=_is_html, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    made.filters |= {one.__name__: one for one in (units.percent, units.size, units.duration, units.number, units.amount,
                     units.printable, on_one_line)}  # fmt: skip
    made.tests["figure"] = units.is_number
    made.tests["table"] = lambda part: isinstance(part, Table)
    return made
