"""Curvatures of the clients' spaces and of their graphs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.figures.legends import Keys
from curvfed.deployments.report.figures.panels import NothingToDraw
from curvfed.deployments.report.selection import Run, grouped, keys_of
from curvfed.deployments.report.values import told_of_data
from curvfed.deployments.report.words import Names
from curvfed.server_app.directory.run_files import RunFiles, curvatures
from curvfed.server_app.report import charts, labels, style

PARTS = {"of", "against", "panels"}
"""`of`: "space", the clients' sectional curvatures, by default, or "graph", the mean Forman–Ricci curvature of each
client's graph. `against`: "client", of one seed, by default; "count", a histogram over the clients of all seeds;
or, of spaces, "graph". `panels`: keys that tell them apart, the data set if left out."""

LABELS = {"space": charts.CURVATURE, "graph": charts.FORMAN}
AGAINST = ("client", "count", "graph")


class Told(NamedTuple):
    """The clients that tell their curvatures: those of their graphs, and of their spaces after the first and last round.

    What is not drawn is left empty.
    """

    clients: list[int]
    graph: list[float]
    first: list[float]
    last: list[float]


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
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
    shown = told_of_data(runs, panels, lambda run: _told(run, of, against), source)
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


def _told(run: Run, of: str, against: str) -> Told | None:
    """The curvatures in a run directory; None if there are none."""
    forman, courses = curvatures(RunFiles.read(run.folder))
    if of == "graph":
        return Told(sorted(forman), [forman[client] for client in sorted(forman)], [], []) if forman else None
    clients = sorted(courses.keys() & forman.keys() if against == "graph" else courses)
    graph = [forman[client] for client in clients] if against == "graph" else []
    first, last = ([float(courses[client][end]) for client in clients] for end in (0, -1))
    return Told(clients, graph, first, last) if clients else None


def _name_clients(axes: Any, clients: Sequence[int]) -> None:
    axes.grid(False, axis="x")
    axes.set_xlim(-0.6, len(clients) - 0.4)
    labels.categories(axes, list(map(str, clients)))


def _draw_histogram(axes: Any, of: str, told: Sequence[Told]) -> Keys:
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
