"""Hulls, points and decisions on the Poincaré disc."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from curvfed.extensions.reports import shapes
from curvfed.extensions.reports.array_files import HullFile
from curvfed.extensions.reports.hull_figures import Disc, everything, perpendicular, view
from curvfed.extensions.sweeps.commands.pages import legends
from curvfed.extensions.sweeps.commands.pages.selection import Run
from curvfed.extensions.sweeps.commands.pages.study import Place
from curvfed.geometry.arrays import Floats
from curvfed.server_app.report import charts, style
from curvfed.tasks.generated import two_classes
from studies.papers.figures.panels import Keys
from studies.papers.figures.spec import NothingToDraw, Spec

PARTS = {"panels", "points", "hulls", "geodesics", "truth"}
"""`panels`: keys that tell them apart, hull.epsilon if left out. Of several seeds the first is
drawn. What is drawn: `points`, true by default; `hulls`, true by default; `geodesics`, the
classifier's, false by default; `truth`, the hyperplane that labels the data set uniform, false by
default."""

SMOOTH = 0.004
"""Size of a point of print in a disc of radius 1, about."""

BOLD = 1.5
"""Width of lines over that on the page of a run."""

RED = "#c00000"


class Shown(NamedTuple):
    """A panel: its place, its data set, the hulls of its first seed, and the true hyperplane (2, 2)
    or an array (0, 2)."""

    place: Place
    dataset: str
    file: HullFile
    truth: Floats


def draw(spec: Spec, runs: Sequence[Run]) -> Any:
    """Draw a disc for each panel, scaled to radius 1; closer where all lies near its centre."""
    wanted = {part for part in PARTS - {"panels"} if spec.get(part, part in ("points", "hulls"))}
    if not wanted:
        raise ValueError(
            f"{spec.source}: a figure of kind discs needs one of geodesics, hulls, points, truth to be"
            " true"
        )
    names = spec.names
    shown = _shown(spec, runs, wanted)
    columns = style.columns_for(len(shown))
    width = style.WIDTH if columns > 1 else 0.75 * style.WIDTH
    figure, every = style.panels(len(shown), height=width / columns + 0.35, width=width)
    for shown_run, axes in zip(shown, every, strict=True):
        # Discs of one data set share a view.
        same_data = [other for other in shown if other.dataset == shown_run.dataset]
        points = [part for other in same_data for part in (everything(other.file), other.truth[:1])]
        centre, half = view(np.concatenate(points))
        disc = Disc(shown_run.file, axes, centre, half, SMOOTH, BOLD)
        title = charts.fitted(names.place(shown_run.place), width / columns, style.LARGE)
        if "points" in wanted:
            disc.points(marked=True)
        if "hulls" in wanted:
            disc.hulls()
            vertices = np.mean([len(hull.corners) for hull in shown_run.file.hulls])
            title += f"\n{vertices:.1f} vertices a hull"
        if "geodesics" in wanted:
            disc.geodesics()
        if len(shown_run.truth):
            shapes.stroke(
                axes,
                [perpendicular(shown_run.truth[0], shown_run.truth[1], SMOOTH)],
                edgecolor="black",
                linewidth=1.8,
            )
            edge = {"markeredgecolor": "white", "markeredgewidth": 1.0}
            axes.plot(*shown_run.truth[0], "o", color=RED, markersize=8, zorder=5, **edge)
        axes.set_title(title.strip())
    legends.legend(figure, _keys(disc, [shown_run.file for shown_run in shown], wanted))
    return figure


def _shown(spec: Spec, runs: Sequence[Run], wanted: set[str]) -> list[Shown]:
    """For each panel the run of the first seed that has hulls."""
    places: dict[Place, Shown] = {}
    for place, group in spec.grouped(runs, spec.keys("panels", ["hull.epsilon"])).items():
        for run in sorted(group, key=lambda run: run.seed):
            if (
                place not in places
                and (file := HullFile.read(run.folder / "hulls.npz")) is not None
                and file.hulls
            ):
                truth = _truth(run, spec.source) if "truth" in wanted else np.zeros((0, 2))
                places[place] = Shown(place, run.value("dataset"), file, truth)
    if not places:
        raise NothingToDraw
    return list(places.values())


def _truth(run: Run, source: str) -> Floats:
    """Reference point and normal (2, 2) of what labels the data set `uniform`, made again from the
    configuration."""
    if run.value("dataset") not in ("uniform", "auto"):
        raise ValueError(
            f"{source}: truth is known of the data set uniform alone, not of {run.value('dataset')}"
        )
    curvature = float(run.value("points.curvature"))
    scale = float(np.sqrt(-curvature))
    _, _, plane = two_classes(
        int(run.value("points.num")),
        run.value("points.sample-radius") / scale,
        run.value("points.reference"),
        run.value("points.margin"),
        curvature,
        int(run.value("seed")),
    )
    return np.array([scale * np.array(plane.reference), plane.normal])


def _keys(disc: Disc, files: Sequence[HullFile], wanted: set[str]) -> Keys:
    keys: Keys = []
    if all(file.class_names == disc.file.class_names for file in files):
        line = "-" if "hulls" in wanted else "none"
        for number, name in enumerate(disc.file.class_names):
            look = {
                "color": disc.colours[number],
                "marker": style.MARKERS[number % len(style.MARKERS)],
            }
            keys.append(
                charts.key(f"class {name}" if name.isdigit() else name, linestyle=line, **look)
            )
    if "hulls" in wanted:
        keys.append(charts.key("hulls as sent", color=style.SOFT, linewidth=BOLD))
    if "hulls" in wanted and any(file.true_hulls for file in files):
        keys.append(
            charts.key(
                "before quantisation", color=style.SOFT, linewidth=1.0, linestyle=(0, (3, 2))
            )
        )
    if "geodesics" in wanted:
        keys.append(charts.key("decision", color=style.SOFT, marker="D", markersize=5))
    if "truth" in wanted:
        point = {"marker": "o", "markerfacecolor": RED, "markeredgecolor": "white", "markersize": 8}
        keys.append(charts.key("true hyperplane and its reference point", color="black", **point))
    return keys
