"""Curvatures of the clients' spaces and of their graphs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.figures import style
from curvfed.deployments.report.figures.series import NothingToDraw, groups, keys_of, told_of_data
from curvfed.deployments.report.figures.words import Names
from curvfed.deployments.report.selection import Run
from curvfed.server_app.pictures import CURVATURE
from curvfed.server_app.run_files import RunFiles

PARTS = {"of", "against", "panels"}
"""`of`: "space", the clients' sectional curvatures, by default, or "graph", the mean Forman–Ricci curvature of each
client's graph. `against`: "client", of one seed, by default; "count", a histogram over the clients of all seeds;
or, of spaces, "graph". `panels`: keys that tell them apart, the data set if left out."""

OF = ("space", "graph")
AGAINST = ("client", "count", "graph")

FORMAN = "mean Forman–Ricci curvature"

FIRST, LAST = "after the first round", "after the last round"


@dataclass(frozen=True)
class Told:
    """Of the clients that tell what is drawn: the curvature of their graphs, and that of their spaces after the first and
    the last round; empty for what is not drawn."""

    clients: tuple[int, ...]
    graph: tuple[float, ...]
    first: tuple[float, ...]
    last: tuple[float, ...]

    @classmethod
    def of(cls, run: Run, of: str, against: str) -> "Told | None":
        """What a run directory has; None for nothing."""
        files = RunFiles.read(run.folder)
        told = {about["partition"]: (about.get("statistics") or {}).get("forman") for about in files.clients}
        forman = {client: float(value) for client, value in told.items() if value is not None}
        courses = {client: course[np.isfinite(course)] for client, course in
                   zip(files.partitions, files.by_client("curvature")[1].T, strict=True)}  # fmt: skip
        courses = {client: course for client, course in courses.items() if len(course)}
        wanted = [forman] * ("graph" in (of, against)) + [courses] * (of == "space")
        clients = tuple(sorted(set.intersection(*map(set, wanted))))
        if not clients:
            return None
        ends = [tuple(float(courses[one][end]) for one in clients) if of == "space" else () for end in (0, -1)]
        return cls(clients, tuple(forman[one] for one in clients) if "graph" in (of, against) else (), *ends)


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw what the spec says, a pair of axes for each panel."""
    of, against = str(spec.get("of", OF[0])), str(spec.get("against", AGAINST[0]))
    if of not in OF or against not in AGAINST or of == against:
        raise UsageError(
            f"{source}: of = {of!r}, against = {against!r} in a figure of kind curvatures; allowed are of = space "
            "or graph, and against = client, count, or for space graph"
        )
    names, panels = Names(spec), keys_of(spec, "panels", source, ["dataset"])
    if of == "space":
        groups(runs, panels, source)  # where spaces go depends on all of the configuration, graphs on the data alone
    shown = told_of_data(runs, panels, lambda run: Told.of(run, of, against), source)
    if not shown:
        raise NothingToDraw(f"{source}: no completed run tells curvatures of its clients' {of}s")
    figure, every = style.panels(len(shown))
    for (place, told), axes in zip(shown.items(), every, strict=True):
        x, y = _DRAW[against](axes, of, told)
        style.name(axes, x, y, names.place(place))
    style.legend(figure, _keys(against) if of == "space" else [])
    return figure


def _label(of: str) -> str:
    return CURVATURE if of == "space" else FORMAN


def _by_client(axes: Any, of: str, told: Sequence[tuple[int, Told]]) -> tuple[str, str]:
    seed, one = told[0]
    at = range(len(one.clients))
    if of == "graph":
        axes.bar(at, one.graph, 0.7, color=style.Look.of(0).tint, edgecolor=style.PALETTE[0])
        axes.axhline(0, color="black", linewidth=0.8)
    else:
        _moved(axes, at, one)
    axes.grid(False, axis="x")
    axes.set_xlim(-0.6, len(at) - 0.4)
    style.categories(axes, list(map(str, one.clients)))
    return f"client (seed {seed})", _label(of)


def _by_graph(axes: Any, of: str, told: Sequence[tuple[int, Told]]) -> tuple[str, str]:
    for _, one in told:
        _moved(axes, one.graph, one)
    axes.margins(0.08)
    return FORMAN, _label(of)


def _moved(axes: Any, at: Sequence[float], one: Told) -> None:
    """From a hollow mark for the first round to a full one for the last."""
    axes.vlines(at, one.first, one.last, color=style.SOFT, linewidth=1.0)
    axes.plot(at, one.first, **_FIRST_MARK)
    axes.plot(at, one.last, **_LAST_MARK)


def _counted(axes: Any, of: str, told: Sequence[tuple[int, Told]]) -> tuple[str, str]:
    found = {
        name: np.concatenate([getattr(one, name) for _, one in told])
        for name in (("first", "last") if of == "space" else ("graph",))
    }
    edges = np.histogram_bin_edges(np.concatenate(list(found.values())), "auto")
    if of == "space":
        axes.hist(found["first"], edges, histtype="step", color=style.SOFT, linewidth=1.8, linestyle="--")
    axes.hist(found.get("last", found.get("graph")), edges, color=style.Look.of(0).tint, edgecolor=style.PALETTE[0])
    axes.yaxis.get_major_locator().set_params(integer=True)
    return _label(of), "clients" if len(told) == 1 else f"clients of {len(told)} seeds"


_FIRST_MARK: dict[str, Any] = {
    "marker": "s", "linestyle": "none", "markerfacecolor": "white", "markeredgecolor": style.SOFT, "markeredgewidth": 1.3,
}  # fmt: skip
_LAST_MARK: dict[str, Any] = {"marker": "o", "linestyle": "none", "color": style.PALETTE[0], "zorder": 3}
_DRAW = {"client": _by_client, "count": _counted, "graph": _by_graph}


def _keys(against: str) -> list[tuple[Any, str]]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if against == "count":
        before: Any = Patch(fill=False, edgecolor=style.SOFT, linewidth=1.8, linestyle="--")
        return [(before, FIRST), (Patch(facecolor=style.Look.of(0).tint, edgecolor=style.PALETTE[0]), LAST)]
    return [(Line2D([], [], **_FIRST_MARK), FIRST), (Line2D([], [], **_LAST_MARK), LAST)]
