"""Templates of pages and tables, by Jinja2, which escapes in HTML everything that is not marked as
HTML: much of it comes from other machines.

Their names end in `.md` because they go to the SuperLink, and Flower's bundle takes no `.html`.
"""

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader

from curvfed.server_app.report.units import amount


def render(template: str, **context: Any) -> str:
    """Render a template of the folder `templates`."""
    return _environment().get_template(template).render(context)


def _is_html(template: str | None) -> bool:
    return template is None or template.endswith(".html.md")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("curvfed.server_app.report"),
        autoescape=_is_html,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["amount"] = amount
    return environment
