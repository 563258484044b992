"""The pages of a run and of many runs: one kit of figures, tables and templates.

It reads run directories, and knows nothing of running. What others use of it stands here, and is
imported at first use: a command's help needs none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from curvfed.server_app.report.page import Cell as Cell
    from curvfed.server_app.report.page import Page as Page
    from curvfed.server_app.report.page import Picture as Picture
    from curvfed.server_app.report.page import Table as Table
    from curvfed.server_app.report.page import html_page as html_page
    from curvfed.server_app.report.page import markdown_page as markdown_page
    from curvfed.server_app.report.run_figures import run_figure as run_figure
    from curvfed.server_app.report.run_page import write_report as write_report
    from curvfed.server_app.report.selection import Run as Run
    from curvfed.server_app.report.selection import known_name as known_name
    from curvfed.server_app.report.study import SUPERNODES as SUPERNODES
    from curvfed.server_app.report.study import Plan as Plan
    from curvfed.server_app.report.study import Planned as Planned
    from curvfed.server_app.report.sweep_page import check_page as check_page
    from curvfed.server_app.report.sweep_page import make_page as make_page
    from curvfed.server_app.report.sweep_page import run_notes as run_notes
    from curvfed.server_app.report.sweep_page import write_page as write_page
    from curvfed.server_app.report.units import number as number
    from curvfed.server_app.report.units import percent as percent

FORMATS = ("md", "html", "tex", "csv", "pdf")
"""Formats of a sweep's page and tables. Figures are always written as png and svg; pdf adds PDF
files of them."""

_NAMES = {
    "page": ("Cell", "Page", "Picture", "Table", "html_page", "markdown_page"),
    "run_figures": ("run_figure",),
    "run_page": ("write_report",),
    "selection": ("Run", "known_name"),
    "study": ("SUPERNODES", "Plan", "Planned"),
    "sweep_page": ("check_page", "make_page", "run_notes", "write_page"),
    "units": ("number", "percent"),
}
"""What each module has for others."""


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
