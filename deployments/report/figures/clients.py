"""Figures of the clients: what each reaches, how the classes are dealt to them, and their curvatures."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.figures.means import draw_groups
from curvfed.deployments.report.figures.panels import Keys, NothingToDraw, Panel, bar_mark, draw_panels, line_keys
from curvfed.deployments.report.selection import Run, grouped, keys_of
from curvfed.deployments.report.values import split, told_of_data
from curvfed.deployments.report.words import Names, quantity
from curvfed.server_app.directory.run_files import IN_ROUNDS, RunFiles, class_counts, curvatures
from curvfed.server_app.report import charts, labels, style
from curvfed.strategies.wire.messages import FINE_TUNE

CLIENTS = {"bars", "panels", "at", "column", "base"}
"""`bars`, `panels`: keys that tell them apart, the method if there are no `bars`. `at`: "last", what each client measured
last, by default, or "best", in the round of best validation. `column`: of `clients.csv`, "test" by default, by the data
set's own metric, or "test_before", before local training. `base`: where the axis begins, in percent, 0 by default. Clients
of different seeds have different data: one seed is drawn, the first that most bars have."""

AT = {"last": "", "best": ", best validation"}
COLUMNS = {"test": "", "test_before": ", before training"}

CLASSES = {"panels"}
"""`panels`: keys that tell them apart, the data set and alpha if left out. Of several seeds the first is drawn."""

MOST_CLASSES = 13
"""Classes that have room for their names."""

CURVATURES = {"of", "against", "panels"}
"""`of`: "space", the clients' sectional curvatures, by default, or "graph", the mean Forman–Ricci curvature of each
client's graph. `against`: "client", of one seed, by default; "count", a histogram over the clients of all seeds;
or, of spaces, "graph". `panels`: keys that tell them apart, the data set if left out."""

LABELS = {"space": charts.CURVATURE, "graph": charts.FORMAN}
AGAINST = ("client", "count", "graph")


def draw_clients(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw a group of bars for each client."""
    panels = keys_of(spec, "panels", source)
    at, column = _choice(spec, "at", AT, source), _choice(spec, "column", COLUMNS, source)
    lines = line_keys(spec, "bars", panels, source)
    grouped(runs, [*panels, *lines], source)
    values = pd.DataFrame([row for run in runs for row in _rows(run, [*panels, *lines], at, column)])
    if values.empty:
        raise NothingToDraw(f"{source}: clients.csv of no completed run has {column}")
    shown = []
    for place, every in split(values, panels):
        seeds = every[[*lines, "seed"]].drop_duplicates()["seed"].value_counts()
        seed = seeds.sort_index().idxmax()
        part = every[every["seed"] == seed].sort_values("client", kind="stable")
        x, y = f"client (seed {seed})", part["label"].iloc[0]
        shown.append(Panel(place, x, y, ["client"], dict(split(part, lines))))
    columns, height = 1 if len(shown) < 4 else 2, 2.6 if len(shown) > 1 else 3.4
    return draw_panels(spec, shown, partial(draw_groups, spec), bar_mark, columns=columns, height=height)


def _choice(spec: Mapping[str, Any], part: str, allowed: Mapping[str, str], source: str) -> str:
    """Read a part of a spec that is one of a few words, the first of them by default."""
    found = str(spec.get(part, next(iter(allowed))))
    if found not in allowed:
        kind, words = spec["kind"], ", ".join(allowed)
        raise UsageError(f"{source}: {part} = {found!r} in a figure of kind {kind}; allowed are {words}")
    return found


def _rows(run: Run, keys: Sequence[str], at: str, column: str) -> list[dict[str, Any]]:
    """What each client of a run measured last, or last up to the round of best validation."""
    files = RunFiles.read(run.folder)
    rounds, values = files.by_client(column, *((FINE_TUNE,) if at == "last" and files.fine_tuned else IN_ROUNDS))
    if at == "best":
        best = (files.summary.get("best_validation") or {}).get("round")
        values = values[: 0 if best is None else int(np.searchsorted(rounds, best, side="right"))]
    kind = quantity("personal_accuracy_mean" if files.metric == "accuracy" else files.metric)
    label = replace(kind, words=kind.words + COLUMNS[column] + AT[at]).label
    reached = zip(files.partitions, kind.scale * charts.known(values)[-1], strict=True) if len(values) else ()
    told = dict(run.place(keys)) | {"seed": run.seed, "label": label, "paper": np.nan}
    return [told | {"client": client, "value": float(value)} for client, value in reached if np.isfinite(value)]


