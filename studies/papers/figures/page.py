"""The page of a paper's sweep: its words, its tables, notes on failed runs, and its figures, by the
kind that a spec of `[[figures]]` names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curvfed.deployments.arguments import read_toml
from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.extensions.sweeps.commands.pages.study import Plan
from curvfed.extensions.sweeps.commands.pages.sweep_page import run_notes
from curvfed.extensions.sweeps.commands.sweep import plan_of
from curvfed.server_app.report import style
from curvfed.server_app.report.page import Page, Picture
from studies.papers.figures import clients, discs
from studies.papers.figures.curves import CURVES, draw_curves
from studies.papers.figures.panels import LINES, draw_lines
from studies.papers.figures.spec import NothingToDraw, Spec
from studies.papers.figures.table import Beside, make_table, no_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMMON = {"kind", "title", "words", "where", "names"}
"""Parts of a spec of any kind: the kind, title, words for below the figure, which runs, and words
in place of values."""

KINDS: dict[str, tuple[Callable[[Spec, Sequence[Run]], "Figure"], set[str]]] = {
    "classes": (clients.draw_classes, clients.CLASSES),
    "clients": (clients.draw_clients, clients.CLIENTS),
    "curvatures": (clients.draw_curvatures, clients.CURVATURES),
    "curves": (draw_curves, CURVES),
    "discs": (discs.draw, discs.PARTS),
    "lines": (draw_lines, LINES),
}
"""The function that draws a kind, and the parts of a spec that only this kind has."""

ENTRIES = ("tables", "figures")
"""Entries of a paper's sweep file beside those of any; a scale may replace them by its own."""


@dataclass(frozen=True)
class Study(Plan):
    """A sweep of a paper at one scale.

    Attributes
    ----------
    brief : str
        What is shown, and what the paper finds, in one sentence or two; `about` has the settings.
    tables, figures : tuple of mapping
        As in the file.
    """

    brief: str = ""
    tables: tuple[Mapping[str, Any], ...] = ()
    figures: tuple[Mapping[str, Any], ...] = ()


def read_study(path: Path, scale: str = "") -> Study:
    """Read a sweep file of a paper.

    Raises
    ------
    UsageError
        As `plan_of`.
    """
    content = read_toml(path)
    parts = {key: content.pop(key, []) for key in ENTRIES}
    brief = " ".join(str(content.pop("brief", "")).split())
    for name, at_scale in content.get("scales", {}).items():
        own = {key: at_scale.pop(key) for key in ENTRIES if key in at_scale}
        if name == scale:
            parts |= own
    plan = plan_of(content, path, scale)
    tables, figures = (tuple(parts[key]) for key in ENTRIES)
    return Study(**vars(plan), brief=brief, tables=tables, figures=figures)


def make_page(study: Study, runs: Sequence[Run], folder: Path, beside: Beside = no_number) -> Page:
    """Compute the tables, and draw the figures into a folder.

    Parameters
    ----------
    study : Study
    runs : sequence of Run
    folder : Path
    beside : callable
        See `make_table`.

    Raises
    ------
    ValueError
        If a table or a figure of the file cannot be made.
    """
    source = str(study.path)
    tables = [make_table(spec, runs, source, beside) for spec in study.tables]
    pictures = []
    empty = []
    for number, spec in enumerate(study.figures, 1):
        title = str(spec["title"])
        try:
            figure = draw_figure(spec, runs, source)
        except NothingToDraw:
            empty.append(f"Nothing to draw yet of: {title}.")
        else:
            caption = f"{title}. {spec.get('words', '')}".strip()
            picture = Picture(figure, title, caption)
            pictures.append(picture.saved(folder / f"{study.path.stem}-{number}"))
    absent = dict.fromkeys(figure for table in tables for figure in table.absent)
    lacking = [f"No completed run has the figure {figure}." for figure in absent]
    return Page(
        study.title,
        [study.brief] if study.brief else [],
        [*run_notes(runs), *empty, *lacking],
        pictures,
        [table.text for table in tables],
        [table.csv for table in tables],
    )


def draw_figure(parts: Mapping[str, Any], runs: Sequence[Run], source: str) -> "Figure":
    """Draw a figure of `[[figures]]`.

    Parameters
    ----------
    parts : mapping
        `kind`, the parts of every kind and those of this one.
    runs : sequence of Run
        All of the sweep; only completed ones are drawn.
    source : str
        For error texts.

    Raises
    ------
    ValueError
        For an unknown part, or a spec that cannot be followed.
    NothingToDraw
        If no completed run has the data.
    """
    spec = Spec(parts, source)
    draw_kind, own_parts = KINDS[parts["kind"]]
    spec.check_parts(COMMON | own_parts)
    completed = [run for run in spec.matching(runs) if run.is_completed]
    if not completed:
        raise NothingToDraw
    with style.applied():
        return draw_kind(spec, completed)
