"""All that a sweep shows: words, tables, figures, how the numbers differ from the paper's, what failed."""

import base64
import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from curvfed.deployments import papers
from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report import figures
from curvfed.deployments.report.cells import Cell, Sheet, sheet
from curvfed.deployments.report.render import csv_text, html_table, latex, markdown, number, place_words
from curvfed.deployments.report.selection import Run
from curvfed.deployments.sweep.plan import Plan
from curvfed.server_app.page import Html, element, join, page
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
    """Compute the tables and draw the figures into a folder; a figure whose data are those that it was drawn of stays.

    Raises
    ------
    UsageError
        If a table or a figure of the file cannot be made as it says.
    """
    sheets = tuple(sheet(spec, runs, str(plan.path), against) for spec in plan.tables)
    drawn, empty = [], []
    for index, spec in enumerate(plan.figures, 1):
        stem = folder / f"{plan.path.stem}-{index}"
        try:
            _draw(spec, runs, str(plan.path), stem)
        except figures.NothingToDraw:
            empty.append(str(spec.get("title", stem.name)))
        else:
            drawn.append(Drawn(str(spec.get("title", stem.name)), str(spec.get("words", "")), stem))
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
        kind = one.quantity((column, figure))
        keys = [place_words(one, key, value) for key, value in (*row, *column)]
        sign = "+" if difference > 0 else ""
        told.append(f"{', '.join(keys)}: {sign}{number(difference, kind)}")
    return (
        f"{len(far)} of {len(known)} numbers differ from the paper's by more than the spreads of both; the most: "
        f"{'; '.join(told)}."
    )


def _tolerance(cell: Cell) -> float:
    assert cell.printed is not None
    return (0.0 if math.isnan(cell.spread) else cell.spread) + (cell.printed.spread or 0.0)


def markdown_part(part: Part, folder: Path, level: int = 1) -> str:
    """The part as Markdown, for a file in this folder."""
    mark = "#" * level
    lines = [f"{mark} {part.plan.title}", ""]
    lines += [f"{word}\n" for word in _words(part)]
    lines += [markdown(one) for one in part.sheets]
    for one in part.drawn:
        lines += [f"![{one.title}]({one.stem.relative_to(folder).as_posix()}.png)", "", f"*{_caption(one)}*", ""]
    lines += [f"* {note}" for note in part.notes]
    return "\n".join(lines).rstrip() + "\n"


def html_part(part: Part) -> Html:
    """The part as a section of a page, its pictures in it."""
    pictures = []
    for one in part.drawn:
        coded = base64.b64encode(one.stem.with_name(f"{one.stem.name}.svg").read_bytes()).decode()
        image = Html(f'<img alt="{join(one.title)}" style="width:100%" src="data:image/svg+xml;base64,{coded}">')
        pictures.append(element("figure", image, element("figcaption", _caption(one))))
    return element(
        "section",
        element("h2", part.plan.title),
        *(element("p", word) for word in _words(part)),
        *(html_table(one) for one in part.sheets),
        *pictures,
        element("ul", *(element("li", note) for note in part.notes)) if part.notes else None,
    )


def write_part(part: Part, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write the part in each of these formats, and return the files, figures among them."""
    stem, made = part.plan.path.stem, [Path(f"{one.stem}.{kind}") for one in part.drawn for kind in ("png", "svg")]
    texts = {
        "md": lambda: markdown_part(part, folder),
        "html": lambda: page(part.plan.title, html_part(part)),
        "tex": lambda: "\n".join(latex(one) for one in part.sheets),
    }
    for kind in formats:
        if kind in texts:
            made.append(_write(folder / f"{stem}.{kind}", texts[kind]()))
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


def _words(part: Part) -> list[str]:
    source = f"{part.plan.source}." if part.plan.source else ""
    scale = f"Scale: {part.plan.scale}." if part.plan.scale else ""
    first = " ".join(word for word in (source, scale) if word)
    return [word for word in (first, part.plan.about.strip()) if word]


def _caption(one: Drawn) -> str:
    return f"{one.title}. {one.words}".strip() if one.words else f"{one.title}."


def _shortened(text: str) -> str:
    first = text.splitlines()[0] if text else ""
    return first if len(first) <= 200 else first[:199] + "…"


def _draw(spec: Any, runs: Sequence[Run], source: str, stem: Path) -> None:
    from curvfed.deployments.report.figures import style

    told = [[run.planned.name, dict(run.row)] for run in runs]
    digest = hashlib.sha256(json.dumps([spec, told, _code()], sort_keys=True, default=str).encode()).hexdigest()
    if any(style.saved_digest(Path(f"{stem}.{kind}")) != digest for kind in ("png", "svg")):
        stem.parent.mkdir(parents=True, exist_ok=True)
        style.save(figures.draw(spec, runs, source), stem, digest)


@cache
def _code() -> str:
    """Of what draws: a picture made by other code, or beside other numbers of a paper, is out of date."""
    import matplotlib

    report, server = (Path(str(files(f"curvfed.{name}"))) for name in ("deployments.report", "server_app"))
    drawn_by = [*report.rglob("*.py"), *papers.FOLDER.glob("*.toml"), *server.glob("*pictures.py")]
    content = b"".join(file.read_bytes() for file in sorted(drawn_by))
    return hashlib.sha256(content + matplotlib.__version__.encode()).hexdigest()
