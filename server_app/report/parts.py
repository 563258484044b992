"""The parts of a run's page: the curves of the core, and the pictures and tables that extensions
and other packages add, by the group `curvfed.report`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import style
from curvfed.server_app.report.page import Picture, Table
from curvfed.server_app.report.run_figures import curvature_by_round, loss, score
from curvfed.strategies.run_log import log
from curvfed.tasks import plugins

Draw = Callable[[RunFiles], Picture | None]
"""Draws from the files of a run, or returns None if they lack the data."""
CURVES: tuple[Draw, ...] = (score, loss, curvature_by_round)
"""The core's pictures."""


@dataclass(frozen=True)
class Parts:
    """Pictures and tables of a page, in order.

    Attributes
    ----------
    pictures : sequence of Draw
    tables : sequence of Table
    main : sequence of Draw
        The candidates for the single picture of a run; the first with a figure is shown.
    headline, commands, configuration
        As in `Page`.
    """

    pictures: Sequence[Draw]
    tables: Sequence[Table] = ()
    main: Sequence[Draw] = (score,)
    headline: Table | None = None
    commands: Mapping[str, str] = field(default_factory=dict)
    configuration: Table | None = None


def parts_of(run: RunFiles) -> Parts:
    """The parts of a run's page. Each object of the group is a function from the files of the run
    and the parts so far to the new parts; one that fails adds nothing."""
    parts = Parts(CURVES)
    for name in plugins.additions("report"):
        try:
            parts = plugins.addition("report", name)(run, parts)
        except Exception as error:  # of another package, or about unforeseen files
            log.warning("the report lacks the parts of %s: %s", name, error, exc_info=True)
    return parts


def drawn(run: RunFiles, parts: Parts) -> list[Picture]:
    """All pictures for which the files have data."""
    with style.applied(style.PAGE_SIZE):
        return [picture for draw in parts.pictures if (picture := draw(run)) is not None]


def run_figure(folder: Path) -> Any:
    """Draw the accuracy over the rounds, or of a one-shot run the disc, as matplotlib's Figure.

    Raises
    ------
    ValueError
        If the run has neither: a run of rounds needs scores of two rounds.
    """
    run = RunFiles(folder)
    with style.applied(style.PAGE_SIZE):
        for draw in parts_of(run).main:
            picture = draw(run)
            if picture is not None and picture.figure is not None:
                picture.figure.set_facecolor("white")
                return picture.figure
    raise ValueError(
        f"{folder} has nothing to plot: allowed is a run with scores of two rounds, or with hulls"
    )
