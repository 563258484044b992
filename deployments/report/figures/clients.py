"""What each client reaches, as bars."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from curvfed.deployments.report.cells import Cell
from curvfed.deployments.report.figures.bars import draw_groups
from curvfed.deployments.report.figures.looks import bar_mark, legend_keys, looks
from curvfed.deployments.report.figures.series import NothingToDraw, groups, keys_of, one_of
from curvfed.deployments.report.quantities import quantity
from curvfed.deployments.report.selection import Place, Run
from curvfed.deployments.report.words import Line, Names
from curvfed.server_app.directory.run_files import IN_ROUNDS, RunFiles
from curvfed.server_app.report import labels, style
from curvfed.server_app.report.charts import known
from curvfed.strategies.wire.messages import FINE_TUNE

PARTS = {"bars", "panels", "at", "column", "base"}
"""`bars`, `panels`: keys that tell them apart, the method if there are no `bars`. `at`: "last", what each client
measured last, by default, or "best", in the round of best validation. `column`: of `clients.csv`, "test" by
default, by the data set's own metric, or "test_before", before local training. `base`: where the axis begins, in
percent, 0 by default. Clients of different seeds have different data: one seed is drawn, the first that most bars
have."""

AT = {"last": "", "best": ", best validation"}
COLUMNS = {"test": "", "test_before": ", before training"}

Told = Mapping[Line, dict[Place, Cell]]


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw a group of bars for each client."""
    names, panels = Names(spec.get("names", {})), keys_of(spec, "panels", source)
    at, column = (one_of(spec, part, allowed, source) for part, allowed in (("at", AT), ("column", COLUMNS)))
    apart = [key for key in keys_of(spec, "bars", source, ["method"]) if key not in panels]
    told: dict[Place, dict[Line, list[Run]]] = {}
    for where, group in groups(runs, [*panels, *apart], source).items():
        told.setdefault(where[: len(panels)], {})[where[len(panels) :], ""] = group
    shown = {place: found for place, lines in told.items() if (found := _panel(lines, at, column))[1]}
    if not shown:
        raise NothingToDraw(f"{source}: clients.csv of no completed run has {column}")
    look = looks(line for _, lines, _ in shown.values() for line in lines)
    figure, every = style.panels(len(shown), 1 if len(shown) < 4 else 2, 2.6 if len(shown) > 1 else 3.4)
    for (place, (seed, lines, axis)), axes in zip(shown.items(), every, strict=True):
        clients = sorted({where for cells in lines.values() for where in cells})
        draw_groups(axes, lines, clients, look, float(spec.get("base", 0.0)))
        labels.categories(axes, [names.values(where) for where in clients])
        labels.name(axes, f"client (seed {seed})", axis, names.place(place))
    labels.legend(figure, legend_keys(look, names, bar_mark))
    return figure


def _panel(lines: Mapping[Line, Sequence[Run]], at: str, column: str) -> tuple[int, Told, str]:
    """The seed that most lines have, what their clients reached, and what that is."""
    counts = Counter(int(run.value("seed")) for group in lines.values() for run in group)
    seed, axis = min(counts, key=lambda one: (-counts[one], one)), ""
    found: dict[Line, dict[Place, Cell]] = {}
    for line, run in [(line, run) for line, group in lines.items() for run in group if run.value("seed") == seed]:
        files = RunFiles.read(run.folder)
        kind = quantity("personal_accuracy_mean" if files.metric == "accuracy" else files.metric)
        axis = replace(kind, words=kind.words + COLUMNS[column] + AT[at]).label
        if reached := _reached(files, at, column):
            found[line] = {(("client", client),): Cell({seed: kind.scale * value}) for client, value in reached.items()}
    return seed, found, axis


def _reached(files: RunFiles, at: str, column: str) -> dict[int, float]:
    """What each client measured last; or last up to the round of best validation."""
    rounds, values = files.by_client(column, *((FINE_TUNE,) if at == "last" and files.fine_tuned else IN_ROUNDS))
    if at == "best":
        best = (files.summary.get("best_validation") or {}).get("round")
        values = values[: 0 if best is None else int(np.searchsorted(rounds, best, side="right"))]
    last = known(values)[-1] if len(values) else np.full(len(files.partitions), np.nan)
    return {client: float(value) for client, value in zip(files.partitions, last, strict=True) if np.isfinite(value)}
