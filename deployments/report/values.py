"""The figures of a sweep's runs as a data frame with a row for each run and figure, the papers'
numbers beside them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from curvfed.deployments import papers
from curvfed.deployments.pairs import UsageError
from curvfed.deployments.papers import Printed
from curvfed.deployments.report.selection import Run
from curvfed.deployments.report.words import FIGURE, Place, quantity
from curvfed.deployments.sweep.plan import DEFAULTS, SUPERNODES

COLUMNS = (FIGURE, "seed", "value", "paper", "paper_std", "not_made", "lacking", "error")


def values_of(
    runs: Sequence[Run], keys: Sequence[str], figures: Sequence[str], printed: Sequence[Printed]
) -> pd.DataFrame:
    """Collect the figures of runs.

    Returns
    -------
    DataFrame
        A row for each run and figure, with a column for each of the `keys`, and: `figure`, `seed`;
        `value`, in the printed unit, NaN where the run has none; `paper` and `paper_std`, the
        paper's number; `not_made` and `lacking`, 1 for a run that was not made or completed without
        the figure; `error`, empty unless the run failed.
    """
    rows = []
    for run in runs:
        for figure in figures:
            value = run.figure(figure)
            number = match(printed, run, keys, figure)
            rows.append(
                {
                    **dict(run.place(keys)),
                    FIGURE: figure,
                    "seed": run.seed,
                    "value": None if value is None else quantity(figure).scale * value,
                    "paper": number and number.value,
                    "paper_std": number and number.spread,
                    "not_made": int(not run.row),
                    "lacking": int(run.is_completed and value is None),
                    "error": run.error,
                }
            )
    # Of objects, so that the keys' values stay as they are.
    frame = pd.DataFrame(rows, columns=list(dict.fromkeys([*keys, *COLUMNS])), dtype=object)
    return frame.astype(
        dict.fromkeys(("value", "paper", "paper_std"), float)
        | dict.fromkeys(("not_made", "lacking"), int)
    )


def split(frame: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[Place, pd.DataFrame]]:
    """Split a frame into the parts with equal values of these keys, in the order in which they
    appear."""
    if not keys:
        yield (), frame
        return
    for values, part in frame.groupby(list(keys), sort=False):
        yield tuple(zip(keys, values, strict=True)), part


def told_of_data(
    rows: Sequence[Mapping[str, Any]],
    keys: Sequence[str],
    parts: Sequence[str],
    columns: Sequence[str],
    source: str,
) -> pd.DataFrame:
    """Combine what runs tell of their data, which other settings may leave as they are.

    Parameters
    ----------
    rows : sequence of mapping
    keys : sequence of str
        The keys that tell places apart.
    parts : sequence of str
        The columns that tell apart what is told in a place.
    columns : sequence of str
        What is told; rows that lack any of it are left out.

    Raises
    ------
    UsageError
        If runs of one place tell different things of the same part.
    """
    index = list(dict.fromkeys([*keys, *parts]))
    frame = pd.DataFrame(rows, columns=[*index, *columns]).dropna().drop_duplicates()
    again = frame[frame.duplicated(index)]
    if len(again):
        values = ", ".join(str(again.iloc[0][key]) for key in keys)
        raise UsageError(
            f"{source}: runs of one panel ({values}) have different data: name in panels or where"
            " what they differ in"
        )
    return frame


def printed_numbers(spec: Mapping[str, Any], source: str) -> list[Printed]:
    """Read the paper's table that a spec names by `paper`, "name, Table n"; empty without it.

    Raises
    ------
    UsageError
    """
    name, _, table = (part.strip() for part in str(spec.get("paper", "")).partition(","))
    try:
        return papers.read(name, table) if name else []
    except ValueError as error:
        raise UsageError(f"{source}: {error}") from None


def match(printed: Sequence[Printed], run: Run, keys: Sequence[str], figure: str) -> Printed | None:
    """Find the paper's number for a run in a place that these keys tell apart.

    It must agree with the run in these keys, the method, the data set, and the number of clients if
    it says one. A number without a method is one of the data. Among several candidates, one that
    agrees with the run in all that it says is taken; if several candidates are left, none is.
    """
    name = figure.rpartition(".")[2]
    close = [
        one
        for one in printed
        if one.figure.rpartition(".")[2] == name
        and all(
            _agree(one, run, key)
            for key in {*keys, "method", "dataset"} | ({SUPERNODES} & one.settings.keys())
        )
    ]
    exact = [
        one
        for one in close
        if all(_agree(one, run, key) for key in one.settings if key in DEFAULTS)
    ]
    found = exact or close
    return found[0] if len(found) == 1 else None


def printed_value(one: Printed, key: str) -> Any:
    """The setting of a paper's number: by default that of the app, but None for method, data set
    and clients."""
    return one.settings.get(
        key, None if key in ("method", "dataset", SUPERNODES) else DEFAULTS[key]
    )


def _agree(one: Printed, run: Run, key: str) -> bool:
    if key == "method" and key not in one.settings:
        return True
    return bool(printed_value(one, key) == run.value(key))
