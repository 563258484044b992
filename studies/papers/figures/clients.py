"""Figures of the clients: what each reaches, how the classes are dealt to them, and their
curvatures."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from curvfed.extensions.reports import shapes
from curvfed.extensions.reports.run_clients import class_counts, class_names, curvatures
from curvfed.extensions.sweeps.commands.pages import legends
from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.server_app.directory.run_files import IN_ROUNDS, RunFiles
from curvfed.server_app.report import charts, style
from curvfed.strategies.base.figures import find
from curvfed.strategies.wire.messages import FINE_TUNE
from studies import marks
from studies.papers.figures.panels import Keys, Panel, bar_mark, draw_groups, draw_panels
from studies.papers.figures.spec import NothingToDraw, Spec, split

CLIENTS = {"bars", "panels", "at"}
"""`bars`, `panels`: keys that tell them apart, the method if there are no `bars`. `at`: "last",
what each client measured last, by default, or "best", in the round of best validation. Scores are
by the data set's own metric. Clients of different seeds have different data: one seed is drawn, the
first that most bars have."""

SCORE = "score"
"""The column of `clients.csv`."""

AT = {"last": "", "best": ", best validation"}

CLASSES = {"panels"}
"""`panels`: keys that tell them apart, the data set and alpha if left out. Of several seeds the
first is drawn."""

MOST_CLASSES = 13
"""Classes that have room for their names."""

CURVATURES = {"of", "against", "panels"}
"""`of`: "space", the clients' sectional curvatures, by default, or "graph", the mean Forman–Ricci
curvature of each client's graph. `against`: "client", of one seed, by default; "count", a histogram
over the clients of all seeds; or, of spaces, "graph". `panels`: keys that tell them apart, the data
set if left out."""

LABELS = {"space": charts.CURVATURE, "graph": shapes.FORMAN}
AGAINST = ("client", "count", "graph")


def draw_clients(spec: Spec, runs: Sequence[Run]) -> Any:
    """Draw a group of bars for each client."""
    panels = spec.keys("panels")
    at = spec.get("at", "last")
    lines = spec.keys("bars", ["method"], panels)
    spec.grouped(runs, [*panels, *lines])
    values = pd.DataFrame([row for run in runs for row in _rows(run, [*panels, *lines], at)])
    if values.empty:
        raise NothingToDraw
    shown = []
    for place, every in split(values, panels):
        seeds = every[[*lines, "seed"]].drop_duplicates()["seed"].value_counts()
        seed = seeds.sort_index().idxmax()
        part = every[every["seed"] == seed].sort_values("client", kind="stable")
        x = f"client (seed {seed})"
        y = part["label"].iloc[0]
        shown.append(Panel(place, x, y, ["client"], dict(split(part, lines))))
    columns = 1 if len(shown) < 4 else 2
    height = 2.6 if len(shown) > 1 else 3.4
    return draw_panels(
        spec, shown, partial(draw_groups, spec), bar_mark, columns=columns, height=height
    )


def _rows(run: Run, keys: Sequence[str], at: str) -> list[dict[str, Any]]:
    """What each client of a run measured last, or last up to the round of best validation."""
    files = RunFiles(run.folder)
    rounds, values = files.by_client(
        SCORE, *((FINE_TUNE,) if at == "last" and files.fine_tuned else IN_ROUNDS)
    )
    if at == "best":
        best = (files.summary.get("best_validation") or {}).get("round")
        values = values[: 0 if best is None else int(np.searchsorted(rounds, best, side="right"))]
    kind = find("personal_accuracy_mean" if files.metric == "accuracy" else files.metric)
    label = replace(kind, words=kind.words + AT[at]).label
    reached = (
        zip(files.partitions, kind.scale * charts.carried_forward(values)[-1], strict=True)
        if len(values)
        else ()
    )
    place = dict(run.place(keys)) | {"seed": run.seed, "label": label}
    return [
        place | {"client": client, "value": float(value)}
        for client, value in reached
        if np.isfinite(value)
    ]


def draw_classes(spec: Spec, runs: Sequence[Run]) -> Any:
    """Draw a cell per client and class, the darker the larger the share of the class that the
    client has."""
    from matplotlib.colors import PowerNorm

    names = spec.names
    keys = spec.keys("panels", ["dataset", "alpha"])
    rows = [row for run in runs for row in _class_rows(run, keys)]
    table = _data_figures(rows, keys, ["seed", "client", "class"], ["examples"], spec.source)
    if table.empty:
        raise NothingToDraw
    shown = list(split(table, keys))
    height = 3.4 if len(shown) < 3 else 2.9
    figure, every = style.panels(len(shown), height=height)
    for (place, part), axes in zip(shown, every, strict=True):
        seed, seed_rows = _first_seed(part)
        table = seed_rows.pivot(index="class", columns="client", values="examples").loc[
            seed_rows["class"].unique()
        ]
        shares = 100 * table.div(table.sum(axis=1).clip(lower=1), axis=0)
        norm = PowerNorm(0.5, 0, 100)
        image = axes.imshow(
            shares.where(shares > 0), norm=norm, cmap="Blues", aspect="auto", interpolation="none"
        )
        axes.grid(False)
        axes.spines[:].set_visible(True)
        legends.categories(axes, list(map(str, table.columns)))
        charts.steps(
            axes.set_yticks, [charts.fitted(text, 1.0) for text in table.index], MOST_CLASSES
        )
        charts.name(axes, f"client (seed {seed})", "class", names.place(place))
    bar = figure.colorbar(image, ax=every, aspect=35, pad=0.02, ticks=[0, 1, 5, 10, 25, 50, 100])
    bar.set_label(charts.fitted("share of the class's examples (%)", height - 1.0, style.LARGE))
    return figure


def _class_rows(run: Run, keys: Sequence[str]) -> list[dict[str, Any]]:
    """How many examples each client of a run has of each class."""
    files = RunFiles(run.folder)
    place = dict(run.place(keys)) | {"seed": run.seed}
    return [
        place | {"client": client, "class": name, "examples": mine.get(name, 0.0)}
        for client, mine in class_counts(files).items()
        for name in class_names(files)
    ]


def draw_curvatures(spec: Spec, runs: Sequence[Run]) -> Any:
    """Draw what the spec says, a pair of axes for each panel."""
    of = str(spec.get("of", "space"))
    against = str(spec.get("against", "client"))
    if of not in LABELS or against not in AGAINST or of == against:
        raise ValueError(
            f"{spec.source}: of = {of!r}, against = {against!r} in a figure of kind curvatures; allowed"
            " are of = space or graph, and against = client, count, or for space graph"
        )
    names = spec.names
    panels = spec.keys("panels", ["dataset"])
    if of == "space":
        # spaces depend on the whole configuration, graphs on the data alone
        spec.grouped(runs, panels)
    columns = ["first", "last"] * (of == "space") + ["graph"] * ("graph" in (of, against))
    rows = [row for run in runs for row in _curvature_rows(run, panels)]
    table = _data_figures(rows, panels, ["seed", "client"], columns, spec.source)
    if table.empty:
        raise NothingToDraw
    shown = list(split(table, panels))
    keys = []
    figure, every = style.panels(len(shown))
    for (place, part), axes in zip(shown, every, strict=True):
        seed, clients = _first_seed(part)
        x = f"client (seed {seed})"
        y = LABELS[of]
        seeds = part["seed"].nunique()
        if against == "count":
            x = LABELS[of]
            y = "clients" if seeds == 1 else f"clients of {seeds} seeds"
            keys = _draw_histogram(axes, part)
        elif against == "graph":
            x = shapes.FORMAN
            for _, of_seed in part.groupby("seed"):
                keys = shapes.moved(axes, of_seed["graph"], of_seed["first"], of_seed["last"])
            axes.margins(0.08)
        else:
            if of == "space":
                keys = shapes.moved(axes, range(len(clients)), clients["first"], clients["last"])
            else:
                marks.bar(axes, range(len(clients)), clients["graph"], 0.7, style.Look.of(0))
                axes.axhline(0, color="black", linewidth=0.8)
            axes.grid(False, axis="x")
            axes.set_xlim(-0.6, len(clients) - 0.4)
            legends.categories(axes, list(map(str, clients["client"])))
        charts.name(axes, x, y, names.place(place))
    legends.legend(figure, keys)
    return figure


def _curvature_rows(run: Run, keys: Sequence[str]) -> list[dict[str, Any]]:
    """The curvatures that each client tells: of its graph, and of its space after the first and the
    last round."""
    graphs, spaces = curvatures(RunFiles(run.folder))
    place = dict(run.place(keys)) | {"seed": run.seed}
    rows = [
        place | {"client": client, "graph": graphs.get(client)}
        for client in sorted({*graphs, *spaces})
    ]
    ends = {client: {"first": course[0], "last": course[-1]} for client, course in spaces.items()}
    return [row | ends.get(row["client"], {}) for row in rows]


def _draw_histogram(axes: Any, values: pd.DataFrame) -> Keys:
    """Draw a histogram over the clients of all seeds."""
    is_space = "last" in values
    filled = {
        "color": style.Look.of(0).tint,
        "edgecolor": style.PALETTE[0],
    }
    counted = values["last" if is_space else "graph"]
    edges = np.histogram_bin_edges(values[["first", "last"]] if is_space else counted, "auto")
    axes.yaxis.get_major_locator().set_params(integer=True)
    if not is_space:
        axes.hist(counted, edges, **filled)
        return []
    before = axes.hist(
        values["first"], edges, histtype="step", color=style.SOFT, linewidth=1.8, linestyle="--"
    )[2]
    after = axes.hist(counted, edges, **filled)[2]
    return [(before[0], "after the first round"), (after[0], "after the last round")]


def _first_seed(rows: pd.DataFrame) -> tuple[int, pd.DataFrame]:
    """The lowest seed, and what is told of it."""
    seed = rows["seed"].min()
    return seed, rows[rows["seed"] == seed]


def _data_figures(
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
    ValueError
        If runs of one place tell different things of the same part.
    """
    index = list(dict.fromkeys([*keys, *parts]))
    frame = pd.DataFrame(rows, columns=[*index, *columns]).dropna().drop_duplicates()
    again = frame[frame.duplicated(index)]
    if len(again):
        values = ", ".join(str(again.iloc[0][key]) for key in keys)
        raise ValueError(
            f"{source}: runs of one panel ({values}) have different data: name in panels or where"
            " what they differ in"
        )
    return frame
