"""The figures of one-shot runs: the disc with its hulls, and curves over epsilon."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.directory.hull_file import HullFile
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import charts, labels, style, units
from curvfed.server_app.report.class_scores import confusion_of, counted
from curvfed.server_app.report.disc import Disc, everything, view
from curvfed.server_app.report.results import own_classifier
from curvfed.server_app.report.templates import Picture

Array = NDArray[np.float64]

MOST_KEYS = 24
"""Groups that the legend names."""

_SIDE = 340.0  # the disc in points of print, about

SWEEPS = (
    ("sweep-accuracy", "Test accuracy", "test accuracy (%)", "%", ("flp", "fle")),
    (
        "sweep-vertices",
        "Vertices of the clients' hulls",
        "vertices of a hull",
        "",
        ("vertices_mean", "vertices_max"),
    ),
    (
        "sweep-share",
        "Share of the training points that leave the clients, as bins,",
        "share of points revealed (%)",
        "%",
        ("share",),
    ),
)
"""Figures over epsilon: name, title, axis, unit, and columns of the sweep."""

CURVES = {
    "fle": "Euclidean SVM",
    "vertices_mean": "mean",
    "vertices_max": "most",
    "share": "revealed",
}
"""Labels of columns of the sweep; `flp` is the run's own classifier."""


def hull_figures(run: RunFiles) -> list[Picture]:
    """The disc, and curves over epsilon; nothing for a run without hulls."""
    if run.hulls is None:
        return []
    file = run.hulls
    names = CURVES | {"flp": own_classifier(run)}
    curves = [_by_epsilon(file, names, *figure) for figure in SWEEPS] if file.sweep else []
    if len(file.test.labels):
        tested = counted(file.test.labels, file.predicted)
        curves.append(confusion_of(tested, file.class_names, "point", "the group has no name"))
    return [_disc(file), *(picture for picture in curves if picture is not None)]


def _disc(file: HullFile) -> Picture:
    centre, half = view(everything(file))
    disc = Disc(file, style.page_axes(5.3), centre, half, 2 * half / _SIDE)
    decided = disc.decisions()
    dots = disc.points()
    disc.hulls()
    lines = disc.geodesics()
    wrong = disc.wrong()
    groups = sorted(
        (colour, name or f"group {number}")
        for number, (colour, name) in enumerate(zip(disc.of_group, file.names, strict=True), 1)
    )
    labels.class_legend(
        disc.axes,
        [
            charts.key(units.printable(name), color=disc.colours[colour], linewidth=4, alpha=0.8)
            for colour, name in groups[:MOST_KEYS]
        ],
    )
    facts = {
        "hulls": len(file.hulls),
        "true_hulls": len(file.true_hulls),
        "groups": len(file.groups),
        "lines": lines,
        "clients": len({hull.client for hull in file.hulls}),
        "named": any(file.names),
        "dots": dots,
        "wrong": wrong,
        "points": len(file.sample.points),
        "decided": decided,
        "tested": len(file.test.labels),
        "half": half,
        "missed": int((file.test.labels != file.predicted).sum()),
        "wide": _width(file, centre, half),
    }
    return Picture(disc.axes, "disc", facts)


def _width(file: HullFile, centre: Array, half: float) -> float | None:
    """The hyperbolic width of a closer view; None if it reaches beyond the disc."""
    gaps = 1 - np.square(centre + np.array([[-half, 0.0], [half, 0.0]])).sum(axis=1)
    if (gaps <= 0).any():
        return None
    return 2 / math.sqrt(-file.curvature) * math.asinh(2 * half / math.sqrt(float(gaps.prod())))


def _by_epsilon(
    file: HullFile,
    names: Mapping[str, str],
    name: str,
    title: str,
    axis: str,
    unit: str,
    columns: Sequence[str],
) -> Picture | None:
    """Draw columns of the sweep over epsilon on a log axis, and a line at the run's own epsilon;
    None without values."""
    order = np.argsort(file.sweep["epsilon"], kind="stable")
    order = order[file.sweep["epsilon"][order] > 0]
    epsilon = file.sweep["epsilon"][order]
    factor = 100 if unit else 1
    curves = {names[column]: factor * file.sweep[column][order] for column in columns}
    is_known = np.isfinite(np.array(list(curves.values())))
    if not is_known.any():
        return None
    axes = style.page_axes(2.8)
    for (label, values), colour, dash in zip(
        curves.items(), (style.MEAN, style.OTHER), ("-", "--"), strict=False
    ):
        axes.plot(
            epsilon, values, dash, marker="o", markersize=4, color=colour, linewidth=2, label=label
        )
    axes.axvline(file.epsilon, color=style.SOFT, linewidth=1.2, linestyle=":", label="this run")
    axes.set(xlabel="ε, hyperbolic distance", ylabel=axis)
    labels.numbers(axes, epsilon.tolist(), [f"{one:g}" for one in epsilon], log=True)
    labels.page_legend(axes, columns=3)
    points = [
        list(zip(values[known], epsilon[known], strict=True))
        for values, known in zip(curves.values(), is_known, strict=True)
    ]
    ends = [
        (label, list(dict.fromkeys(told[:1] + told[-1:])))
        for label, told in zip(curves, points, strict=True)
    ]
    facts = {
        "title": title,
        "unit": unit,
        "axis": axis,
        "ends": ends,
        "lost": epsilon[~is_known.any(axis=0)].tolist(),
    }
    return Picture(axes, "sweep", facts)
