"""The table of a sweep: a data frame that has a row for each configuration and figure, with mean
and spread over seeds and paired differences; and its cells as text and as CSV."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from curvfed.extensions.sweeps.commands.pages.selection import (
    FIGURE,
    Run,
    fewest_examples,
    usual_figures,
    values_of,
    varying_keys,
)
from curvfed.extensions.sweeps.commands.pages.study import data_keys, key_words, value_words
from curvfed.extensions.sweeps.commands.paired import LEVEL, paired_difference
from curvfed.server_app.directory import frame_csv
from curvfed.server_app.report.page import Cell, Table
from curvfed.strategies.base.figures import find
from curvfed.strategies.base.score_words import examples_text

SHOWN = 3
"""Errors of runs that are listed one by one."""

FAILED = "failed"

CSV_COLUMNS = (
    "unit",
    "mean",
    "std",
    "seeds",
    "best",
    "difference",
    "low",
    "high",
    "p",
    "pairs",
    "not_made",
    FAILED,
)

LEGEND = {
    "best": "Bold: the best of a column, on the same data.",
    "compared": "In brackets: the difference to {against} over the seeds.",
    "tested": "In brackets: the difference to {against} over the seeds, with its {level:.0%}"
    " interval of the paired t-test, not corrected for the number of differences.",
    "unrun": "Empty: not run.",
    "lacking": "–: run, without such a figure.",
}
"""Sentences that explain a table, each where it has something to explain."""


@dataclass(frozen=True)
class SweepTable:
    """A table of means over seeds.

    Attributes
    ----------
    keys : list of str
        The keys whose values head the rows; figures head the columns.
    cells : DataFrame
        The keys, `figure`, `best`, and the columns of `cells_of`.
    against : str
        The method that the others are compared with; empty for none.
    examples : int or None
        The smallest number of test examples of a score of a run, if it is known.
    """

    keys: list[str]
    cells: pd.DataFrame
    against: str
    examples: int | None = None


def make_table(runs: Sequence[Run], against: str = "") -> SweepTable:
    """Compute the table of a sweep: a row for each configuration, a column for each usual
    figure.

    Parameters
    ----------
    runs : sequence of Run
    against : str, optional
        The method that the others are compared with.
    """
    keys = varying_keys(runs)
    figures = usual_figures(runs)
    values = values_of(runs, keys, figures, is_by_metric=True)
    cells = cells_of(values, [*keys, FIGURE], against)
    cells["best"] = is_best(cells, [])
    completed = [run for run in runs if run.is_completed]
    numbers = [fewest_examples(figure, completed) for figure in figures]
    examples = min((number for number in numbers if number is not None), default=None)
    return SweepTable(keys, cells, against, examples)


def cells_of(values: pd.DataFrame, index: list[str], against: str) -> pd.DataFrame:
    """Compute the cells of a table from the values of runs.

    Returns
    -------
    DataFrame
        A row for each cell, with the columns of `index` and: `mean` and `std` (ddof = 1), NaN
        without values; `count` of values and their `seeds`; `difference`, `low`, `high`, `p` and
        `pairs` of the paired difference to `against`; `not_made`, `lacking` and `failures`, numbers
        of runs; `failed`, the errors; `data`.
    """
    groups = values.groupby(index, sort=False)
    cells = groups.agg(
        mean=("value", "mean"),
        std=("value", "std"),
        count=("value", "count"),
        not_made=("not_made", "sum"),
        lacking=("lacking", "sum"),
        failures=("error", lambda errors: sum(map(bool, errors))),
        failed=("error", lambda errors: "; ".join(filter(None, errors))),
        data=("data", "first"),
    )
    measured = values.dropna(subset="value").groupby(index, sort=False)["seed"]
    cells["seeds"] = measured.agg(lambda seeds: " ".join(map(str, sorted(seeds))))
    cells = cells.join(_differences(values, index, against)).reset_index()
    return cells.astype({"pairs": "Int64"}).fillna({"seeds": ""})


def _differences(values: pd.DataFrame, index: list[str], against: str) -> pd.DataFrame:
    """Differences to the method `against` over the seeds that both have; a key in which only other
    methods vary pairs all their values with it."""
    is_other = values["method"] == against if "method" in index else pd.Series(False, values.index)
    reference = values[is_other]
    common = [
        key
        for key in index
        if key != "method" and (key in (*data_keys(), FIGURE) or reference[key].nunique() > 1)
    ]
    shared = list(dict.fromkeys([*common, "seed"]))
    both = values[~is_other].merge(
        reference[[*shared, "value"]], on=shared, suffixes=("", "_other")
    )
    rows = []
    for place, pairs in both.groupby(index, sort=False):
        difference = paired_difference(pairs["value"], pairs["value_other"])
        rows.append(dict(zip(index, place, strict=True)) | difference._asdict())
    columns = ["low", "high", "p", "pairs"]
    frame = pd.DataFrame(rows, columns=[*index, "mean", *columns]).set_index(index)
    frame = frame[frame["pairs"] > 0]
    return frame.rename(columns={"mean": "difference"})


def is_best(cells: pd.DataFrame, across: Sequence[str]) -> pd.Series:
    """Whether a cell prints the best mean among those of its figure, of the same data and the same
    values of `across`; not if it is the only one."""
    kinds = cells[FIGURE].map(find)
    is_cost = kinds.map(lambda kind: kind.better == "less")
    rounded = [round(mean, kind.digits) for mean, kind in zip(cells["mean"], kinds, strict=True)]
    score = pd.Series(rounded)
    score = score.mask(is_cost, -score)
    rivals = score.groupby([cells[key] for key in (*across, FIGURE, "data")], sort=False)
    return score.eq(rivals.transform("max")) & (rivals.transform("count") > 1)


def csv_text(cells: pd.DataFrame, keys: Sequence[str], columns: Sequence[str] = CSV_COLUMNS) -> str:
    """Write a row per cell, unrounded."""
    units = [find(figure).unit for figure in cells[FIGURE]]
    frame = cells.assign(unit=units, best=cells["best"].astype(int))
    return frame_csv(frame[[*dict.fromkeys([*keys, FIGURE]), *columns]])


def as_text(table: SweepTable) -> Table:
    """Write the cells as text, with mean ± spread, and a legend that explains them."""
    frame = table.cells
    figures = list(dict.fromkeys(frame[FIGURE]))
    is_uneven = differs_in_count(frame)
    rows = []
    for place, group in frame.groupby(table.keys, sort=False):
        cells = group.to_dict("records")
        texts = [as_cell(cell, difference_text(cell), is_uneven) for cell in cells]
        rows.append(([value_words(value) for value in place], texts))
    heads = [key_words(key) for key in table.keys]
    columns = [find(figure).label for figure in figures]
    return Table(
        "", heads, columns, rows, _legend(table), "figures wide", columns[1:], len(heads) > 2
    )


def differs_in_count(frame: pd.DataFrame) -> bool:
    """Whether some cells are means of fewer values than others."""
    return bool(frame["count"][frame["count"] > 0].nunique() > 1)


def _legend(table: SweepTable) -> str:
    frame = table.cells
    empty = frame[(frame["count"] == 0) & (frame["failures"] == 0)]
    scores = frame[[find(figure).better != "less" for figure in frame[FIGURE]]]
    has_intervals = scores["low"].notna().any()
    has_use = {
        "best": frame["best"].any(),
        "compared": (scores["pairs"] > 1).any() and not has_intervals,
        "tested": has_intervals,
        "unrun": (empty["lacking"] == 0).any(),
        "lacking": (empty["lacking"] > 0).any(),
    }
    sentences = [sentence for name, sentence in LEGEND.items() if has_use[name]]
    if table.examples is not None:
        sentences.insert(0, f"A score of a run is of {examples_text(table.examples)} or more.")
    text = " ".join([*seeds_sentence(frame), *sentences])
    return text.format(against=table.against, level=LEVEL)


def seeds_sentence(frame: pd.DataFrame) -> list[str]:
    """The sentence on the number of seeds; none without values."""
    counts = sorted(set(frame["count"]) - {0})
    if not counts:
        return []
    if counts == [1]:
        return ["One seed."]
    if len(counts) > 1:
        span = f"{counts[0]} to {counts[-1]}"
    else:
        span = f"{counts[0]}"
    return [f"Mean ± standard deviation over {span} seeds."]


def difference_text(cell: Mapping[str, Any]) -> str:
    """A paired difference of scores in brackets, with its interval if there is one; empty below
    two pairs."""
    kind = find(cell[FIGURE])
    if pd.isna(cell["pairs"]) or cell["pairs"] < 2 or kind.better == "less":
        return ""
    sign = "+" if cell["difference"] > 0 else ""
    mean = f"{sign}{kind.number(cell['difference'])}"
    if pd.isna(cell["low"]):
        return f" ({mean})"
    low, high = (kind.number(cell[name]) for name in ("low", "high"))
    return f" ({mean}, {low} to {high})"


def as_cell(cell: Mapping[str, Any], mark: str, is_uneven: bool) -> Cell:
    """Write mean ± spread, a mark, and the number of seeds where cells differ in it."""
    text = "–" if cell["lacking"] else ""
    if cell["failures"]:
        text = FAILED
    if cell["count"]:
        text = _with_spread(cell["mean"], cell["std"], find(cell[FIGURE]).digits) + mark
        if cell["not_made"] or cell["failures"] or cell["lacking"] or is_uneven:
            text += f" n = {cell['count']}"
            text += f", {cell['failures']} {FAILED}" if cell["failures"] else ""
    return Cell(text, cell["best"], cell[FAILED])


def _with_spread(mean: float, std: float, decimals: int) -> str:
    spread = "" if math.isnan(std) else f" ± {std:.{decimals}f}"
    return f"{mean:.{decimals}f}{spread}".replace("-", "−")
