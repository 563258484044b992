"""The figures of a sweep's runs as a data frame with a row for each run and figure."""

from collections.abc import Iterator, Sequence

import pandas as pd

from curvfed.server_app.report.selection import Run
from curvfed.server_app.report.words import FIGURE, Place
from curvfed.strategies.base.figures import find

COLUMNS = (FIGURE, "seed", "value", "not_made", "lacking", "error")


def values_of(runs: Sequence[Run], keys: Sequence[str], figures: Sequence[str]) -> pd.DataFrame:
    """Collect the figures of runs.

    Returns
    -------
    DataFrame
        A row for each run and figure, with a column for each of the `keys`, and: `figure`, `seed`;
        `value`, in the printed unit, NaN where the run has none; `not_made` and `lacking`, 1 for a
        run that was not made or completed without the figure; `error`, empty unless the run failed.
    """
    rows = []
    for run in runs:
        for figure in figures:
            value = run.figure(figure)
            rows.append(
                {
                    **dict(run.place(keys)),
                    FIGURE: figure,
                    "seed": run.seed,
                    "value": None if value is None else find(figure).scale * value,
                    "not_made": int(not run.row),
                    "lacking": int(run.is_completed and value is None),
                    "error": run.error,
                }
            )
    # Of objects, so that the keys' values stay as they are.
    frame = pd.DataFrame(rows, columns=list(dict.fromkeys([*keys, *COLUMNS])), dtype=object)
    return frame.astype({"value": float, "not_made": int, "lacking": int})


def split(frame: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[Place, pd.DataFrame]]:
    """Split a frame into the parts with equal values of these keys, in the order in which they
    appear."""
    if not keys:
        yield (), frame
        return
    for values, part in frame.groupby(list(keys), sort=False):
        yield tuple(zip(keys, values, strict=True)), part
