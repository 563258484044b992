"""The results of a comparison: paired differences to the best method, the answer, a table and a
figure."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table as PrintedTable
from scipy.stats import t

from curvfed.deployments.compare.keys import SCORES
from curvfed.deployments.compare.request import Comparison
from curvfed.server_app.report import (
    Cell,
    Page,
    Picture,
    Run,
    Table,
    draw_differences,
    html_page,
    markdown_page,
    number,
    run_notes,
)
from curvfed.strategies.base.figures import BEST, VALIDATION, find
from curvfed.tasks.stored_files import write_atomically

Row = dict[str, Any]
"""What is known of a method: a row of the results."""

LEVEL = 0.95
"""Probability with which the intervals of all methods hold together."""

PRINTED = 200
"""Columns of text of the printed table where its width is not that of a terminal."""

AUC = f"{BEST}.metrics.roc_auc"
"""The personal score of data whose metric it is."""

WORST = f"{BEST}.personal_accuracy_worst_decile"
LEGEND = (
    "Mean ± standard deviation over {seeds} seeds, {when}. Each configuration is the best of"
    " {tried} by validation, on other seeds, {tuning} in number. Differences have intervals of the"
    " paired t-test over the seeds, Bonferroni-corrected for all pairs of methods, so that all hold"
    " together at {level:.0%}. Worst tenth: mean accuracy of the tenth of the clients with the"
    " lowest. Times and bytes are medians."
)
COMMON = (
    " Global: the accuracy of the one model for all on the server's test images after the last"
    " round, if there is one."
)
COSTS = ("seconds", "bytes_up", "bytes_down")
"""What a method costs."""


def result(
    method: str,
    settings: Mapping[str, Any],
    runs: Sequence[Run],
    validation: float | None,
    error: str,
    figure: str,
) -> Row:
    """A row; only a method whose runs all have the figure has a mean.

    Parameters
    ----------
    settings : mapping
        What was chosen, and `method`.
    runs : sequence of Run
        Those with fresh seeds.
    validation : float or None
        The mean validation score that it was chosen by.
    error : str
        Why none was chosen, or empty.
    figure : str
        What is compared; in its place the ROC-AUC of data whose metric that is.
    """
    if figure.startswith(BEST) and any(run.figure(AUC) is not None for run in runs):
        figure = AUC
    lacking = [run.error or f"a run has no {figure}" for run in runs if run.figure(figure) is None]
    row: Row = {
        "method": method,
        "error": error or next(iter(lacking), ""),
        "figure": figure,
        VALIDATION: validation,
    }
    row["configuration"] = {key: value for key, value in settings.items() if key != "method"}
    row |= {"seeds": [run.seed for run in runs], "scores": [run.figure(figure) for run in runs]}
    if not row["error"]:
        row |= {"mean": float(np.mean(row["scores"])), "std": float(np.std(row["scores"], ddof=1))}
        row["worst_decile"] = float(np.mean([run.figure(WORST) or 0.0 for run in runs]))
        # Medians, which a first run with its imports does not move.
        row |= {name: float(np.median([run.figure(name) or 0.0 for run in runs])) for name in COSTS}
        row["bytes"] = row["bytes_up"] + row["bytes_down"]
        common = [run.figure(SCORES["global"]) for run in runs]
        if figure != SCORES["global"] and None not in common:
            row["global_mean"] = float(np.mean(common))  # type: ignore[arg-type]
            row["global_std"] = float(np.std(common, ddof=1))  # type: ignore[arg-type]
    return row


def add_differences(rows: Sequence[Row]) -> None:
    """Give all rows but the first, the best one, `difference` to it with its interval from `low` to
    `high`.

    The intervals are those of the paired t-test, Bonferroni-corrected for the number of all pairs
    of methods: which of them is the first was chosen by the same scores.
    """
    for row in rows[1:]:
        # without the noise of equal results
        apart = (np.array(row["scores"]) - np.array(rows[0]["scores"])).round(12)
        quantile = t.ppf(1 - (1 - LEVEL) / len(rows) / (len(rows) - 1), len(apart) - 1)
        mean = float(apart.mean())
        half = float(quantile * apart.std(ddof=1) / np.sqrt(len(apart)))
        row |= {"difference": mean, "low": mean - half, "high": mean + half}


def answer(rows: Sequence[Row], data: str) -> str:
    """One sentence that says which method is best, or which ones the data cannot tell apart; the
    best row is the first."""
    if len(rows) < 2:
        return (
            f"Nothing can be compared on {data}: {rows[0]['method'] if rows else 'no method'} alone"
            " has scores."
        )
    told = f"{rows[0]['method']} ({100 * rows[0]['mean']:.1f}%)"
    tied = [row for row in rows if row is rows[0] or row["low"] <= 0 <= row["high"]]
    if len(tied) == 1:
        mean, low, high = (-100 * rows[1][key] for key in ("difference", "high", "low"))
        return (
            f"{told} is the best of these {len(rows)} methods on {data}, {mean:.1f} points above"
            f" {rows[1]['method']}, the next ({LEVEL:.0%} interval {low:.1f} to {high:.1f})."
        )
    level = [row["method"] for row in tied[1:]]
    below = [row["method"] for row in rows if row not in tied]
    light, quick = (
        _listed([row["method"] for row in tied if row[cost] == min(one[cost] for one in tied)])
        for cost in ("bytes", "seconds")
    )
    return (
        f"There is no difference that these data can show between {told}, the best by its mean, and"
        f" {_listed(level)} on {data} (cheapest in bytes: {light}; in seconds: {quick})"
        + (f"; {_listed(below)} scored less." if below else ".")
    )


def write_results(
    asked: Comparison, rows: Sequence[Row], runs: Sequence[Run], folder: Path, console: Console
) -> int:
    """Write `comparison.*` into the folder, and print the table and the answer.

    Parameters
    ----------
    rows : sequence of dict
    runs : sequence of Run
        All of the comparison, failed ones too.

    Returns
    -------
    int
        0, or 1 if some method has no score.
    """
    rows = sorted(rows, key=lambda row: -row.get("mean", -np.inf))
    scored = [row for row in rows if not row["error"]]
    add_differences(scored)
    told = answer(scored, asked.data)
    left_out = [f"{row['method']} is not compared: {row['error']}" for row in rows if row["error"]]
    page = Page(
        f"Which method for {asked.data}?",
        [told],
        run_notes(runs),
        [_differences(scored, folder / "comparison")] if len(scored) > 1 else [],
        [_table(asked, rows, scored, left_out)],
    )
    files = {
        "md": markdown_page(page, folder),
        "html": html_page(page),
        "csv": pd.json_normalize(rows).to_csv(index=False, lineterminator="\n"),
        "json": json.dumps({"answer": told, "level": LEVEL, "methods": rows}, indent=1),
    }
    for suffix, text in files.items():
        write_atomically(folder / f"comparison.{suffix}", text.encode())
    _print_table(page.tables[0], console)
    for line in (*page.notes, *left_out, f"report: {folder / 'comparison.html'}", told):
        console.print(escape(line), highlight=False)
    return int(len(scored) < len(rows))


def _table(
    asked: Comparison, rows: Sequence[Row], scored: Sequence[Row], left_out: Sequence[str]
) -> Table:
    """The table of all methods; those with an error have dashes."""
    has_auc = any(row["figure"] == AUC for row in rows)
    metric = find("roc_auc" if has_auc else SCORES[asked.score].removeprefix(f"{BEST}.")).label
    is_personal = asked.score == "personal"
    legend = LEGEND.format(
        seeds=asked.numbers["seeds"],
        tuning=asked.numbers["tuning-seeds"],
        tried=max(map(len, asked.tried.values())),
        when="at the round of best validation" if is_personal else "after the last round",
        level=LEVEL,
    )
    common = ["global (%)"] if any("global_mean" in row for row in scored) else []
    legend += COMMON if common else ""
    scores = [metric, "difference to the best", "worst tenth (%)"]
    return Table(
        "",
        ["method", "configuration"],
        [*scores, *common, *(find(name).label for name in COSTS)],
        [_line(row, row in scored[:1], bool(common)) for row in rows],
        " ".join([legend, *left_out]),
    )


def _print_table(table: Table, console: Console) -> None:
    if not console.is_terminal:
        console.width = PRINTED  # a file or a pipe has room for every column
    printed = PrintedTable(*table.heads, *table.columns)
    for column in printed.columns:
        column.overflow = "fold"
    for (name, words), cells in table.rows:
        printed.add_row(name, words.replace(" ", "\n"), *(cell.text for cell in cells))
    console.print(printed)


def _line(row: Row, is_best: bool, has_common: bool) -> tuple[list[str], list[Cell]]:
    """The names and the cells of a row, for the templates of tables; with the global accuracy if it
    has a column."""
    names = [
        row["method"],
        " ".join(f"{key}={json.dumps(value)}" for key, value in row["configuration"].items()),
    ]
    if row["error"]:
        return names, [
            Cell("failed", hint=row["error"]),
            *[Cell("–")] * (2 + has_common + len(COSTS)),
        ]
    ends = [number(100 * row[key], 1) for key in ("difference", "low", "high") if key in row]
    costs = [find(name).number(find(name).scale * row[name]) for name in COSTS]
    apart = "{} ({} to {})".format(*ends) if ends else ""
    worst = f"{100 * row['worst_decile']:.1f}"
    common = (
        [_spread(row["global_mean"], row["global_std"]) if "global_mean" in row else "–"]
        if has_common
        else []
    )
    return names, [
        Cell(_spread(row["mean"], row["std"]), is_best=is_best),
        *map(Cell, (apart, worst, *common, *costs)),
    ]


def _spread(mean: float, std: float) -> str:
    """In percent."""
    return f"{100 * mean:.1f} ± {100 * std:.1f}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _differences(rows: Sequence[Row], stem: Path) -> Picture:
    """The picture of the differences to the best method, the first row."""
    names = [row["method"] for row in rows[1:]]
    intervals = [[100 * row[key] for key in ("difference", "low", "high")] for row in rows[1:]]
    return draw_differences(rows[0]["method"], names, intervals, stem)
