"""Hulls, points and decisions on the Poincaré disc."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.figures.looks import Keys
from curvfed.deployments.report.figures.series import NothingToDraw, groups, keys_of
from curvfed.deployments.report.selection import Place, Run
from curvfed.deployments.report.words import Names
from curvfed.server_app.directory.hull_file import HullFile
from curvfed.server_app.report import charts, labels, style
from curvfed.server_app.report.disc import Disc, everything, view
from curvfed.server_app.report.geodesics import perpendicular
from curvfed.tasks.points.uniform import two_classes

PARTS = {"panels", "points", "hulls", "geodesics", "truth"}
"""`panels`: keys that tell them apart, hull.epsilon if left out. Of several seeds the first is drawn. What is drawn:
`points`, true by default; `hulls`, true by default; `geodesics`, the classifier's, false by default; `truth`, the
hyperplane that labels the data set uniform, false by default."""

SMOOTH = 0.004
"""What a point of print is in a disc of radius 1, about."""

BOLD = 1.5
"""Lines over those of the page of a run."""

RED = "#c00000"

Array = NDArray[np.float64]


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw a disc for each panel, scaled to radius 1; closer where all lies near its centre."""
    wanted = {part for part in PARTS - {"panels"} if spec.get(part, part in ("points", "hulls"))}
    if not wanted:
        raise UsageError(f"{source}: a figure of kind discs needs one of geodesics, hulls, points, truth to be true")
    names, shown = Names(spec.get("names", {})), _first_files(spec, runs, source)
    columns = style.columns_for(len(shown))
    width = style.WIDTH if columns > 1 else 0.75 * style.WIDTH
    figure, every = style.panels(len(shown), height=width / columns + 0.35, width=width)
    told = [run.value("dataset") for run, _ in shown.values()]
    truths = [_truth(run, source) if "truth" in wanted else np.zeros((0, 2)) for run, _ in shown.values()]
    in_view = [
        np.concatenate([everything(file), truth[:1]]) for (_, file), truth in zip(shown.values(), truths, strict=True)
    ]
    views = {dataset: view(np.concatenate([points for one, points in zip(told, in_view, strict=True) if one == dataset]))
             for dataset in told}  # fmt: skip
    for (place, (_, file)), dataset, truth, axes in zip(shown.items(), told, truths, every, strict=True):
        disc = Disc(file, axes, *views[dataset], SMOOTH, BOLD)  # one view for all panels of a data set
        _draw(disc, wanted, truth)
        title = labels.fitted(names.place(place), width / columns, style.LARGE)
        corners = (
            f"{np.mean([len(hull.corners) for hull in file.hulls]):.1f} vertices a hull" if "hulls" in wanted else ""
        )
        axes.set_title(f"{title}\n{corners}".strip())
    labels.legend(figure, _keys(disc, [file for _, file in shown.values()], wanted))
    return figure


def _draw(disc: Disc, wanted: set[str], truth: Array) -> None:
    if "points" in wanted:
        disc.points(marked=True)
    if "hulls" in wanted:
        disc.hulls()
    if "geodesics" in wanted:
        disc.geodesics()
    if len(truth):
        charts.stroke(disc.axes, [perpendicular(truth[0], truth[1], SMOOTH)], edgecolor="black", linewidth=1.8)
        edge = {"markeredgecolor": "white", "markeredgewidth": 1.0}
        disc.axes.plot(*truth[0], "o", color=RED, markersize=8, zorder=5, **edge)


def _first_files(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> dict[Place, tuple[Run, HullFile]]:
    """Of each panel the run of the first seed that has hulls."""
    found: dict[Place, tuple[Run, HullFile]] = {}
    for place, group in groups(runs, keys_of(spec, "panels", source, ["hull.epsilon"]), source).items():
        for run in sorted(group, key=lambda one: int(one.value("seed"))):
            if place not in found and (file := HullFile.read(run.folder / "hulls.npz")) is not None:
                found[place] = run, file
    if not found:
        raise NothingToDraw(f"{source}: no completed run has hulls.npz")
    return found


def _truth(run: Run, source: str) -> Array:
    """Reference and normal (2, 2) of what labels the data set `uniform`, made again from the run's configuration."""
    if run.value("dataset") not in ("uniform", "auto"):
        raise UsageError(f"{source}: truth is known of the data set uniform alone, not of {run.value('dataset')}")
    curvature = float(run.value("points.curvature"))
    scale = float(np.sqrt(-curvature))
    _, _, plane = two_classes(
        int(run.value("points.num")), run.value("points.sample-radius") / scale, run.value("points.reference"),
        run.value("points.margin"), curvature, int(run.value("seed")),
    )  # fmt: skip
    return np.array([scale * np.array(plane.reference), plane.normal])


def _keys(disc: Disc, files: Sequence[HullFile], wanted: set[str]) -> Keys:
    from matplotlib.lines import Line2D

    def key(words: str, **look: Any) -> tuple[Any, str]:
        return Line2D([], [], **look), words

    keys: Keys = []
    if all(file.class_names == disc.file.class_names for file in files):
        line = "-" if "hulls" in wanted else "none"
        keys = [key(f"class {name}" if name.isdigit() else name, color=disc.colours[number], linestyle=line,
                    marker=style.MARKERS[number % len(style.MARKERS)])
                for number, name in enumerate(disc.file.class_names)]  # fmt: skip
    if "hulls" in wanted:
        keys.append(key("hulls as sent", color=style.SOFT, linewidth=BOLD))
        if any(file.true_hulls for file in files):
            keys.append(key("before quantisation", color=style.SOFT, linewidth=1.0, linestyle=(0, (3, 2))))
    if "geodesics" in wanted:
        keys.append(key("decision", color=style.SOFT, marker="D", markersize=5))
    if "truth" in wanted:
        mark = {"marker": "o", "markerfacecolor": RED, "markeredgecolor": "white", "markersize": 8}
        keys.append(key("true hyperplane and its reference point", color="black", **mark))
    return keys
