"""The page of a paper's sweep: its words, its tables, notes on failed runs, and its figures, by the
kind that a spec of `[[figures]]` names."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curvfed.deployments.arguments import read_toml
from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.extensions.sweeps.commands.pages.study import Plan
from curvfed.extensions.sweeps.commands.pages.sweep_page import page_words, run_notes, write_page
from curvfed.extensions.sweeps.commands.sweep import plan_of
from curvfed.server_app.report import style
from curvfed.server_app.report.page import Page, Picture
from studies.papers.figures import clients, discs
from studies.papers.figures.curves import CURVES, draw_curves
from studies.papers.figures.panels import LINES, draw_lines
from studies.papers.figures.spec import NothingToDraw, Spec
from studies.papers.figures.table import make_table

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
    tables, figures : tuple of mapping
        As in the file.
    """

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
    for name, at_scale in content.get("scales", {}).items():
        own = {key: at_scale.pop(key) for key in ENTRIES if key in at_scale}
        if name == scale:
            parts |= own
    plan = plan_of(content, path, scale)
    return Study(**vars(plan), tables=tuple(parts["tables"]), figures=tuple(parts["figures"]))


def make_page(study: Study, runs: Sequence[Run], folder: Path) -> Page:
    """Compute the tables, and draw the figures into a folder.

    Raises
    ------
    ValueError
        If a table or a figure of the file cannot be made.
    """
    source = str(study.path)
    tables = [make_table(spec, runs, source) for spec in study.tables]
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
        page_words(study),
        [*run_notes(runs), *empty, *lacking],
        pictures,
        [table.text for table in tables],
        [table.csv for table in tables],
    )


def write_study(page: Page, folder: Path, stem: str) -> None:
    """Write the page as Markdown, and a CSV file for each table."""
    write_page(page, folder, stem, ["md"])
    for number, text in enumerate(page.csv, 1):
        name = f"{stem}-{number}.csv" if len(page.csv) > 1 else f"{stem}.csv"
        (folder / name).write_text(text, encoding="utf-8")


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
