"""The results of a comparison: paired differences to the best method, the answer, a table and a
figure."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table as PrintedTable
from scipy.stats import t

from curvfed.deployments.compare import SCORES
from curvfed.deployments.compare.request import Comparison
from curvfed.deployments.compare.tuning import Choice
from curvfed.server_app.directory import frame_csv
from curvfed.server_app.report import charts, style
from curvfed.server_app.report.page import (
    Cell,
    Page,
    Picture,
    Table,
    html_page,
    markdown_page,
    number,
)
from curvfed.server_app.report.selection import Run
from curvfed.server_app.report.sweep_page import run_notes
from curvfed.strategies.base.figures import BEST, VALIDATION, find
from curvfed.tasks.stored_files import write_atomically

Row = dict[str, Any]
"""A row of the results, for one method."""

LEVEL = 0.95
"""Joint probability of the intervals of all methods."""

PRINTED = 200
"""Width of the printed table, in characters, without a terminal."""

AUC = f"{BEST}.metrics.roc_auc"
"""The personal score of data whose metric is the ROC-AUC."""

WORST = f"{BEST}.personal_accuracy_worst_decile"
LEGEND = (
    "Mean ± standard deviation over {seeds} seeds, {when}. Each configuration is the best of"
    " {tried} by validation on {tuning} other seeds. Differences have intervals of the paired"
    " t-test over the seeds, Bonferroni-corrected for all pairs of methods, with a joint level of"
    " {level:.0%}. Worst tenth: mean accuracy of the tenth of the clients with the lowest. Times"
    " and bytes are medians."
)
GLOBAL_LEGEND = (
    " Global: accuracy of the global model on the server's test images after the last round, if"
    " there is one."
)
DIFFERENCE = ("difference", "low", "high")
CURVATURE = ("curvature", "curvature_low", "curvature_high")
"""Keys of a row's differences to the best and to its flat twin."""

COSTS = ("seconds", "bytes_up", "bytes_down")
"""The costs of a method."""


def result(comparison: Comparison, name: str, choice: Choice, runs: Sequence[Run]) -> Row:
    """The row of an entrant; it has a mean if all runs have the compared figure.

    For data whose metric is the ROC-AUC, that is compared.

    Parameters
    ----------
    comparison : Comparison
    name : str
        The entrant.
    choice : Choice
    runs : sequence of Run
        The runs with fresh seeds.
    """
    figure = SCORES[comparison.score]
    if figure.startswith(BEST) and any(run.figure(AUC) is not None for run in runs):
        figure = AUC
    scores = [run.figure(figure) for run in runs]
    errors = [run.error or f"a run has no {figure}" for run in runs if run.figure(figure) is None]
    entrant = comparison.entrants[name]
    configuration = {**entrant.settings, **choice.configuration}
    if configuration["method"] == name:
        del configuration["method"]
    row: Row = {
        "method": name,
        "twin": entrant.twin,
        "error": choice.error or next(iter(errors), ""),
        "figure": figure,
        VALIDATION: choice.validation,
        "configuration": {} if choice.error else configuration,
        "tried": choice.tried,
        "seeds": [run.seed for run in runs],
        "scores": scores,
    }
    if row["error"]:
        return row
    row["mean"] = float(np.mean(scores))  # type: ignore[arg-type]
    row["std"] = float(np.std(scores, ddof=1))  # type: ignore[arg-type]
    row["worst_decile"] = float(np.mean([run.figure(WORST) or 0.0 for run in runs]))
    # Medians: the imports of a first run do not change them.
    for cost in COSTS:
        row[cost] = float(np.median([run.figure(cost) or 0.0 for run in runs]))
    row["bytes"] = row["bytes_up"] + row["bytes_down"]
    global_scores = [run.figure(SCORES["global"]) for run in runs]
    if figure != SCORES["global"] and None not in global_scores:
        row["global_mean"] = float(np.mean(global_scores))  # type: ignore[arg-type]
        row["global_std"] = float(np.std(global_scores, ddof=1))  # type: ignore[arg-type]
    return row


def add_differences(rows: Sequence[Row]) -> None:
    """Add to each row the `difference` to the first and best, with its interval from `low` to
    `high`, and to that of a curved method its `curvature`, the difference to its flat twin, from
    `curvature_low` to `curvature_high`.

    The intervals are those of the paired t-test, Bonferroni-corrected for all pairs of methods,
    since the same scores have chosen the first one.
    """
    by_name = {row["method"]: row for row in rows}
    for row in rows:
        if row is not rows[0]:
            interval = _interval(row, rows[0], len(rows))
            row |= zip(DIFFERENCE, interval, strict=True)
        if row["twin"] in by_name:
            interval = _interval(row, by_name[row["twin"]], len(rows))
            row |= zip(CURVATURE, interval, strict=True)


