"""The runs of a sweep, the keys that tell them apart, and their figures as a data frame."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from curvfed.extensions.sweeps.commands.pages import METRICS, SCORES
from curvfed.extensions.sweeps.commands.pages.study import Place, Planned, data_keys
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.strategies.base.figures import BEST, PERSONAL_ACCURACY, VALIDATION, find
from curvfed.strategies.wire.messages import TRAIN

FIGURE = "figure"
"""The column of a frame that names the figure of a row."""

LAST = (*(f"metrics.{name}" for name in METRICS), PERSONAL_ACCURACY)
"""The personal scores after the last round, of runs without validation data."""

USUAL = (
    (*SCORES["personal"], *LAST),
    SCORES["global"],
    SCORES["reconstruction"],
    (f"{BEST}.metrics.{VALIDATION}",),
)
"""The scores of a table: of each kind the first that a run has."""

COSTS = ("bytes_up", "bytes_down")
"""The costs of a table."""


@dataclass(frozen=True)
class Run:
    """A planned run and its results.

    Attributes
    ----------
    planned : Planned
    row : mapping
        Its row of `results.sqlite`; empty if it was not made.
    folder : Path
        Its run directory, if it was made.
    """

    planned: Planned
    row: Mapping[str, Any]
    folder: Path

    @property
    def is_completed(self) -> bool:
        """Whether it completed."""
        return self.row.get("status") == "completed"

    @property
    def error(self) -> str:
        """Why it failed; empty if it did not, or was not made."""
        if self.row.get("status") == "failed":
            return str(self.row["error"])
        return ""

    @property
    def seed(self) -> int:
        """Its seed."""
        return int(self.value("seed"))

    def value(self, key: str) -> Any:
        """Its value of a key of the run config, or of `num-supernodes`."""
        return self.planned.value(key)

    def place(self, keys: Iterable[str]) -> Place:
        """Its values of these keys."""
        return tuple((key, self.value(key)) for key in keys)

    def figure(self, column: str) -> float | None:
        """One of its figures; None if it has none, or a value that is not finite."""
        value = self.row.get(column) if self.is_completed else None
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
        return None

    @property
    def warnings(self) -> list[str]:
        """The warnings of its summary."""
        if self.is_completed:
            return RunFiles(self.folder).summary.get("warnings", [])
        return []

    def first_of_rounds(self, column: str) -> float | None:
        """The first value of a column of `rounds.csv`; None without one."""
        if not self.is_completed:
            return None
        values = RunFiles(self.folder).by_round(column, TRAIN)[1]
        return float(values[0]) if len(values) else None


def varying_keys(runs: Sequence[Run]) -> list[str]:
    """The keys other than the seed in which runs differ, in the order of the sweep, without those
    that follow from method and data set; the method if there are none."""
    keys = dict.fromkeys(key for run in runs for key in run.planned.settings if key != "seed")
    main = ("dataset", "method")
    places = {run.place(main) for run in runs}
    varying = []
    for key in keys:
        values = {run.value(key) for run in runs}
        follows = len({run.place((*main, key)) for run in runs}) == len(places)
        if len(values) > 1 and (key in main or not follows):
            varying.append(key)
    return varying or ["method"]


def usual_figures(runs: Sequence[Run]) -> list[str]:
    """The scores that completed runs have, then their costs."""
    scores = []
    for names in USUAL:
        firsts = {
            next((name for name in names if run.figure(name) is not None), "") for run in runs
        }
        scores += [name for name in names if name in firsts]
    return [*(scores or [PERSONAL_ACCURACY]), *COSTS]


def fewest_examples(figure: str, runs: Sequence[Run]) -> int | None:
    """The smallest number of test examples of a score in a run; None if a run does not say it."""
    name = find(figure.rpartition(".")[2]).examples
    metrics = f"{BEST}.metrics" if figure.startswith(BEST) else "metrics"
    numbers = [run.figure(f"{metrics}.{name}") for run in runs] if name else [None]
    known = [number for number in numbers if number is not None]
    return int(min(known)) if known and len(known) == len(numbers) else None


def has_other_name(run: Run, figure: str) -> bool:
    """Whether an earlier usual figure is the run's score of the same kind: the metric of its data,
    such as MRR, in place of the accuracy."""
    for names in USUAL:
        if figure in names:
            return any(run.figure(name) is not None for name in names[: names.index(figure)])
    return False


def values_of(
    runs: Sequence[Run], keys: Sequence[str], figures: Sequence[str], is_by_metric: bool = False
) -> pd.DataFrame:
    """Collect the figures of runs.

    Parameters
    ----------
    runs : sequence of Run
    keys, figures : sequence of str
    is_by_metric : bool, optional
        Whether a run has its score by the metric of its data alone, see `has_other_name`.

    Returns
    -------
    DataFrame
        A row for each run and figure, with a column for each of the `keys`, and: `figure`, `seed`;
        `value`, in the printed unit, NaN where the run has none; `not_made` and `lacking`, 1 for a
        run that was not made or completed without the figure; `error`, empty unless the run failed;
        `data`, equal for runs on the same data.
    """
    rows = []
    for run in runs:
        for figure in figures:
            value = run.figure(figure)
            if is_by_metric and has_other_name(run, figure):
                value = None
            row = dict(run.place(keys)) | {FIGURE: figure, "seed": run.seed, "error": run.error}
            row["value"] = None if value is None else find(figure).scale * value
            row["not_made"] = int(not run.row)
            row["lacking"] = int(run.is_completed and value is None)
            row["data"] = repr(run.place(data_keys()))
            rows.append(row)
    # Of objects, so that the keys' values stay as they are.
    columns = (FIGURE, "seed", "value", "not_made", "lacking", "error", "data")
    unique_columns = list(dict.fromkeys([*keys, *columns]))
    frame = pd.DataFrame(rows, columns=unique_columns, dtype=object)
    return frame.astype({"value": float, "not_made": int, "lacking": int})
