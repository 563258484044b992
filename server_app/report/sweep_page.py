"""The page of a sweep: its words, tables and figures, and notes on failed runs."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from curvfed.server_app.directory import frame_csv
from curvfed.server_app.report import kinds
from curvfed.server_app.report.page import (
    Cell,
    Page,
    Picture,
    Table,
    html_page,
    markdown_page,
    render,
)
from curvfed.server_app.report.panels import NothingToDraw
from curvfed.server_app.report.selection import Run
from curvfed.server_app.report.study import FIGURE, Plan
from curvfed.server_app.report.sweep_table import LEVEL, SHOWN, SweepTable, make_table
from curvfed.strategies.base.figures import find
from curvfed.tasks.stored_files import write_atomically

FAILED = "failed"

CSV_COLUMNS = [
    "unit",
    "mean",
    "std",
    "seeds",
    "best",
    "difference",
    "p",
    "pairs",
    "not_made",
    FAILED,
]


def check_page(plan: Plan) -> None:
    """Refuse tables and figures that could not be made, whatever the runs will result in.

    Raises
    ------
    ConfigError
    """
    for spec in plan.tables:
        make_table(spec, [Run(planned, {}, kinds.NOWHERE) for planned in plan.runs], str(plan.path))
    for spec in plan.figures:
        kinds.check(spec, plan)


def make_page(
    plan: Plan, runs: Sequence[Run], folder: Path, against: str = "", pdf: bool = False
) -> Page:
    """Compute the tables, and draw the figures into a folder, as `pdf` too.

    Raises
    ------
    ConfigError
        If a table or a figure of the file cannot be made.
    """
    tables = [make_table(spec, runs, str(plan.path), against) for spec in plan.tables]
    pictures = []
    empty = []
    for number, spec in enumerate(plan.figures, 1):
        stem = f"{plan.path.stem}-{number}"
        title = str(spec.get("title", stem))
        try:
            figure = kinds.draw(spec, runs, str(plan.path))
        except NothingToDraw:
            empty.append(f"Nothing to draw yet of: {title}.")
        else:
            caption = f"{title}. {spec.get('words', '')}".strip()
            pictures.append(Picture(figure, title, caption).saved(folder / stem, pdf))
    source = f"{plan.source}." if plan.source else ""
    scale = f"Scale: {plan.scale}." if plan.scale else ""
    words = [word for word in (f"{source} {scale}".strip(), plan.about.strip()) if word]
    absent = dict.fromkeys(figure for table in tables for figure in table.absent)
    lacking = [f"No completed run has the figure {figure}." for figure in absent]
    return Page(
        plan.title,
        words,
        [*run_notes(runs), *empty, *lacking],
        pictures,
        [as_text(table) for table in tables],
        [csv_text(table) for table in tables],
    )


def run_notes(runs: Sequence[Run]) -> list[str]:
    """Sentences on missing and failed runs."""
    missing = sum(not run.row for run in runs)
    failed = [run for run in runs if run.error]
    notes = [f"{missing} of {len(runs)} runs have not been made."] if missing else []
    if failed:
        errors = "; ".join(f"{run.planned.name}: {_shortened(run.error)}" for run in failed[:SHOWN])
        more = " …" if len(failed) > SHOWN else ""
        notes.append(f"{len(failed)} of {len(runs)} runs failed: {errors}{more}")
    return notes


def write_page(page: Page, folder: Path, stem: str, formats: Sequence[str]) -> list[Path]:
    """Write the page in these formats; the files, figures included."""
    texts = {
        "md": markdown_page(page, folder),
        "html": html_page(page),
        "tex": "\n".join(table.latex for table in page.tables),
    }
    files = [file for picture in page.pictures for file in picture.files]
    files += [_write(folder / f"{stem}.{kind}", texts[kind]) for kind in formats if kind in texts]
    return files + (write_csv(page, folder, stem) if "csv" in formats else [])


def write_csv(page: Page, folder: Path, stem: str) -> list[Path]:
    """Write a file for each table, unrounded."""
    if len(page.csv) == 1:
        return [_write(folder / f"{stem}.csv", page.csv[0])]
    return [
        _write(folder / f"{stem}-{number}.csv", text) for number, text in enumerate(page.csv, 1)
    ]


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    return path


def _shortened(text: str) -> str:
    first = text.splitlines()[0] if text else ""
    return first if len(first) <= 200 else first[:199] + "…"


def csv_text(table: SweepTable) -> str:
    """Write a row per cell, unrounded."""
    units = [find(figure).unit for figure in table.cells[FIGURE]]
    cells = table.cells.assign(unit=units, best=table.cells["best"].astype(int))
    keys = list(dict.fromkeys([*table.rows, *table.columns, FIGURE]))
    return frame_csv(cells[[*keys, *CSV_COLUMNS]])


def as_text(table: SweepTable) -> Table:
    """Write the cells as text, with mean ± spread, and a legend that explains what there is."""
    frame = table.cells
    names = table.names
    columns = [*table.columns, FIGURE]
    heads = frame[columns].drop_duplicates().to_dict("records")
    # the legend names the figure, not every head
    is_shared = frame[FIGURE].nunique() == 1 and bool(table.columns)
    is_unequal = frame["count"][frame["count"] > 0].nunique() > 1
    texts = {
        (*(cell[key] for key in table.rows), *(cell[key] for key in columns)): _cell(
            cell, is_unequal
        )
        for cell in frame.to_dict("records")
    }
    rows = [
        (
            [names.value(value) for value in row],
            [texts.get((*row, *head.values()), Cell()) for head in heads],
        )
        for row in frame[table.rows].drop_duplicates().itertuples(index=False, name=None)
    ]
    return Table(
        table.title,
        [names.key(key) for key in table.rows],
        [_head(table, head, is_shared) for head in heads],
        rows,
        _legend(table, is_shared),
    )


def _legend(table: SweepTable, is_shared: bool) -> str:
    frame = table.cells
    empty = frame[(frame["count"] == 0) & (frame["failures"] == 0)]
    label = find(frame[FIGURE][0]).label if is_shared else ""
    counts = sorted(set(frame["count"]) - {0})
    text = render(
        "legend.md",
        table=table,
        level=LEVEL,
        tested=bool((frame["pairs"] > 1).any()),
        marked=bool((frame["p"] < LEVEL).any()),
        label=label,
        counts=counts,
        best=bool(frame["best"].any()),
        unrun=bool((empty["lacking"] == 0).any()),
        lacking=bool((empty["lacking"] > 0).any()),
    )
    return " ".join(text.split())


def _head(table: SweepTable, head: Mapping[str, Any], is_shared: bool) -> str:
    words = [table.names.setting(key, head[key]) for key in table.columns]
    return ", ".join(words if is_shared else [*words, find(head[FIGURE]).label])


def _cell(cell: Mapping[str, Any], is_unequal: bool) -> Cell:
    """Write mean ± spread, the mark of a significant difference, the number of seeds where cells
    differ in it."""
    kind = find(cell[FIGURE])
    text = "–" if cell["lacking"] else ""
    if cell["failures"]:
        text = FAILED
    if cell["count"]:
        text = _with_spread(cell["mean"], cell["std"], kind.digits)
        if cell["p"] < LEVEL:
            text += " ↑" if cell["difference"] > 0 else " ↓"
        if cell["not_made"] or cell["failures"] or cell["lacking"] or is_unequal:
            text += f" n = {cell['count']}"
            text += f", {cell['failures']} {FAILED}" if cell["failures"] else ""
    return Cell(text, cell["best"], cell[FAILED])


def _with_spread(mean: float, std: float, decimals: int) -> str:
    spread = "" if math.isnan(std) else f" ± {std:.{decimals}f}"
    return f"{mean:.{decimals}f}{spread}".replace("-", "−")
