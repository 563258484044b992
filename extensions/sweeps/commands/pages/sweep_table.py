"""A table of a sweep: a data frame that has a row for each cell, with mean and spread over seeds
and a paired test; and its cells as text and as CSV."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from curvfed.extensions.sweeps.commands.pages.selection import Run, Spec, as_list, values_of
from curvfed.extensions.sweeps.commands.pages.study import FIGURE, SUPERNODES, Names, Place
from curvfed.extensions.sweeps.commands.paired import LEVEL, paired_difference
from curvfed.server_app.directory import frame_csv
from curvfed.server_app.report.page import Cell, Table, render
from curvfed.strategies.base.figures import find

SHOWN = 3
"""Errors of runs that are listed one by one."""

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

DATA_KEYS = (
    "dataset",
    SUPERNODES,
    "partition",
    "alpha",
    "shards",
    "min-client-size",
    "train-size",
    "test-size",
    "test-data",
    "images.train-subset",
    "images.test-subset",
    "images.pooled",
    "points.classes",
    "points.num",
    "points.sample-radius",
    "points.reference",
    "points.margin",
    "points.lacking",
)
"""Keys that set the data and the number of clients: cells that differ in one are not ranked against
each other."""

_PARTS = {
    "title",
    "rows",
    "columns",
    "figures",
    "where",
    "against",
    "lowest",
    "words",
    "names",
}


@dataclass(frozen=True)
class SweepTable:
    """A table of means over seeds.

    Attributes
    ----------
    title, words : str
    rows, columns : list of str
        The keys whose values head the rows and the columns; the figure heads a column too.
    cells : DataFrame
        A row for each cell: the keys; `figure`; `mean` and `std` (ddof = 1), NaN without values;
        `count` of values and their `seeds`; `best`; `difference`, `p` and `pairs` of the paired
        test; `not_made`, `lacking` and `failures`, numbers of runs; `failed`, the errors.
    names : Names
    against : str
        The method that the others are tested against; empty for none.
    """

    title: str
    words: str
    rows: list[str]
    columns: list[str]
    cells: pd.DataFrame
    names: Names
    against: str

    @property
    def is_best_of_row(self) -> bool:
        """Whether rows are ranked, and not columns."""
        return set(self.rows) <= set(DATA_KEYS)

    @property
    def absent(self) -> list[str]:
        """Figures that no completed run has, though some runs have completed."""
        totals = self.cells.groupby(FIGURE, sort=False)[["lacking", "count"]].sum()
        return list(totals.index[(totals["lacking"] > 0) & (totals["count"] == 0)])


def make_table(
    parts: Mapping[str, Any], runs: Sequence[Run], source: str, against: str = ""
) -> SweepTable:
    """Compute a table of `[[tables]]`.

    Parameters
    ----------
    parts : mapping
        `rows` and `columns`: keys of the run config whose values head them. `figures`: columns of
        `results.sqlite`. `where`: keys and values, or lists of them, that runs must have.
        `against`: method to test against. `lowest`: whether the least is the best; by default for
        bytes, seconds and losses. `names`: words in place of values. `title`, `words`.
    runs : sequence of Run
    source : str
        For error texts.
    against : str, optional
        In place of the spec's.

    Raises
    ------
    ConfigError
        For a spec that cannot be followed, or if a cell would mix runs that differ in more than
        their seed.
    """
    spec = Spec(parts, source)
    if unknown := sorted(set(parts) - _PARTS):
        allowed = ", ".join(sorted(_PARTS))
        raise spec.error(
            f"{unknown[0]!r} is not known in [[tables]]; allowed are {allowed}", "unknown-key"
        )
    rows = spec.keys("rows")
    columns = spec.keys("columns")
    figures = [spec.known_figure(str(name), runs) for name in as_list(spec.get("figures", []))]
    if not rows or not figures:
        raise spec.error("a table needs rows and figures", "incomplete-table")
    chosen = spec.matching(runs)
    other = str(spec.get("against", ""))
    methods = list(dict.fromkeys(str(run.value("method")) for run in chosen))
    if other and not against and other not in methods:
        raise spec.error(
            f"against = {other!r} in [[tables]]: the table has no run of it; allowed is one of"
            f" {', '.join(methods)}",
            "table-against",
        )
    against = against or other
    keys = [*rows, *columns]
    groups = spec.grouped(chosen, keys, "cell", "rows, columns or where")
    values = values_of(chosen, keys, figures)
    table = SweepTable(
        title=str(spec.get("title", "")),
        words=str(spec.get("words", "")),
        rows=rows,
        columns=columns,
        cells=_cells(values, list(dict.fromkeys([*keys, FIGURE])), against),
        names=spec.names,
        against=against,
    )
    data = {place: repr(group[0].place(DATA_KEYS)) for place, group in groups.items()}
    across = rows if table.is_best_of_row else columns
    table.cells["best"] = _is_best(table.cells, across, keys, data, spec.get("lowest", None))
    return table


def _cells(values: pd.DataFrame, index: list[str], against: str) -> pd.DataFrame:
    """Mean, spread and test of each cell."""
    groups = values.groupby(index, sort=False)
    cells = groups.agg(
        mean=("value", "mean"),
        std=("value", "std"),
        count=("value", "count"),
        not_made=("not_made", "sum"),
        lacking=("lacking", "sum"),
        failures=("error", lambda errors: sum(map(bool, errors))),
        failed=("error", lambda errors: "; ".join(filter(None, errors))),
    )
    measured = values.dropna(subset="value").groupby(index, sort=False)["seed"]
    cells["seeds"] = measured.agg(lambda seeds: " ".join(map(str, sorted(seeds))))
    cells = cells.join(_paired(values, index, against)).reset_index()
    return cells.astype({"pairs": "Int64"}).fillna({"seeds": ""})


def _paired(values: pd.DataFrame, index: list[str], against: str) -> pd.DataFrame:
    """Difference to the method `against` over the seeds that both have, with its interval and p."""
    is_other = values["method"] == against if "method" in index else pd.Series(False, values.index)
    rest = [key for key in dict.fromkeys([*index, "seed"]) if key != "method"]
    both = values[~is_other].merge(values[is_other], on=rest, suffixes=("", "_other"))
    rows = []
    for place, pairs in both.groupby(index, sort=False):
        difference = paired_difference(pairs["value"], pairs["value_other"])
        rows.append(dict(zip(index, place, strict=True)) | difference._asdict())
    columns = ["low", "high", "p", "pairs"]
    frame = pd.DataFrame(rows, columns=[*index, "mean", *columns]).set_index(index)
    frame = frame[frame["pairs"] > 0]
    return frame.rename(columns={"mean": "difference"})


def _is_best(
    cells: pd.DataFrame,
    across: list[str],
    keys: list[str],
    data: Mapping[Place, str],
    lowest: bool | None,
) -> pd.Series:
    """Whether a cell prints the best mean of its row or column on the same data; not if it is the
    only one."""
    kinds = cells[FIGURE].map(find)
    is_cost = kinds.map(lambda kind: kind.better == "less" if lowest is None else lowest)
    score = pd.Series(
        [round(mean, kind.digits) for mean, kind in zip(cells["mean"], kinds, strict=True)]
    )
    score = score.mask(is_cost, -score)
    of_data = [
        data.get(tuple(zip(keys, place, strict=True)), "")
        for place in cells[keys].itertuples(index=False)
    ]
    rivals = score.groupby(
        [cells[key] for key in [*across, FIGURE]] + [pd.Series(of_data)], sort=False
    )
    return score.eq(rivals.transform("max")) & (rivals.transform("count") > 1)


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
        level=1 - LEVEL,
        tested=bool((frame["pairs"] > 1).any()),
        marked=bool((frame["p"] < 1 - LEVEL).any()),
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
        if cell["p"] < 1 - LEVEL:
            text += " ↑" if cell["difference"] > 0 else " ↓"
        if cell["not_made"] or cell["failures"] or cell["lacking"] or is_unequal:
            text += f" n = {cell['count']}"
            text += f", {cell['failures']} {FAILED}" if cell["failures"] else ""
    return Cell(text, cell["best"], cell[FAILED])


def _with_spread(mean: float, std: float, decimals: int) -> str:
    spread = "" if math.isnan(std) else f" ± {std:.{decimals}f}"
    return f"{mean:.{decimals}f}{spread}".replace("-", "−")
