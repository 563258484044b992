"""The figures of one-shot runs: the disc with its hulls, and curves over epsilon."""

import math

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.directory.hull_file import HullFile
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import labels, style, units
from curvfed.server_app.report.disc import Disc, everything, view
from curvfed.server_app.report.hull_results import own_classifier
from curvfed.server_app.report.templates import Picture

Array = NDArray[np.float64]

MOST_KEYS = 24
"""Groups that are named beside their colours."""

_SIDE = 340.0  # of the disc in points of print, about

Curve = tuple[str, Array]
"""A label and the values by epsilon."""


def hull_figures(run: RunFiles) -> list[Picture]:
    """The disc, and the curves over epsilon; nothing where there are no hulls."""
    if run.hulls is None:
        return []
    told = run.hulls.sweep
    own = own_classifier(run)
    drawn = (
        ("sweep-accuracy", "Test accuracy", "test accuracy (%)", "%", 100, ((own, "flp"), ("Euclidean SVM", "fle"))),
        ("sweep-vertices", "Vertices of the clients' hulls", "vertices of a hull", "", 1,
         (("mean", "vertices_mean"), ("most", "vertices_max"))),
        ("sweep-share", "Share of the training points that leave the clients, as bins,", "share of points revealed (%)",
         "%", 100, (("revealed", "share"),)),
    )  # fmt: skip
    found = [_disc(run.hulls)]
    for name, title, axis, unit, factor, columns in drawn:
        curves = [(label, factor * told[column]) for label, column in columns if told]
        if (picture := _by_epsilon(run.hulls, name, axis, curves, title=title, unit=unit)) is not None:
            found.append(picture)
    return found


def _disc(file: HullFile) -> Picture:
    from matplotlib.lines import Line2D

    centre, half = view(everything(file))
    disc = Disc(file, style.page_axes(5.3), centre, half, 2 * half / _SIDE)
    decided, dots = disc.decisions(), disc.points()
    disc.hulls()
    lines, wrong = disc.geodesics(), disc.wrong()
    keys = sorted((colour, name or f"group {one + 1}") for one, (colour, name) in
                  enumerate(zip(disc.of_group, file.names, strict=True)))[:MOST_KEYS]  # fmt: skip
    marks = [(Line2D([], [], color=disc.colours[colour], linewidth=4, alpha=0.8), units.printable(name))
             for colour, name in keys]  # fmt: skip
    columns = max(80 // (max(len(name) for _, name in marks) + 6), 1)
    labels.page_legend(disc.axes, marks, columns, handlelength=1.0, fontsize=8, handletextpad=0.7)
    facts = {
        "hulls": len(file.hulls), "true_hulls": len(file.true_hulls), "groups": len(file.groups), "lines": lines,
        "clients": len({hull.client for hull in file.hulls}), "named": any(file.names), "dots": dots, "wrong": wrong,
        "points": len(file.sample.points), "decided": decided, "tested": len(file.test.labels), "half": half,
        "missed": int((file.test.labels != file.predicted).sum()), "wide": _wide(file, centre, half),
    }  # fmt: skip
    return Picture(style.to_svg(disc.axes, "disc"), "disc", facts)


def _wide(file: HullFile, centre: Array, half: float) -> float | None:
    """The hyperbolic width of a closer view; None where it reaches beyond the disc."""
    gaps = 1 - np.square(centre + np.array([[-half, 0.0], [half, 0.0]])).sum(axis=1)
    if (gaps <= 0).any():
        return None
    return 2 / math.sqrt(-file.curvature) * math.asinh(2 * half / math.sqrt(float(gaps.prod())))


def _by_epsilon(file: HullFile, name: str, axis: str, curves: list[Curve], **facts: str) -> Picture | None:
    """Draw curves over epsilon on a log axis, and a mark where the run's own epsilon is; None where there are none."""
    order = np.argsort(file.sweep.get("epsilon", np.zeros(0)), kind="stable")
    order = order[file.sweep["epsilon"][order] > 0] if len(order) else order
    curves = [(label, values[order]) for label, values in curves]
    if not any(np.isfinite(values).any() for _, values in curves):
        return None
    epsilon, axes = file.sweep["epsilon"][order], style.page_axes(2.8)
    for (label, values), colour, dash in zip(curves, (style.MEAN, style.OTHER), ("-", "--"), strict=False):
        axes.plot(epsilon, values, dash, marker="o", markersize=4, color=colour, linewidth=2, label=label)
    axes.axvline(file.epsilon, color=style.SOFT, linewidth=1.2, linestyle=":", label="this run")
    axes.set(xlabel="ε, hyperbolic distance", ylabel=axis)
    labels.numbers(axes, epsilon.tolist(), [f"{one:g}" for one in epsilon], log=True)
    labels.page_legend(axes, columns=3)
    ends = [(label, [(values[one], epsilon[one]) for one in dict.fromkeys(np.flatnonzero(np.isfinite(values))[[0, -1]])]
             if np.isfinite(values).any() else []) for label, values in curves]  # fmt: skip
    lost = epsilon[~np.isfinite([values for _, values in curves]).any(axis=0)]
    return Picture(style.to_svg(axes, name), "sweep", facts | {"axis": axis, "ends": ends, "lost": lost.tolist()})
