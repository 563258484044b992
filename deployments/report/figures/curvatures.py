"""Curvatures of the clients' spaces and of their graphs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.figures.looks import Keys
from curvfed.deployments.report.figures.series import NothingToDraw, groups, keys_of, told_of_data
from curvfed.deployments.report.selection import Run
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
    """Of the clients that tell what is drawn: the curvature of their graphs, and that of their spaces after the first and
    the last round; empty for what is not drawn."""

    clients: tuple[int, ...]
    graph: tuple[float, ...]
    first: tuple[float, ...]
    last: tuple[float, ...]


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
        groups(runs, panels, source)  # where spaces go depends on all of the configuration, graphs on the data alone
    shown = told_of_data(runs, panels, lambda run: _told(run, of, against), source)
    if not shown:
        raise NothingToDraw(f"{source}: no completed run tells curvatures of its clients' {of}s")
    figure, every = style.panels(len(shown))
    for (place, told), axes in zip(shown.items(), every, strict=True):
        x, y, keys = _counted(axes, of, told) if against == "count" else _placed(axes, of, against, told)
        labels.name(axes, x, y, names.place(place))
    labels.legend(figure, keys)
    return figure


def _told(run: Run, of: str, against: str) -> Told | None:
    """What a run directory has; None for nothing."""
    forman, courses = curvatures(RunFiles.read(run.folder))
    of_graph = "graph" in (of, against)
    wanted = [forman] * of_graph + [courses] * (of == "space")
    clients = sorted(set.intersection(*map(set, wanted)))
    ends = [tuple(courses[one][end] for one in clients) if of == "space" else () for end in (0, -1)]
    return Told(tuple(clients), tuple(forman[one] for one in clients) if of_graph else (), *ends) if clients else None


def _placed(axes: Any, of: str, against: str, told: Sequence[tuple[int, Told]]) -> tuple[str, str, Keys]:
    """By client of the first seed, or by the curvature of their graphs of the clients of all seeds."""
    if against == "graph":
        moved = [charts.moved(axes, one.graph, one.first, one.last) for _, one in told]
        axes.margins(0.08)
        return charts.FORMAN, LABELS[of], moved[0]
    seed, one = told[0]
    at = range(len(one.clients))
    if of == "graph":
        charts.bar(axes, at, one.graph, 0.7, style.Look.of(0))
        axes.axhline(0, color="black", linewidth=0.8)
    keys = charts.moved(axes, at, one.first, one.last) if of == "space" else []
    axes.grid(False, axis="x")
    axes.set_xlim(-0.6, len(at) - 0.4)
    labels.categories(axes, list(map(str, one.clients)))
    return f"client (seed {seed})", LABELS[of], keys


def _counted(axes: Any, of: str, told: Sequence[tuple[int, Told]]) -> tuple[str, str, Keys]:
    """A histogram over the clients of all seeds."""
    first, last, graph = (
        np.concatenate([getattr(one, part) for _, one in told]) for part in ("first", "last", "graph")
    )
    counted = last if of == "space" else graph
    edges, keys = np.histogram_bin_edges(np.concatenate([first, counted]), "auto"), []
    if of == "space":
        before = axes.hist(first, edges, histtype="step", color=style.SOFT, linewidth=1.8, linestyle="--")[2]
        keys = [(before[0], "after the first round")]
    after = axes.hist(counted, edges, color=style.Look.of(0).tint, edgecolor=style.PALETTE[0])[2]
    axes.yaxis.get_major_locator().set_params(integer=True)
    who = "clients" if len(told) == 1 else f"clients of {len(told)} seeds"
    return LABELS[of], who, [*keys, (after[0], "after the last round")] if of == "space" else []
