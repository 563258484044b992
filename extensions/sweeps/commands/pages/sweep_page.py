"""The page of a sweep: its words, notes on failed runs, its pictures and its table."""

from collections.abc import Sequence
from pathlib import Path

from curvfed.extensions.sweeps.commands.pages.pictures import draw_pictures
from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.extensions.sweeps.commands.pages.study import Plan
from curvfed.extensions.sweeps.commands.pages.sweep_table import (
    SHOWN,
    as_text,
    csv_text,
    make_table,
)
from curvfed.extensions.sweeps.commands.pages.texts import latex, markdown_page
from curvfed.server_app.report.page import Page, html_page
from curvfed.tasks.amounts import amount
from curvfed.tasks.stored_files import write_atomically


def make_page(
    plan: Plan, runs: Sequence[Run], folder: Path, against: str = "", pdf: bool = False
) -> Page:
    """Compute the table, and draw the pictures into a folder, as `pdf` too."""
    table = make_table(runs, against)
    pictures = draw_pictures(runs, folder / plan.path.stem, pdf)
    csv = csv_text(table.cells, table.keys)
    return Page(plan.title, page_words(plan), run_notes(runs), pictures, [as_text(table)], [csv])


def page_words(plan: Plan) -> list[str]:
    """The source, the scale, and the subject of the sweep."""
    source = f"{plan.source}." if plan.source else ""
    scale = f"Scale: {plan.scale}." if plan.scale else ""
    return [word for word in (f"{source} {scale}".strip(), plan.about.strip()) if word]


def run_notes(runs: Sequence[Run]) -> list[str]:
    """Sentences on missing and failed runs."""
    missing = sum(not run.row for run in runs)
    failed = [run for run in runs if run.error]
    runs_words = amount(len(runs), "run")
    notes = []
    if missing:
        verb = "has" if missing == 1 else "have"
        notes.append(f"{missing} of {runs_words} {verb} not been made.")
    if failed:
        errors = [f"{names}: {error}" for error, names in _failures(failed).items()]
        ellipsis = " …" if len(errors) > SHOWN else ""
        notes.append(f"{len(failed)} of {runs_words} failed: {'; '.join(errors[:SHOWN])}{ellipsis}")
    return notes


def write_page(page: Page, folder: Path, stem: str, formats: Sequence[str]) -> list[Path]:
    """Write the page in these formats; the files, figures included."""
    texts = {
        "md": markdown_page(page, folder),
        "html": html_page(page),
        "tex": "\n".join(latex(table) for table in page.tables),
        "csv": "\n".join(page.csv),
    }
    files = [file for picture in page.pictures for file in picture.files]
    for kind in formats:
        if kind in texts:
            path = folder / f"{stem}.{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, texts[kind].encode())
            files.append(path)
    return files


def _failures(failed: Sequence[Run]) -> dict[str, str]:
    """The names of the failed runs by their error, since the seeds of a configuration often share
    it."""
    runs: dict[str, list[str]] = {}
    for run in failed:
        runs.setdefault(_shortened(run.error), []).append(run.planned.name)
    return {
        error: ", ".join(names[:SHOWN])
        + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        for error, names in runs.items()
    }


def _shortened(text: str) -> str:
    first = text.splitlines()[0] if text else ""
    if len(first) <= 200:
        return first
    return first[:199] + "…"