def _interval(row: Row, other: Row, num_rows: int) -> tuple[float, float, float]:
    """The mean difference of two rows' scores, and its interval, corrected for all pairs."""
    # Rounding removes the noise of equal results.
    differences = (np.array(row["scores"]) - np.array(other["scores"])).round(12)
    quantile = t.ppf(1 - (1 - LEVEL) / num_rows / (num_rows - 1), len(differences) - 1)
    mean = float(differences.mean())
    half = float(quantile * differences.std(ddof=1) / np.sqrt(len(differences)))
    return mean, mean - half, mean + half


def answer(rows: Sequence[Row], data: str) -> str:
    """What curvature adds, and the best method or the methods without a significant difference;
    the first row is the best."""
    if len(rows) < 2:
        name = rows[0]["method"] if rows else "no method"
        return f"Nothing can be compared on {data}: {name} alone has scores."
    return " ".join([*_about_curvature(rows), _about_the_best(rows, data)])


def _about_curvature(rows: Sequence[Row]) -> list[str]:
    """A sentence for each curved method beside its flat twin."""
    sentences = []
    for row in rows:
        if "curvature" not in row:
            continue
        mean, low, high = (row[key] for key in CURVATURE)
        if low <= 0 <= high:
            relation = "cannot be told apart from"
        else:
            relation = "is above" if mean > 0 else "is below"
        sentences.append(
            f"{row['method']} {relation} its flat twin {row['twin']} ({_points(row, CURVATURE)})."
        )
    return sentences


def _about_the_best(rows: Sequence[Row], data: str) -> str:
    first, second = rows[:2]
    best = f"{first['method']} ({100 * first['mean']:.1f}%)"
    tied = [first, *(row for row in rows[1:] if row["low"] <= 0 <= row["high"])]
    if len(tied) == 1:
        mean, low, high = (-100 * second[key] for key in ("difference", "high", "low"))
        return (
            f"{best} is the best of these {len(rows)} methods on {data}, {mean:.1f} points above"
            f" {second['method']}, the next ({LEVEL:.0%} interval {low:.1f} to {high:.1f})."
        )
    tied_names = _listed([row["method"] for row in tied[1:]])
    worse = [row["method"] for row in rows if row not in tied]
    end = f"; {_listed(worse)} scored less." if worse else "."
    return (
        f"There is no difference that these data can show between {best}, the best by its mean, and"
        f" {tied_names} on {data} (cheapest in bytes: {_cheapest(tied, 'bytes')}; in seconds:"
        f" {_cheapest(tied, 'seconds')}){end}"
    )


def _cheapest(rows: Sequence[Row], cost: str) -> str:
    """The methods with the lowest cost."""
    lowest = min(row[cost] for row in rows)
    return _listed([row["method"] for row in rows if row[cost] == lowest])


def write_results(
    comparison: Comparison,
    rows: Sequence[Row],
    runs: Sequence[Run],
    folder: Path,
    console: Console,
) -> int:
    """Write `comparison.*` into the folder, and print the table and the answer.

    Parameters
    ----------
    rows : sequence of dict
    runs : sequence of Run
        All runs of the comparison, failed ones too.

    Returns
    -------
    int
        0, or 1 if a method has no score.
    """
    rows = sorted(rows, key=lambda row: -row.get("mean", -np.inf))
    scored = [row for row in rows if not row["error"]]
    add_differences(scored)
    conclusion = answer(scored, comparison.data)
    failures = [f"{row['method']} is not compared: {row['error']}" for row in rows if row["error"]]
    pictures = [_differences(scored, folder / "comparison")] if len(scored) > 1 else []
    table = _table(comparison, rows, scored, failures)
    title = f"Which method for {comparison.data}?"
    page = Page(title, [conclusion], run_notes(runs), pictures, [table])
    files = {
        "md": markdown_page(page, folder),
        "html": html_page(page),
        "csv": frame_csv(pd.json_normalize(rows)),
        "json": json.dumps({"answer": conclusion, "level": LEVEL, "methods": rows}, indent=1),
    }
    for suffix, text in files.items():
        write_atomically(folder / f"comparison.{suffix}", text.encode())
    _print_table(table, console)
    for line in (*page.notes, *failures, f"report: {folder / 'comparison.html'}", conclusion):
        console.print(escape(line), highlight=False)
    return int(len(scored) < len(rows))


