"""Hulls, points and decisions on the Poincaré disc."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.deployments.pairs import UsageError
from curvfed.deployments.report.figures import style
from curvfed.deployments.report.figures.series import NothingToDraw, groups, keys_of
from curvfed.deployments.report.figures.words import Names
from curvfed.deployments.report.selection import Run
from curvfed.server_app.canvas import stroke
from curvfed.server_app.hues import hues
from curvfed.server_app.hull_file import HullFile
from curvfed.server_app.hull_gallery import group_colours, view
from curvfed.server_app.hull_pictures import decision, outline
from curvfed.tasks.points.uniform import two_classes

PARTS = {"panels", "points", "hulls", "geodesics", "truth"}
"""`panels`: keys that tell them apart, hull.epsilon if left out. Of several seeds the first is drawn. What is drawn:
`points`, true by default; `hulls`, true by default; `geodesics`, the classifier's, false by default; `truth`, the
hyperplane that labels the data set uniform, false by default."""

MOST_DOTS = 2000
SMOOTH = 0.004
"""What a point of print is in a disc of radius 1, about."""

RED = "#c00000"

Array = NDArray[np.float64]


def draw(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> Any:
    """Draw a disc for each panel, scaled to radius 1; closer where all lies near its centre."""
    from matplotlib.patches import Circle

    wanted = {part: bool(spec.get(part, part in ("points", "hulls"))) for part in PARTS - {"panels"}}
    if not any(wanted.values()):
        raise UsageError(f"{source}: a figure of kind discs needs one of {', '.join(sorted(wanted))} to be true")
    names, shown = Names(spec), _first_files(spec, runs, source)
    columns = style.columns_for(len(shown))
    width = style.WIDTH if columns > 1 else 0.75 * style.WIDTH
    figure, every = style.panels(len(shown), height=width / columns + 0.35, width=width)
    seen: dict[str, list[Array]] = {}
    for (place, (run, file)), axes in zip(shown.items(), every, strict=True):
        axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=style.SOFT, linewidth=1.0))
        seen.setdefault(run.value("dataset"), []).extend(_contents(axes, run, file, wanted, source))
        title = style.fitted(names.place(place), width / columns, style.LARGE)
        if wanted["hulls"]:
            count = f"{np.mean([len(hull.corners) for hull in file.hulls]):.1f} vertices a hull"
            title = f"{title}\n{count}" if title else count
        axes.set(aspect="equal", xticks=[], yticks=[], title=title)
    for (run, _), axes in zip(shown.values(), every, strict=True):  # one view for all panels of a data set
        (x, y), half = view(np.concatenate([np.zeros((0, 2)), *seen[run.value("dataset")]]))
        axes.set(xlim=(x - half, x + half), ylim=(y - half, y + half))
        axes.spines[:].set_visible(half < 1)
    style.legend(figure, _keys([file for _, file in shown.values()], wanted))
    return figure


def _contents(axes: Any, run: Run, file: HullFile, wanted: Mapping[str, bool], source: str) -> list[Array]:
    """Draw what is wanted; what must be in view."""
    found = [_points(axes, file)] if wanted["points"] else []
    found += _hulls(axes, file) if wanted["hulls"] else []
    if wanted["geodesics"]:
        _geodesics(axes, file)
    return found + ([_truth(axes, run, source)] if wanted["truth"] else [])


def _first_files(spec: Mapping[str, Any], runs: Sequence[Run], source: str) -> dict[Any, tuple[Run, HullFile]]:
    """Of each panel the run of the first seed that has hulls."""
    found = {}
    for place, group in groups(runs, keys_of(spec, "panels", source, ["hull.epsilon"]), source).items():
        for run in sorted(group, key=lambda one: int(one.value("seed"))):
            if (file := HullFile.read(run.folder / "hulls.npz")) is not None:
                found[place] = run, file
                break
    if not found:
        raise NothingToDraw(f"{source}: no completed run has hulls.npz")
    return found


def _looks(file: HullFile) -> tuple[Sequence[str], Sequence[str]]:
    """Colours and markers of classes, and of groups without a name."""
    count = max([len(file.class_names), *(colour + 1 for colour in group_colours(file))])
    colours = [style.Look.of(number).colour for number in range(count)] if count <= len(style.PALETTE) else hues(count)
    return colours, [style.Look.of(number).marker for number in range(count)]


def _scale(file: HullFile) -> float:
    return math.sqrt(-file.curvature)


def _points(axes: Any, file: HullFile) -> Array:
    (colours, markers), points = _looks(file), _scale(file) * file.sample.points[:MOST_DOTS]
    labels = file.sample.labels[:MOST_DOTS]
    for label in np.unique(labels):
        axes.scatter(
            *points[labels == label].T, s=7, marker=markers[label], color=colours[label], alpha=0.45, linewidth=0,
            rasterized=True,
        )  # fmt: skip
    return points


def _hulls(axes: Any, file: HullFile) -> list[Array]:
    """As sent, in the colours of their groups, and before quantisation, where the file has them."""
    (colours, _), root, of_group = _looks(file), _scale(file), group_colours(file)
    for label, corners in file.true_hulls:
        stroke(
            axes, [outline(root * corners, SMOOTH)], edgecolor=colours[label], linewidth=1.1, linestyle=(0, (1, 1.4))
        )
    for hull in file.hulls:
        shade = colours[of_group[hull.group]]
        stroke(axes, [outline(root * hull.corners, SMOOTH)], edgecolor=shade, linewidth=1.5)
    return [
        root * corners for corners in (*(hull.corners for hull in file.hulls), *(one for _, one in file.true_hulls))
    ]


def _geodesics(axes: Any, file: HullFile) -> None:
    """What the classifier decides by: one line in black, or each group's in its colour."""
    (colours, _), of_group = _looks(file), group_colours(file)
    single = len(file.references) == 1
    for group, reference, normal in zip(file.groups, file.references, file.normals, strict=False):
        if normal.any():
            shade = "black" if single else colours[of_group[group]]
            stroke(axes, [decision(_scale(file) * reference, normal, SMOOTH)], edgecolor=shade, linewidth=1.4,
                   linestyle=(0, (6, 2)))  # fmt: skip


