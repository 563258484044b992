"""All that a sweep shows: words, tables, figures, how the numbers differ from the paper's, what failed."""

import base64
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report import figures
from curvfed.deployments.report.cells import Cell, Sheet, sheet
from curvfed.deployments.report.render import HERE, csv_text, html_table, latex, markdown, number, place_words
from curvfed.deployments.report.selection import Run
from curvfed.deployments.sweep.plan import Plan
from curvfed.server_app.report import style
from curvfed.server_app.report.templates import render
from curvfed.tasks.atomic_file import write_atomically

FORMATS = ("md", "html", "tex", "csv")

SHOWN = 3
"""Differences from the paper that are told one by one."""


@dataclass(frozen=True)
class Drawn:
    """A figure on disk.

    Attributes
    ----------
    title, words : str
    stem : Path
        Of `.png` and `.svg`.
    """

    title: str
    words: str
    stem: Path

    @property
    def caption(self) -> str:
        """What stands below it."""
        return f"{self.title}. {self.words}".strip()


@dataclass(frozen=True)
class Part:
    """What one sweep has to show.

    Attributes
    ----------
    plan : Plan
    runs : tuple of Run
    sheets : tuple of Sheet
    drawn : tuple of Drawn
    empty : tuple of str
        Titles of figures that no completed run has anything for.
    """

    plan: Plan
    runs: tuple[Run, ...]
    sheets: tuple[Sheet, ...]
    drawn: tuple[Drawn, ...]
    empty: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """Paragraphs on what the sweep is."""
        source = f"{self.plan.source}." if self.plan.source else ""
        scale = f"Scale: {self.plan.scale}." if self.plan.scale else ""
        return [word for word in (f"{source} {scale}".strip(), self.plan.about.strip()) if word]

    @property
    def notes(self) -> list[str]:
        """Sentences on what was not made, what failed, and what differs from the paper."""
        missing, failed = sum(not run.row for run in self.runs), [run for run in self.runs if run.error]
        notes = [f"{missing} of {len(self.runs)} runs have not been made."] if missing else []
        if failed:
            told = "; ".join(f"{run.planned.name}: {_shortened(run.error)}" for run in failed[:SHOWN])
            more = " …" if len(failed) > SHOWN else ""
            notes.append(f"{len(failed)} of {len(self.runs)} runs failed: {told}{more}")
        notes += [f"Nothing to draw yet of: {title}." for title in self.empty]
        absent = dict.fromkeys(figure for one in self.sheets for figure in one.absent)
        notes += [f"No completed run has the figure {figure}." for figure in absent]
        return notes + [note for one in self.sheets if (note := differences(one))]


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
    """Refuse tables and figures that could not be made, whatever the runs come to.

    Raises
    ------
    UsageError
    """
    unmade = [Run(planned, {}, figures.NOWHERE) for planned in plan.runs]
    for spec in plan.tables:
        sheet(spec, unmade, str(plan.path))
    for spec in plan.figures:
        figures.check(spec, unmade, str(plan.path))


def make_part(plan: Plan, runs: Sequence[Run], folder: Path, against: str = "") -> Part:
    """Compute the tables, and draw the figures into a folder.

    Raises
    ------
    UsageError
        If a table or a figure of the file cannot be made as it says.
    """
    sheets = tuple(sheet(spec, runs, str(plan.path), against) for spec in plan.tables)
    drawn, empty = [], []
    for index, spec in enumerate(plan.figures, 1):
        stem = folder / f"{plan.path.stem}-{index}"
        title = str(spec.get("title", stem.name))
        try:
            figure = figures.draw(spec, runs, str(plan.path))
        except figures.NothingToDraw:
            empty.append(title)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        style.save(figure, stem)
        drawn.append(Drawn(title, str(spec.get("words", "")), stem))
    return Part(plan, tuple(runs), sheets, tuple(drawn), tuple(empty))


def differences(one: Sheet) -> str:
    """How many numbers differ from the paper's by more than the spreads of both, and the largest differences."""
    known = [
        (place, cell, cell.mean - cell.printed.value)
        for place, cell in one.cells.items()
        if cell.printed is not None and cell.values
    ]
    far = [found for found in known if abs(found[2]) > _tolerance(found[1])]
    if not known:
        return ""
    if not far:
        return f"None of the {len(known)} numbers differs from the paper's by more than the spreads of both."
    told = []
    for (row, (column, figure)), _, difference in sorted(far, key=lambda found: -abs(found[2]))[:SHOWN]:
        keys = [place_words(one, key, value) for key, value in (*row, *column)]
        sign = "+" if difference > 0 else ""
        told.append(f"{', '.join(keys)}: {sign}{number(difference, one.quantity((column, figure)))}")
    return (
        f"{len(far)} of {len(known)} numbers differ from the paper's by more than the spreads of both; the most: "
        f"{'; '.join(told)}."
    )


def _tolerance(cell: Cell) -> float:
    assert cell.printed is not None
    return (0.0 if math.isnan(cell.spread) else cell.spread) + (cell.printed.spread or 0.0)


def markdown_part(part: Part, folder: Path, level: int = 1) -> str:
    """The part as Markdown, for a file in this folder."""
    places = [one.stem.relative_to(folder).as_posix() for one in part.drawn]
    tables = [markdown(one) for one in part.sheets]
    return render("part.md", HERE, part=part, level=level, places=places, tables=tables).rstrip() + "\n"


def html_part(part: Part) -> str:
    """The part as a page, its pictures in it."""
    files = [one.stem.with_name(f"{one.stem.name}.svg").read_bytes() for one in part.drawn]
    pictures, tables = [base64.b64encode(file).decode() for file in files], [html_table(one) for one in part.sheets]
    return render("part.html", HERE, part=part, title=part.plan.title, pictures=pictures, tables=tables)


def write_part(part: Part, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write the part in each of these formats, and return the files, figures among them."""
    made = [one.stem.with_name(f"{one.stem.name}.{kind}") for one in part.drawn for kind in ("png", "svg")]
    texts: dict[str, Any] = {
        "md": lambda: markdown_part(part, folder),
        "html": lambda: html_part(part),
        "tex": lambda: "\n".join(latex(one) for one in part.sheets),
    }
    for kind in formats:
        if kind in texts:
            made.append(_write(folder / f"{part.plan.path.stem}.{kind}", texts[kind]()))
        else:
            made += list(write_csv(part, folder))
    return made


def write_csv(part: Part, folder: Path) -> Iterator[Path]:
    """A file per table, unrounded."""
    for index, one in enumerate(part.sheets, 1):
        number_of = f"-{index}" if len(part.sheets) > 1 else ""
        yield _write(folder / f"{part.plan.path.stem}{number_of}.csv", csv_text(one))


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    return path


def _shortened(text: str) -> str:
    first = text.splitlines()[0] if text else ""
    return first if len(first) <= 200 else first[:199] + "…"
