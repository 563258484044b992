"""What each client reaches, as bars."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.cells import Cell
from curvfed.deployments.report.figures import style
from curvfed.deployments.report.figures.bars import draw_groups, patch
from curvfed.deployments.report.figures.series import NothingToDraw, groups, keys_of, legend_keys, looks
from curvfed.deployments.report.figures.words import Line, Names
from curvfed.deployments.report.quantities import quantity
from curvfed.deployments.report.selection import Place, Run
from curvfed.server_app.pictures import known
from curvfed.server_app.run_files import IN_ROUNDS, RunFiles
from curvfed.strategies.wire.messages import FINE_TUNE

PARTS = {"bars", "panels", "at", "column", "base"}
"""`bars`, `panels`: keys that tell them apart, the method if there are no `bars`. `at`: "last", what each client
measured last, by default, or "best", in the round of best validation. `column`: of `clients.csv`, "test" by
default, by the data set's own metric, or "test_before", before local training. `base`: where the axis begins, in
percent, 0 by default. Clients of different seeds have different data: one seed is drawn, the first that most bars
have."""

AT = {"last": "", "best": ", best validation"}
COLUMNS = {"test": "", "test_before": ", before training"}

CLIENT = "client"


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw a group of bars for each client."""
    names, panels = Names(spec), keys_of(spec, "panels", source)
    at, column = (_one_of(spec, part, allowed, source) for part, allowed in (("at", AT), ("column", COLUMNS)))
    apart = [key for key in keys_of(spec, "bars", source, ["method"]) if key not in panels]
    told: dict[Place, dict[Line, list[Run]]] = {}
    for where, group in groups(runs, [*panels, *apart], source).items():
        told.setdefault(where[: len(panels)], {})[where[len(panels) :], ""] = group
    shown = {place: found for place, lines in told.items() if (found := _panel(lines, at, column))}
    if not shown:
        raise NothingToDraw(f"{source}: clients.csv of no completed run has {column}")
    look = looks([line for _, lines, _ in shown.values() for line in lines])
    figure, every = style.panels(len(shown), 1 if len(shown) < 4 else 2, 2.6 if len(shown) > 1 else 3.4)
    for (place, (seed, lines, axis)), axes in zip(shown.items(), every, strict=True):
        clients = sorted({where for cells in lines.values() for where in cells}, key=lambda where: int(where[0][1]))
        draw_groups(axes, lines, clients, look, float(spec.get("base", 0.0)))
        style.categories(axes, [str(where[0][1]) for where in clients])
        style.name(axes, f"client (seed {seed})", axis, names.place(place))
    style.legend(figure, legend_keys(look, names, patch))
    return figure


def _one_of(spec: Mapping[str, Any], part: str, allowed: Mapping[str, str], source: str) -> str:
    found = str(spec.get(part, next(iter(allowed))))
    if found not in allowed:
        raise UsageError(f"{source}: {part} = {found!r} in a figure of kind clients; allowed are {', '.join(allowed)}")
    return found


def _panel(
    lines: Mapping[Line, Sequence[Run]], at: str, column: str
) -> tuple[int, dict[Line, dict[Place, Cell]], str] | None:
    """The seed that most lines have, what their clients reached, and what that is; None where nobody measured it."""
    counts = Counter(int(run.value("seed")) for group in lines.values() for run in group)
    seed = min(counts, key=lambda one: (-counts[one], one))
    found: dict[Line, dict[Place, Cell]] = {}
    axis = ""
    for line, group in lines.items():
        for run in (run for run in group if run.value("seed") == seed):
            files = RunFiles.read(run.folder)
            kind = quantity("personal_accuracy_mean" if files.metric == "accuracy" else files.metric)
            axis = replace(kind, words=kind.words + COLUMNS[column] + AT[at]).label
            cells: dict[Place, Cell] = {((CLIENT, client),): Cell({seed: kind.scale * value})
                     for client, value in _reached(files, at, column).items()}  # fmt: skip
            if cells:
                found[line] = cells
    return (seed, found, axis) if found else None


def _reached(files: RunFiles, at: str, column: str) -> dict[int, float]:
    """What each client measured last; or last up to the round of best validation."""
    rounds, values = files.by_client(column, *((FINE_TUNE,) if at == "last" and files.fine_tuned else IN_ROUNDS))
    if at == "best":
        best = (files.summary.get("best_validation") or {}).get("round")
        values = values[: 0 if best is None else int(np.searchsorted(rounds, best, side="right"))]
    if not len(values):
        return {}
    last = known(values)[-1]
    return {client: float(value) for client, value in zip(files.partitions, last, strict=True) if np.isfinite(value)}