def _truth(axes: Any, run: Run, source: str) -> Array:
    """The hyperplane that the data set `uniform` is labelled by, made again from the run's configuration."""
    if run.value("dataset") not in ("uniform", "auto"):
        raise UsageError(f"{source}: truth is known of the data set uniform alone, not of {run.value('dataset')}")
    curvature = float(run.value("points.curvature"))
    _, _, plane = two_classes(
        int(run.value("points.num")), run.value("points.sample-radius") / math.sqrt(-curvature),
        run.value("points.reference"), run.value("points.margin"), curvature, int(run.value("seed")),
    )  # fmt: skip
    reference = math.sqrt(-curvature) * np.array(plane.reference)
    stroke(axes, [decision(reference, np.array(plane.normal), SMOOTH)], edgecolor="black", linewidth=1.8)
    axes.plot(*reference, "o", color=RED, markersize=8, markeredgecolor="white", markeredgewidth=1.0, zorder=5)
    return reference[None]


def _keys(files: Sequence[HullFile], wanted: Mapping[str, bool]) -> list[tuple[Any, str]]:
    from matplotlib.lines import Line2D

    keys: list[tuple[Any, str]] = []
    first = files[0]
    colours, markers = _looks(first)
    if all(file.class_names == first.class_names for file in files):
        for number, name in enumerate(first.class_names):
            mark = Line2D(
                [], [], color=colours[number], marker=markers[number], linestyle="-" if wanted["hulls"] else "none"
            )
            keys.append((mark, f"class {name}" if name.isdigit() else name))
    if wanted["hulls"]:
        keys.append((Line2D([], [], color=style.SOFT, linewidth=1.5), "hulls as sent"))
        if any(file.true_hulls for file in files):
            keys.append((Line2D([], [], color=style.SOFT, linestyle=(0, (1, 1.4))), "before quantisation"))
    if wanted["geodesics"]:
        keys.append((Line2D([], [], color=style.SOFT, linestyle=(0, (6, 2))), "decision"))
    if wanted["truth"]:
        mark = Line2D([], [], color="black", marker="o", markerfacecolor=RED, markeredgecolor="white", markersize=8)
        keys.append((mark, "true hyperplane and its reference point"))
    return keys
