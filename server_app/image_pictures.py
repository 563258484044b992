"""The pictures of runs on images; equal bytes for equal figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.canvas import INK, MEAN, OTHER, PAPER, SOFT, dots, new_figure, page_style, printable, to_svg
from curvfed.server_app.hues import HUES, hues
from curvfed.server_app.page import Html
from curvfed.server_app.pictures import evenly
from curvfed.server_app.projection import View

Array = NDArray[np.float64]

MOST_NUMBERED = 12
"""Classes up to which a matrix has figures in its cells."""

MOST_CELLS = 200
"""Rows, and columns, that a map has room for."""

# Pixels know no CSS variables: these stand out on the page's light paper and on its dark one.
_LESS, _MORE, _NEUTRAL, _ON_COLOUR = "#2a8fd0", "#d9751a", "#87929d", "#0e1317"

_LAYERS = 4
"""Parts that the dots are drawn in, so that no class covers all others."""


@dataclass(frozen=True, eq=False)
class Course:
    """One thing measured over the rounds.

    Attributes
    ----------
    label : str
    rounds, values : array (R,)
    ours : bool
        Whether it is of the global model; else of personal ones.
    marker : str
        "" for a line, else the marker of single points.
    """

    label: str
    rounds: Array
    values: Array
    ours: bool
    marker: str = ""


def courses(name: str, told: Sequence[Course], axis: str, alt: str) -> Html:
    """Draw lines and single points over the rounds, the global model's in one colour and personal ones' in another.

    Parameters
    ----------
    name : str
        Of the picture, unique in its page.
    axis : str
        What is measured, with its unit.
    alt : str
        The picture in words.
    """
    from matplotlib.transforms import offset_copy

    with page_style(name):
        figure, axes = new_figure(3.1)
        # A little later than the last round, as calibration is, and not on top of other points.
        beside = offset_copy(axes.transData, figure, x=8, units="points")
        for one in told:
            colour = MEAN if one.ours else OTHER
            if one.marker:
                style: dict[str, Any] = {"markersize": 12 if one.marker == "*" else 7, "linestyle": "none", "zorder": 5}
                style |= {"markeredgecolor": PAPER, "markeredgewidth": 0.8, "clip_on": False}
                style |= {"transform": beside} if one.marker == "*" else {}
                axes.update_datalim(np.column_stack([one.rounds, one.values]))
                axes.plot(one.rounds, one.values, one.marker, color=colour, label=one.label, **style)
            else:
                marks = {"marker": "o", "markersize": 3.5} if len(one.rounds) <= 12 else {}
                at = evenly(len(one.rounds))
                axes.plot(one.rounds[at], one.values[at], color=colour, linewidth=2.0, label=one.label, **marks)
        axes.set(xlabel="round", ylabel=axis)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.margins(x=0.04)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
        return to_svg(figure, alt)


def confusion(name: str, counts: Array, classes: list[str], alt: str) -> Html:
    """Draw a matrix of true by predicted classes, shaded by the share of a row; with figures up to `MOST_NUMBERED`.

    Parameters
    ----------
    counts : array (C, C + 1)
        The last column counts what is predicted as no class.
    classes : list of C str
    """
    shares = (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))[:, :-1]
    size = len(classes)
    with page_style(name):
        figure, axes = new_figure(4.6)
        # Small shares are what is looked for, the more so where no figures tell them.
        shade = np.sqrt(shares) if size <= MOST_NUMBERED else np.cbrt(shares)
        _map(axes, np.where(np.eye(size, dtype=bool), -1, 1) * shade, shares > 0, "equal")
        if size <= MOST_NUMBERED:
            for row, column in np.argwhere(counts[:, :-1] > 0):
                dense = shade[row, column] > 0.8
                axes.annotate(
                    _share(shares[row, column]), (column, row), ha="center", va="center", fontsize=7.5,
                    color=_ON_COLOUR if dense else INK,
                )  # fmt: skip
        _name_rows(axes, classes, 30, "true class")
        _name_columns(axes, classes, 30, "predicted class")
        return to_svg(figure, alt)


def _share(share: float) -> str:
    """Percent, with a decimal where it is small."""
    percent = 100 * share
    return f"{percent:.0f}" if percent >= 9.95 else "<.1" if percent < 0.05 else f"{percent:.1f}".lstrip("0")


def weights(name: str, rounds: Array, clients: list[str], ratios: Array, limit: float, alt: str) -> Html:
    """Draw what clients weighed in every round over their shares of the data: a cell per client and round.

    Parameters
    ----------
    rounds : array (R,)
    clients : list of K str
    ratios : array (K, R)
        NaN where a client had no part.
    limit : float, in (0, 1]
        The distance from 1 beyond which colours do not change.
    """
    with page_style(name):
        height = min(max(0.16 * len(clients), 0.6), 3.6)
        figure, axes = new_figure(1.0 + height)
        there = np.isfinite(ratios)
        _map(axes, np.where(there, (ratios - 1) / limit, 0.0), there)
        _name_rows(axes, clients, 25, "client")
        _name_columns(axes, [f"{number:.0f}" for number in rounds], 12, "round")
        key = axes.inset_axes((0.0, 1 + 0.12 / height, 0.4, 0.09 / height))
        _map(key, np.linspace(-1, 1, 65)[None], np.ones((1, 65), dtype=bool))
        key.set(yticks=[])
        key.set_xticks(
            [0, 32, 64], [f"{1 - limit:.2f}", "1", f"{'≥ ' if limit == 1 else ''}{1 + limit:.2f}"], fontsize=8
        )
        key.xaxis.tick_top()
        key.annotate("weight over share of the data", (1.06, 0.5), xycoords="axes fraction", va="center", color=SOFT)
        return to_svg(figure, alt)


def counts(name: str, table: Array, clients: list[str], classes: list[str], alt: str) -> Html:
    """Draw a cell per client and class, shaded by the root of the count.

    Parameters
    ----------
    table : array (K, C)
    clients : list of K str
    classes : list of C str
    """
    with page_style(name):
        figure, axes = new_figure(0.8 + min(max(0.12 * len(classes), 1.2), 4.0))
        _map(axes, -np.sqrt(table.T / max(table.max(), 1)), table.T > 0)
        _name_rows(axes, classes, 25, "class")
        _name_columns(axes, clients, 15, "client")
        return to_svg(figure, alt)


def features(name: str, view: View, labels: NDArray[np.intp], classes: list[str], alt: str) -> Html:
    """Draw a dot per image, coloured by its class, and a star per prototype.

    Parameters
    ----------
    view : View
    labels : int array (m,)
        The class of every dot.
    classes : list of C str
    """
    from matplotlib.patches import Circle

    few, colours = len(classes) <= len(HUES), hues(len(classes))
    with page_style(name):
        figure, axes = new_figure(5.2)
        for layer in range(_LAYERS):
            for number in np.unique(labels):
                points = view.points[labels == number][layer::_LAYERS]
                dots(axes, points, colours[number], 2.6 if len(labels) > 800 else 3.6, clip_on=False)
        axes.update_datalim(view.points)
        if len(view.prototypes):
            some = view.prototypes[: len(classes)]
            axes.scatter(
                *some.T, s=130 if few else 36, marker="*", color=colours[: len(some)], edgecolor=INK, zorder=5,
                linewidth=0.7 if few else 0.4, clip_on=False,
            )  # fmt: skip
        if view.disc:
            axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=SOFT, linewidth=1.0))
            axes.set(xlim=(-1.02, 1.02), ylim=(-1.02, 1.02), aspect="equal")
            axes.set_axis_off()
        else:
            axes.set(xlabel=view.axes[0], ylabel=view.axes[1])
            axes.set_aspect("equal", "datalim")
            axes.margins(0.04)
            if not any(view.axes):
                axes.set_axis_off()
        _colour_key(axes, colours, classes, few, bool(len(view.prototypes)))
        return to_svg(figure, alt)


def _colour_key(axes: Any, colours: Sequence[str], classes: list[str], few: bool, starred: bool) -> None:
    """Which colour is which class; of many the first and the last."""
    from matplotlib.lines import Line2D

    named = list(zip(classes, colours, strict=False))
    if not few:
        named = [named[place] for place in np.linspace(0, len(classes) - 1, 6).round().astype(int)]
    keys = [Line2D([], [], marker="o", color=colour, linestyle="none", markersize=5) for _, colour in named]
    texts = [printable(name) for name, _ in named]
    if starred:
        keys.append(Line2D([], [], marker="*", color="none", markeredgecolor=INK, linestyle="none", markersize=10))
        texts.append("prototype")
    columns = max(80 // (max(map(len, texts)) + 6), 1)
    axes.legend(
        keys, texts, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, handlelength=1.0, fontsize=8,
        columnspacing=1.0, handletextpad=0.5,
    )  # fmt: skip


def _map(axes: Any, values: Array, there: NDArray[np.bool_], aspect: str = "auto") -> None:
    """A cell per entry, from one colour at -1 by grey at 0 to the other at 1; none where there is none."""
    from matplotlib.colors import to_rgb

    # In 32 steps: what the eye tells apart, and a picture is smaller for it.
    depth = np.round(np.clip(np.abs(values), 0, 1) * 32) / 32
    hue = np.where(values[..., None] < 0, to_rgb(_LESS), to_rgb(_MORE))
    colour = to_rgb(_NEUTRAL) + np.minimum(4 * depth, 1)[..., None] * (hue - to_rgb(_NEUTRAL))
    alpha = np.where(there, 0.12 + 0.88 * depth, 0.0)
    pixels = np.concatenate([colour, alpha[..., None]], axis=2)
    axes.imshow((255 * pixels).round().astype(np.uint8), interpolation="none", aspect=aspect)
    axes.grid(False)
    axes.spines[:].set_visible(False)


def _name_rows(axes: Any, names: list[str], most: int, label: str) -> None:
    at = _some(len(names), most)
    axes.set_yticks(at, [printable(names[place]) for place in at], fontsize=8)
    axes.set_ylabel(label)


def _name_columns(axes: Any, names: list[str], most: int, label: str) -> None:
    at = _some(len(names), most)
    texts = [printable(names[place]) for place in at]
    upright = max(map(len, texts)) > 3
    axes.set_xticks(at, texts, fontsize=8, rotation=90 if upright else 0)
    axes.set_xlabel(label)


def _some(count: int, most: int) -> range:
    """Every one of `count` places, or every second, third, …, so that they are at most `most`."""
    return range(0, count, -(-count // most))
