"""The page of a sweep: its words, its tables, notes on failed runs, and its figures, by the kind
that a spec of [[figures]] names; curves over the rounds are drawn here."""

import contextlib
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from curvfed.extensions.sweeps.commands.pages.panels import (
    BARS,
    LINES,
    NothingToDraw,
    Panel,
    draw_bars,
    draw_lines,
    draw_panels,
    line_mark,
    panels_of,
    seeds_key,
)
from curvfed.extensions.sweeps.commands.pages.selection import Run, Spec
from curvfed.extensions.sweeps.commands.pages.study import FIGURE, Place, Plan
from curvfed.extensions.sweeps.commands.pages.sweep_table import (
    SHOWN,
    as_text,
    csv_text,
    make_table,
)
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import charts, style
from curvfed.server_app.report.page import Page, Picture, html_page, markdown_page
from curvfed.strategies.base.figures import find
from curvfed.strategies.wire.messages import TRAIN
from curvfed.tasks.stored_files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = {"y", "lines", "panels", "smooth", "phase"}
"""`y`: a column of `rounds.csv`, or several; a panel for each, or for each inner list. `lines`,
`panels`: keys that tell them apart, the method if there are no `lines`. `smooth`: the number of
rounds over which a moving average is drawn. `phase`: "train" by default."""

MARKS = 7
"""Marks along a line."""

COMMON = {"kind", "title", "words", "where", "names"}
"""Parts of a spec of any kind: the kind, title, words for below the figure, which runs, and words
in place of values."""

NOWHERE = Path(os.devnull, "run")
"""The folder of a run that was not made."""


def check_page(plan: Plan) -> None:
    """Refuse tables and figures that could not be made, whatever the runs will result in.

    Raises
    ------
    ConfigError
    """
    for spec in plan.tables:
        make_table(spec, [Run(planned, {}, NOWHERE) for planned in plan.runs], str(plan.path))
    for spec in plan.figures:
        check_figure(spec, plan)


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
            figure = draw_figure(spec, runs, str(plan.path))
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


def draw_curves(spec: Spec, runs: Sequence[Run]) -> Any:
    """Draw means over the seeds, and bands of one standard deviation."""
    from matplotlib.patches import Patch

    panels = spec.keys("panels")
    smooth = spec.get("smooth", 1)
    if not isinstance(smooth, int) or smooth < 1:
        raise spec.error(
            f"smooth = {smooth!r} in a figure of kind curves; allowed is a whole number >= 1",
            "figure-smooth",
        )
    lines = spec.keys("lines", ["method"], panels)
    groups = spec.columns("y", spec.column_of_rounds)
    figures = list(dict.fromkeys(itertools.chain(*groups)))
    phase = str(spec.get("phase", TRAIN))
    spec.grouped(runs, [*panels, *lines])
    values = _values(runs, [*panels, *lines], figures, phase)
    shown = []
    for panel in panels_of(spec, values, groups, panels, lines, ["round"]):
        courses = {line: _course(values, smooth) for line, values in panel.lines.items()}
        courses = {line: course for line, course in courses.items() if not course.empty}
        if courses:
            shown.append(panel._replace(lines=courses))
    if not shown:
        text = f"rounds.csv of no completed run has {', '.join(figures)} in phase {phase}"
        raise spec.error(text, "no-figures", NothingToDraw)
    counts = {int(course["seeds"].iloc[0]) for panel in shown for course in panel.lines.values()}
    band = seeds_key(counts, Patch(color=style.SOFT, alpha=0.25, linewidth=0))
    return draw_panels(spec, shown, _draw_course, line_mark, band)


