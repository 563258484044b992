"""A table of a paper's sweep, as `[[tables]]` of its file describes it: means and spreads over
seeds, with marks of significant differences."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from curvfed.extensions.sweeps.commands.pages.selection import FIGURE, Run, values_of
from curvfed.extensions.sweeps.commands.pages.study import Planned, data_keys
from curvfed.extensions.sweeps.commands.pages.sweep_table import (
    CSV_COLUMNS,
    as_cell,
    cells_of,
    csv_text,
    differs_in_count,
    is_best,
)
from curvfed.extensions.sweeps.commands.paired import LEVEL
from curvfed.server_app.report.page import Cell, Table
from curvfed.strategies.base.figures import find
from studies.papers.figures.spec import Names, Spec, as_list

PARTS = {"title", "rows", "columns", "figures", "where", "against", "words", "names"}
"""`rows` and `columns`: keys of the run config whose values head them. `figures`: columns of
`results.sqlite`. `where`: keys and values, or lists of them, that runs must have. `against`: method
to test against. `names`: words in place of values. `title`, `words`."""

COLUMNS = [name for name in CSV_COLUMNS if name not in ("low", "high")]
"""Columns of the papers' CSV files."""


Beside = Callable[[Planned, Sequence[str], str], str]
"""From a run, the keys that tell its cell apart and a figure to the paper's number; "" for none."""


def no_number(run: Planned, keys: Sequence[str], figure: str) -> str:
    """No number of a paper."""
    return ""


@dataclass(frozen=True)
class PaperTable:
    """A table of means over seeds.

    Attributes
    ----------
    title, words : str
    rows, columns : list of str
        The keys whose values head the rows and the columns; the figure heads a column too.
    cells : DataFrame
        The keys, `figure`, `best`, `printed`, and the columns of `cells_of`.
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
    def ranks_rows(self) -> bool:
        """Whether the best of a row is marked, and not that of a column."""
        return set(self.rows) <= set(data_keys())

    @property
    def absent(self) -> list[str]:
        """Figures that no completed run has, though some runs have completed."""
        totals = self.cells.groupby(FIGURE, sort=False)[["lacking", "count"]].sum()
        return list(totals.index[(totals["lacking"] > 0) & (totals["count"] == 0)])

    @property
    def csv(self) -> str:
        """A row per cell, unrounded."""
        return csv_text(self.cells, [*self.rows, *self.columns], COLUMNS)

    @property
    def text(self) -> Table:
        """The cells as text, with mean ± spread, and the paper's numbers as hints; the legend names
        the figure and the number of seeds."""
        frame = self.cells
        columns = [*self.columns, FIGURE]
        heads = frame[columns].drop_duplicates().to_dict("records")
        # the legend names the figure, not every head
        is_shared = frame[FIGURE].nunique() == 1 and bool(self.columns)
        is_uneven = differs_in_count(frame)
        texts = {
            (*(cell[key] for key in self.rows), *(cell[key] for key in columns)): as_cell(
                cell, _mark(cell), is_uneven
            )._replace(hint=cell["printed"])
            for cell in frame.to_dict("records")
        }
        rows = [
            (
                [self.names.value(value) for value in row],
                [texts.get((*row, *head.values()), Cell()) for head in heads],
            )
            for row in frame[self.rows].drop_duplicates().itertuples(index=False, name=None)
        ]
        return Table(
            self.title,
            [self.names.key(key) for key in self.rows],
            [self._head(head, is_shared) for head in heads],
            rows,
            self._legend(is_shared),
        )

    def _head(self, head: Mapping[str, Any], is_shared: bool) -> str:
        words = [self.names.setting(key, head[key]) for key in self.columns]
        return ", ".join(words if is_shared else [*words, find(head[FIGURE]).label])

    def _legend(self, is_shared: bool) -> str:
        frame = self.cells
        parts = [f"Cells: {find(frame[FIGURE][0]).label}"] if is_shared else []
        counts = sorted(set(frame["count"]) - {0})
        if counts:
            span = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1]))))
            parts.append("one seed" if span == "1" else f"{span} seeds")
        ending = ", ".join(parts)
        sentences = [self.words.strip(), f"{ending[:1].upper()}{ending[1:]}." if ending else ""]
        return " ".join(" ".join(sentences).split())


def make_table(
    parts: Mapping[str, Any], runs: Sequence[Run], source: str, beside: Beside = no_number
) -> PaperTable:
    """Compute a table of `[[tables]]`.

    Parameters
    ----------
    parts : mapping
        See `PARTS`.
    runs : sequence of Run
    source : str
        For error texts.
    beside : callable
        The paper's number for a cell.

    Raises
    ------
    ValueError
        For a spec that cannot be followed, or if a cell would mix runs that differ in more than
        their seed.
    """
    spec = Spec(parts, source)
    spec.check_parts(PARTS)
    rows = spec.keys("rows")
    columns = spec.keys("columns")
    figures = [str(name) for name in as_list(spec.get("figures", []))]
    if not rows or not figures:
        raise spec.error("a table needs rows and figures")
    chosen = spec.matching(runs)
    against = str(spec.get("against", ""))
    if against and against not in {run.value("method") for run in chosen}:
        raise spec.error(f"against = {against!r}: the table has no run of it")
    keys = [*rows, *columns]
    groups = spec.grouped(chosen, keys)
    values = values_of(chosen, keys, figures)
    table = PaperTable(
        title=str(spec.get("title", "")),
        words=str(spec.get("words", "")),
        rows=rows,
        columns=columns,
        cells=cells_of(values, list(dict.fromkeys([*keys, FIGURE])), against),
        names=spec.names,
        against=against,
    )
    first = {
        tuple(value for _, value in place): group[0].planned for place, group in groups.items()
    }
    table.cells["printed"] = [
        beside(first[tuple(cell[key] for key in keys)], keys, cell[FIGURE])
        for cell in table.cells.to_dict("records")
    ]
    table.cells["best"] = is_best(table.cells, rows if table.ranks_rows else columns)
    return table


def _mark(cell: Mapping[str, Any]) -> str:
    """The mark of a significant difference."""
    if cell["p"] < 1 - LEVEL:
        return " ↑" if cell["difference"] > 0 else " ↓"
    return ""
