"""Pages from Jinja2 templates, which escape everything that is not marked as HTML: much of it comes
from other machines.

The templates for the pages of runs end in `.md` because they go to the SuperLink, and Flower's
bundle takes no `.html`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jinja2 import ChoiceLoader, Environment, PackageLoader
from markupsafe import Markup, escape

from curvfed.server_app.directory.tables import is_number
from curvfed.server_app.report import results, style, units

HERE = "curvfed.server_app.report"


@dataclass(frozen=True)
class Picture:
    """A picture of the page of a run.

    Attributes
    ----------
    axes : matplotlib's Axes
        Made within `style.applied`.
    words : str
        The macros of captions.html.md that write its caption and, with `_alt` added, its
        alternative text.
    facts : mapping
        The argument of these macros.
    """

    axes: Any
    words: str
    facts: Mapping[str, Any]

    @property
    def svg(self) -> Markup:
        """The content of the element, without its alternative text."""
        with style.applied(style.PAGE_SIZE):
            return style.to_svg(self.axes, f"{self.words} {self.facts.get('title', '')}")


def render(template: str, package: str = HERE, **context: Any) -> str:
    """Render a template of a package's folder `templates`, which may use those of the pages of
    runs."""
    return _environment(package).get_template(template).render(context)


def on_one_line(text: str) -> Markup:
    """The output of a macro without line breaks; text that is not HTML is escaped."""
    return Markup(" ".join(escape(text).split()))


def _is_html(template: str | None) -> bool:
    return template is None or template.endswith((".html", ".html.md"))


@cache
def _environment(package: str) -> Environment:
    loader = ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, HERE))])
    made = Environment(
        loader=loader,
        autoescape=_is_html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters = (
        units.percent,
        units.size,
        units.duration,
        units.number,
        units.amount,
        units.spread,
        units.less,
        units.printable,
        on_one_line,
        results.metric,
        results.score_text,
        np.median,
    )
    made.filters |= {one.__name__: one for one in filters}
    made.tests |= {"figure": is_number, "prefixed": str.startswith}
    return made
