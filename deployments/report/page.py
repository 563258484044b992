"""The page of a sweep: its words, tables and figures, and notes on failed runs."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report import FORMATS, figures
from curvfed.deployments.report.render import HERE, csv_text, html_table, latex, markdown
from curvfed.deployments.report.selection import Run
from curvfed.deployments.report.table import SHOWN, Table, make_table
from curvfed.deployments.sweep.plan import Plan
from curvfed.server_app.report import style
from curvfed.server_app.report.page import link
from curvfed.server_app.report.templates import render
from curvfed.tasks.stored_files import write_atomically


class Drawn(NamedTuple):
    """A figure on disk: its title, its caption, and its PNG and SVG files."""

    title: str
    caption: str
    files: list[Path]


@dataclass(frozen=True)
class SweepPage:
    """The content of the page of one sweep.

    Attributes
    ----------
    plan : Plan
    runs : list of Run
    tables : list of Table
    drawn : list of Drawn
    empty : list of str
        Titles of figures for which no completed run has data.
    """

    plan: Plan
    runs: Sequence[Run]
    tables: list[Table]
    drawn: list[Drawn] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)

    @property
    def words(self) -> list[str]:
        """Paragraphs that introduce the sweep."""
        source = f"{self.plan.source}." if self.plan.source else ""
        scale = f"Scale: {self.plan.scale}." if self.plan.scale else ""
        return [word for word in (f"{source} {scale}".strip(), self.plan.about.strip()) if word]

    @property
    def notes(self) -> list[str]:
        """Sentences on missing and failed runs, and on missing figures."""
        missing = sum(not run.row for run in self.runs)
        failed = [run for run in self.runs if run.error]
        notes = [f"{missing} of {len(self.runs)} runs have not been made."] if missing else []
        if failed:
            told = "; ".join(
                f"{run.planned.name}: {_shortened(run.error)}" for run in failed[:SHOWN]
            )
            more = " …" if len(failed) > SHOWN else ""
            notes.append(f"{len(failed)} of {len(self.runs)} runs failed: {told}{more}")
        notes += [f"Nothing to draw yet of: {title}." for title in self.empty]
        absent = dict.fromkeys(figure for table in self.tables for figure in table.absent)
        return notes + [f"No completed run has the figure {figure}." for figure in absent]


def make_folder(folder: Path) -> None:
    """Make the folder that pages go to.

    Raises
    ------
    UsageError
        If it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}") from None


def check(plan: Plan) -> None:
    """Refuse tables and figures that could not be made, whatever the runs will result in.

    Raises
    ------
    UsageError
    """
    for spec in plan.tables:
        make_table(
            spec, [Run(planned, {}, figures.NOWHERE) for planned in plan.runs], str(plan.path)
        )
    for spec in plan.figures:
        figures.check(spec, plan)


def make_page(
    plan: Plan, runs: Sequence[Run], folder: Path, against: str = "", pdf: bool = False
) -> SweepPage:
    """Compute the tables, and draw the figures into a folder, as `pdf` too.

    Raises
    ------
    UsageError
        If a table or a figure of the file cannot be made.
    """
    page = SweepPage(
        plan, runs, [make_table(spec, runs, str(plan.path), against) for spec in plan.tables]
    )
    for number, spec in enumerate(plan.figures, 1):
        stem = f"{plan.path.stem}-{number}"
        title = str(spec.get("title", stem))
        try:
            figure = figures.draw(spec, runs, str(plan.path))
        except figures.NothingToDraw:
            page.empty.append(title)
        else:
            caption = f"{title}. {spec.get('words', '')}".strip()
            page.drawn.append(Drawn(title, caption, style.save(figure, folder / stem, pdf)))
    return page


def markdown_page(page: SweepPage, folder: Path, level: int = 1, more: Sequence[str] = ()) -> str:
    """Write the page as Markdown for a file in this folder; `more` tables are Markdown already."""
    places = [drawn.files[0].relative_to(folder).as_posix() for drawn in page.drawn]
    tables = [*map(markdown, page.tables), *more]
    return (
        render("page.md", HERE, page=page, level=level, places=places, tables=tables).rstrip()
        + "\n"
    )


def html_page(page: SweepPage, more: Sequence[Markup] = ()) -> str:
    """Write the page as HTML that contains its pictures; `more` tables are HTML already."""
    pictures = [base64.b64encode(drawn.files[1].read_bytes()).decode() for drawn in page.drawn]
    tables = [*map(html_table, page.tables), *more]
    return render(
        "page.html", HERE, page=page, title=page.plan.title, pictures=pictures, tables=tables
    )


def write_page(page: SweepPage, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write the page in these formats; the files, figures included."""
    texts = {
        "md": markdown_page(page, folder),
        "html": html_page(page),
        "tex": "\n".join(map(latex, page.tables)),
    }
    made = [file for drawn in page.drawn for file in drawn.files]
    made += [
        _write(folder / f"{page.plan.path.stem}.{kind}", texts[kind])
        for kind in formats
        if kind in texts
    ]
    if "html" in formats:
        link_runs(page, folder / f"{page.plan.path.stem}.html")
    return made + (write_csv(page, folder) if "csv" in formats else [])


def link_runs(page: SweepPage, path: Path) -> None:
    """Link the pages of the runs to this page of theirs."""
    for run in page.runs:
        link(run.folder, path, page.plan.title)


def write_csv(page: SweepPage, folder: Path) -> list[Path]:
    """Write a file for each table, unrounded."""
    stem = page.plan.path.stem
    numbered = (
        [f"{stem}-{number}" for number, _ in enumerate(page.tables, 1)]
        if len(page.tables) > 1
        else [stem]
    )
    return [
        _write(folder / f"{name}.csv", csv_text(table))
        for name, table in zip(numbered, page.tables, strict=False)
    ]


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    return path


def _shortened(text: str) -> str:
    first = text.splitlines()[0] if text else ""
    return first if len(first) <= 200 else first[:199] + "…"