def _table(
    comparison: Comparison, rows: Sequence[Row], scored: Sequence[Row], failures: Sequence[str]
) -> Table:
    """The table of all methods; those with an error have dashes."""
    has_auc = any(row["figure"] == AUC for row in rows)
    metric = "roc_auc" if has_auc else SCORES[comparison.score].removeprefix(f"{BEST}.")
    is_personal = comparison.score == "personal"
    tried = [row["tried"] for row in rows]
    least = min(tried)
    most = max(tried)
    legend = LEGEND.format(
        seeds=comparison.numbers["seeds"],
        tuning=comparison.numbers["tuning-seeds"],
        tried=f"{least}" if least == most else f"{least} to {most}",
        when="at the round of best validation" if is_personal else "after the last round",
        level=LEVEL,
    )
    columns = [find(metric).label, "difference to the best"]
    has_twins = any("curvature" in row for row in scored)
    if has_twins:
        columns.append("difference to its flat twin")
    columns.append("worst tenth (%)")
    has_global = any("global_mean" in row for row in scored)
    if has_global:
        columns.append("global (%)")
        legend += GLOBAL_LEGEND
    columns += [find(name).label for name in COSTS]
    return Table(
        "",
        ["method", "configuration"],
        columns,
        [_line(row, row in scored[:1], has_twins, has_global) for row in rows],
        " ".join([legend, *failures]),
    )


def _print_table(table: Table, console: Console) -> None:
    """Print the figures, and below them the configurations, which are too long for columns."""
    if not console.is_terminal:
        console.width = PRINTED  # a file or a pipe has space for every column
    printed = PrintedTable("method", *table.columns)
    printed.columns[0].no_wrap = True
    for (name, _), cells in table.rows:
        printed.add_row(name, *(cell.text for cell in cells))
    console.print(printed)
    for (name, words), _ in table.rows:
        console.print(escape(f"{name}: {words}"), highlight=False)


def _line(
    row: Row, is_best: bool, has_twins: bool, has_global: bool
) -> tuple[list[str], list[Cell]]:
    """The names and the cells of a row; with the difference to a twin and the global accuracy if
    these have a column."""
    configuration = [f"{key}={json.dumps(value)}" for key, value in row["configuration"].items()]
    names = [row["method"], " ".join(configuration)]
    if row["error"]:
        num_dashes = 2 + has_twins + has_global + len(COSTS)
        return names, [Cell("failed", hint=row["error"]), *[Cell("–")] * num_dashes]
    texts = [_points(row, DIFFERENCE)]
    if has_twins:
        texts.append(_points(row, CURVATURE))
    texts.append(f"{100 * row['worst_decile']:.1f}")
    if has_global:
        is_scored = "global_mean" in row
        texts.append(_spread(row["global_mean"], row["global_std"]) if is_scored else "–")
    texts += [find(name).number(find(name).scale * row[name]) for name in COSTS]
    return names, [Cell(_spread(row["mean"], row["std"]), is_best=is_best), *map(Cell, texts)]


def _spread(mean: float, std: float) -> str:
    """Mean and standard deviation in percent."""
    return f"{100 * mean:.1f} ± {100 * std:.1f}"


def _points(row: Row, keys: Sequence[str]) -> str:
    """A difference with its interval, in percentage points; "" if the row has none."""
    if keys[0] not in row:
        return ""
    return "{} ({} to {})".format(*(number(100 * row[key], 1) for key in keys))


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _differences(rows: Sequence[Row], stem: Path) -> Picture:
    """The picture of the differences to the best method, the first row, in percentage points."""
    best = rows[0]["method"]
    names = [row["method"] for row in rows[1:]]
    intervals = [[100 * row[key] for key in DIFFERENCE] for row in rows[1:]]
    means, low, high = np.array(intervals).T
    bars = {"fmt": "o", "color": style.MEAN, "capsize": 4}
    with style.applied():
        figure, (axes,) = style.panels(1)
        axes.axhline(0, color=style.SOFT, linewidth=1.2, linestyle=":")
        axes.errorbar(range(len(names)), means, [means - low, high - means], **bars)
        charts.categories(axes, names)
        axes.set_xlim(-0.5, len(names) - 0.5)
        charts.name(axes, "", f"difference to {best} (points)")
    title = f"Differences to {best}, with their intervals"
    caption = f"{title}. Where one contains 0, the data show no difference."
    return Picture(figure, title, caption).saved(stem)