def _values(
    runs: Sequence[Run], keys: Sequence[str], figures: Sequence[str], phase: str
) -> pd.DataFrame:
    """A row for each run, figure and round, with the `keys`, `figure`, `seed`, `round` and
    `value`.
    """
    rows = []
    for run in runs:
        files = RunFiles.read(run.folder)
        for figure in figures:
            settings = dict(run.place(keys)) | {FIGURE: figure, "seed": run.seed}
            rounds, values = files.by_round(figure, phase)
            rows += [
                settings | {"round": number, "value": find(figure).scale * value}
                for number, value in zip(rounds, values, strict=True)
            ]
    return pd.DataFrame(
        rows, columns=list(dict.fromkeys([*keys, FIGURE, "seed", "round", "value"]))
    )


def _course(values: pd.DataFrame, smooth: int) -> pd.DataFrame:
    """Mean and spread over the seeds by round, in the rounds that all seeds have, and the number of
    seeds."""
    by_seed = values.pivot(index="round", columns="seed", values="value").dropna()
    smoothed = by_seed.rolling(min(smooth, max(len(by_seed), 1))).mean().dropna()
    return pd.DataFrame(
        {"mean": smoothed.mean(axis=1), "spread": smoothed.std(axis=1), "seeds": by_seed.shape[1]}
    )


def _draw_course(axes: Any, panel: Panel, look: Mapping[Place, style.Look]) -> None:
    for number, (line, course) in enumerate(panel.lines.items()):
        step = max(len(course) // MARKS, 1)
        marks = {
            "marker": look[line].marker,
            "markevery": (int(number / len(panel.lines) * step), step),
        }
        colour = look[line].colour
        mean = course["mean"]
        spread = course["spread"]
        axes.plot(course.index, mean, color=colour, linestyle=look[line].dashes, **marks)
        axes.fill_between(
            course.index, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0
        )
    charts.over_rounds(axes, "")


KINDS: dict[str, tuple[Callable[[Spec, Sequence[Run]], "Figure"], set[str]]] = {
    "bars": (draw_bars, BARS),
    "curves": (draw_curves, CURVES),
    "lines": (draw_lines, LINES),
}
"""The function that draws a kind, and the parts of a spec that only this kind has. Other packages
may add kinds."""


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
    ConfigError
        For an unknown kind or part, or a spec that cannot be followed; `NothingToDraw` if no
        completed run has the data.
    """
    spec = Spec(parts, source)
    draw_kind = _function(spec)
    completed = [run for run in spec.matching(runs) if run.is_completed]
    if not completed:
        title = spec.get("title", parts["kind"])
        raise spec.error(
            f"no run that the figure {title!r} shows has completed",
            "no-completed-run",
            NothingToDraw,
        )
    with style.applied():
        return draw_kind(spec, completed)


def check_figure(parts: Mapping[str, Any], plan: Plan) -> None:
    """Refuse a spec that could not be followed, whatever the runs of the plan will result in.

    Raises
    ------
    ConfigError
    """
    spec = Spec(parts, str(plan.path))
    draw_kind = _function(spec)
    chosen = spec.matching([Run(planned, {}, NOWHERE) for planned in plan.runs])
    with contextlib.suppress(NothingToDraw):
        draw_kind(spec, [run for run in chosen if not run.planned.refused])


def _function(spec: Spec) -> Callable[[Spec, Sequence[Run]], "Figure"]:
    """The function that draws a spec, once its kind and its parts are known ones."""
    kind = spec.get("kind", None)
    if kind not in KINDS:
        allowed = ", ".join(KINDS)
        raise spec.error(
            f"kind = {kind!r} in [[figures]]; allowed is one of {allowed}", "figure-kind"
        )
    draw_kind, parts = KINDS[kind]
    if unknown := sorted(set(spec.parts) - COMMON - parts):
        allowed = ", ".join(sorted(COMMON | parts))
        raise spec.error(
            f"{unknown[0]!r} is not known in a figure of kind {kind}; allowed are {allowed}",
            "unknown-key",
        )
    base = spec.get("base", 0.0)
    if isinstance(base, bool) or not isinstance(base, int | float):
        raise spec.error(f"base = {base!r} in a figure; allowed is a number", "figure-base")
    return draw_kind