def draw_classes(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw a cell per client and class, the darker the larger the share of the class that the client has."""
    from matplotlib.colors import PowerNorm

    names = Names(spec.get("names", {}))
    shown = told_of_data(runs, keys_of(spec, "panels", source, ["dataset", "alpha"]), _class_counts, source)
    if not shown:
        raise NothingToDraw(f"{source}: no completed run tells the class counts of its clients")
    height = 3.4 if len(shown) < 3 else 2.9
    figure, every = style.panels(len(shown), height=height)
    for (place, of_seeds), axes in zip(shown.items(), every, strict=True):
        seed, (clients, classes, counts) = of_seeds[0]
        table = np.array(counts).T
        shares = np.ma.masked_equal(100 * table / np.maximum(table.sum(axis=1, keepdims=True), 1), 0)
        image = axes.imshow(shares, norm=PowerNorm(0.5, 0, 100), cmap="Blues", aspect="auto", interpolation="none")
        axes.grid(False)
        axes.spines[:].set_visible(True)
        labels.categories(axes, list(map(str, clients)))
        labels.steps(axes.set_yticks, [labels.fitted(text, 1.0) for text in classes], MOST_CLASSES)
        labels.name(axes, f"client (seed {seed})", "class", names.place(place))
    bar = figure.colorbar(image, ax=every, aspect=35, pad=0.02, ticks=[0, 1, 5, 10, 25, 50, 100])
    bar.set_label(labels.fitted("share of the class's examples (%)", height - 1.0, style.LARGE))
    return figure


def _class_counts(run: Run) -> tuple[list[int], list[str], list[list[float]]] | None:
    """The clients, the classes, and how many examples each client has of each class; None if they do not tell."""
    files = RunFiles.read(run.folder)
    told = class_counts(files)
    counts = [[mine.get(name, 0.0) for name in files.class_names] for mine in told.values()]
    return (list(told), files.class_names, counts) if told else None


class Curvatures(NamedTuple):
    """The clients that tell their curvatures: those of their graphs, and of their spaces after the first and last round.

    What is not drawn is left empty.
    """

    clients: list[int]
    graph: list[float]
    first: list[float]
    last: list[float]


def draw_curvatures(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw what the spec says, a pair of axes for each panel."""
    of, against = str(spec.get("of", "space")), str(spec.get("against", "client"))
    if of not in LABELS or against not in AGAINST or of == against:
        raise UsageError(
            f"{source}: of = {of!r}, against = {against!r} in a figure of kind curvatures; allowed are of = space "
            "or graph, and against = client, count, or for space graph"
        )
    names, panels = Names(spec.get("names", {})), keys_of(spec, "panels", source, ["dataset"])
    if of == "space":
        grouped(runs, panels, source)  # spaces depend on the whole configuration, graphs on the data alone
    shown = told_of_data(runs, panels, lambda run: _curvatures(run, of, against), source)
    if not shown:
        raise NothingToDraw(f"{source}: no completed run tells curvatures of its clients' {of}s")
    figure, every = style.panels(len(shown))
    keys: Keys = []
    for (place, told), axes in zip(shown.items(), every, strict=True):
        seed, one = told[0]
        x, y = f"client (seed {seed})", LABELS[of]
        if against == "count":
            x, y = LABELS[of], "clients" if len(told) == 1 else f"clients of {len(told)} seeds"
            keys = _draw_histogram(axes, of, [of_seed for _, of_seed in told])
        elif against == "graph":
            x = charts.FORMAN
            for _, of_seed in told:
                keys = charts.moved(axes, of_seed.graph, of_seed.first, of_seed.last)
            axes.margins(0.08)
        elif of == "space":
            keys = charts.moved(axes, range(len(one.clients)), one.first, one.last)
            _name_clients(axes, one.clients)
        else:
            charts.bar(axes, range(len(one.clients)), one.graph, 0.7, style.Look.of(0))
            axes.axhline(0, color="black", linewidth=0.8)
            _name_clients(axes, one.clients)
        labels.name(axes, x, y, names.place(place))
    labels.legend(figure, keys)
    return figure


def _curvatures(run: Run, of: str, against: str) -> Curvatures | None:
    """The curvatures in a run directory; None if there are none."""
    forman, courses = curvatures(RunFiles.read(run.folder))
    if of == "graph":
        return Curvatures(sorted(forman), [forman[client] for client in sorted(forman)], [], []) if forman else None
    clients = sorted(courses.keys() & forman.keys() if against == "graph" else courses)
    graph = [forman[client] for client in clients] if against == "graph" else []
    first, last = ([float(courses[client][end]) for client in clients] for end in (0, -1))
    return Curvatures(clients, graph, first, last) if clients else None


def _name_clients(axes: Any, clients: Sequence[int]) -> None:
    axes.grid(False, axis="x")
    axes.set_xlim(-0.6, len(clients) - 0.4)
    labels.categories(axes, list(map(str, clients)))


def _draw_histogram(axes: Any, of: str, told: Sequence[Curvatures]) -> Keys:
    """Draw a histogram over the clients of all seeds."""
    first, last, graph = (np.concatenate([getattr(one, part) for one in told]) for part in ("first", "last", "graph"))
    counted = last if of == "space" else graph
    edges = np.histogram_bin_edges(np.concatenate([first, counted]), "auto")
    keys: Keys = []
    if of == "space":
        before = axes.hist(first, edges, histtype="step", color=style.SOFT, linewidth=1.8, linestyle="--")[2]
        keys = [(before[0], "after the first round")]
    after = axes.hist(counted, edges, color=style.Look.of(0).tint, edgecolor=style.PALETTE[0])[2]
    axes.yaxis.get_major_locator().set_params(integer=True)
    return [*keys, (after[0], "after the last round")] if of == "space" else []
