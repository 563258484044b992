"""The pages of a run and of many runs: one kit of figures, tables and templates.

It reads run directories, and knows nothing of running. What others use of it stands here, and is
imported at first use: a command's help needs none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curvfed.server_app.report.command_figures import draw_curvature, draw_differences
    from curvfed.server_app.report.kinds import KINDS
    from curvfed.server_app.report.page import Cell, Page, Picture, Table, html_page, markdown_page
    from curvfed.server_app.report.run_figures import run_figure
    from curvfed.server_app.report.run_page import write_report
    from curvfed.server_app.report.selection import Run, known_name
    from curvfed.server_app.report.study import SUPERNODES, Plan, Planned
    from curvfed.server_app.report.sweep_page import (
        check_page,
        make_page,
        run_notes,
        write_csv,
        write_page,
    )
    from curvfed.server_app.report.units import number, percent

FORMATS = ("md", "html", "tex", "csv", "pdf")
"""Formats of a sweep's page and tables. Figures are always written as png and svg; pdf adds PDF
files of them."""

_PLACES = {
    "draw_differences": "command_figures",
    "draw_curvature": "command_figures",
    "KINDS": "kinds",
    "Page": "page",
    "Picture": "page",
    "html_page": "page",
    "markdown_page": "page",
    "write_report": "run_page",
    "run_figure": "run_figures",
    "Run": "selection",
    "known_name": "selection",
    "SUPERNODES": "study",
    "Plan": "study",
    "Planned": "study",
    "check_page": "sweep_page",
    "make_page": "sweep_page",
    "run_notes": "sweep_page",
    "write_csv": "sweep_page",
    "write_page": "sweep_page",
    "Cell": "page",
    "Table": "page",
    "number": "units",
    "percent": "units",
}

__all__ = [
    "FORMATS",
    "KINDS",
    "SUPERNODES",
    "Cell",
    "Page",
    "Picture",
    "Plan",
    "Planned",
    "Run",
    "Table",
    "check_page",
    "draw_curvature",
    "draw_differences",
    "html_page",
    "known_name",
    "make_page",
    "markdown_page",
    "number",
    "percent",
    "run_figure",
    "run_notes",
    "write_csv",
    "write_page",
    "write_report",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
