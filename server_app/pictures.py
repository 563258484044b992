"""The pictures of a report that any task has; equal bytes for equal figures."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.canvas import CLIENT, INK, MEAN, OTHER, PAPER, SOFT, new_figure, page_style, printable, to_svg
from curvfed.server_app.page import Html

Array = NDArray[np.float64]

CURVATURE = "sectional curvature (−1: unit ball)"

MANY_CLIENTS = 30
"""Beyond so many, a band takes the place of a line per client, and dots go unlabelled."""

BAND = (10.0, 90.0)
"""Percentiles over the clients that the band runs between."""

MOST_POINTS = 200
"""Points along a line; of more rounds an even choice is drawn, first and last among them."""

MOST_COLUMNS, MOST_ROWS = 40, 20
"""Clients and classes that the picture of classes has room for."""


def known(values: Array) -> Array:
    """Fill every gap with what the client measured last, as the run's own means do; a client is NaN until it measured.

    Parameters
    ----------
    values : array (R, C)
        A row per round, NaN where a client was not measured.
    """
    latest = np.maximum.accumulate(np.where(np.isfinite(values), np.arange(len(values))[:, None], 0), axis=0)
    return np.take_along_axis(values, latest, axis=0)


def row_means(values: Array) -> Array:
    """Mean (R,) of the finite values of every row of (R, C), NaN where there are none."""
    finite = np.isfinite(values)
    counts = finite.sum(axis=1)
    return np.where(counts > 0, np.where(finite, values, 0.0).sum(axis=1) / np.maximum(counts, 1), np.nan)


def evenly(count: int) -> NDArray[np.intp]:
    """At most `MOST_POINTS` of so many places, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, MOST_POINTS).round().astype(np.intp)) if count else np.empty(0, np.intp)


def largest(sizes: Array, most: int) -> NDArray[np.intp]:
    """Where the largest of (N,) are, at most so many, in their order; of equal ones the first."""
    return np.sort(np.argsort(-sizes, kind="stable")[:most])


def over_rounds(
    name: str, rounds: Array, values: Array, axis: str, alt: str, validation: Array | None = None,
    level: tuple[str, float] | None = None, best: float | None = None, names: list[str] | None = None,
) -> Html:  # fmt: skip
    """Draw what every client measured, round by round, and in bold the mean of what each measured last.

    Parameters
    ----------
    name : str
        Of the picture, unique in its page.
    rounds : array (R,)
        Ascending.
    values : array (R, C)
        A column per client, NaN where it was not measured.
    axis : str
        What is measured, with its unit.
    alt : str
        The picture in words.
    validation : array (R,), optional
        Mean on the validation data.
    level : (label, value), optional
        A horizontal line to compare with.
    best : float, optional
        The round to mark.
    names : list of C str, optional
        Written at the ends of the clients' lines, where there is room for all of them.
    """
    with page_style(name):
        figure, axes = new_figure(3.1)
        latest = known(values)
        mean = row_means(latest)
        scored = np.flatnonzero(np.isfinite(mean))
        shown = scored[evenly(len(scored))]
        if values.shape[1] > MANY_CLIENTS:
            low, high = np.nanpercentile(latest[shown], BAND, axis=1)
            axes.fill_between(rounds[shown], low, high, color=CLIENT, alpha=0.25, linewidth=0, label="middle 80%")
        elif values.shape[1] > 1:
            for client in values.T:
                there = shown[np.isfinite(client[shown])]
                axes.plot(rounds[there], client[there], color=CLIENT, linewidth=0.7, alpha=0.55)
            axes.plot([], [], color=CLIENT, linewidth=0.8, label="a client")
        bold = "mean" if values.shape[1] > 1 else "the client"
        axes.plot(rounds[shown], mean[shown], color=MEAN, linewidth=2.2, label=bold)
        if validation is not None and np.isfinite(validation[shown]).any():
            axes.plot(
                rounds[shown], validation[shown], "--", color=OTHER, linewidth=1.3, label="mean on validation data"
            )
        if level is not None:
            axes.axhline(level[1], color=SOFT, linewidth=1.2, linestyle=":", label=level[0])
        at = np.flatnonzero((rounds == best) & np.isfinite(mean))
        if best is not None and len(at):
            style = {
                "color": MEAN,
                "markeredgecolor": PAPER,
                "markeredgewidth": 0.8,
                "linestyle": "none",
                "zorder": 5,
            }
            axes.plot(rounds[at], mean[at], "*", markersize=13, label=f"best validation: round {best:.0f}", **style)
        axes.set(xlabel="round", ylabel=axis)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.margins(x=0.02)
        if names and values.shape[1] <= MANY_CLIENTS:
            _name_ends(axes, rounds, values, names)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
        return to_svg(figure, alt)


def _name_ends(axes: Any, rounds: Array, values: Array, names: list[str]) -> None:
    """Names beside the last points of lines, those that would touch moved apart; none where there is no room for all."""
    ends = sorted((client[there[-1]], rounds[there[-1]], name) for client, name in zip(values.T, names, strict=True)
                  if len(there := np.flatnonzero(np.isfinite(client))))  # fmt: skip
    low, high = axes.get_ylim()
    steps = 0.045 * (high - low) * np.arange(len(ends))
    if not len(ends) or steps[-1] > high - low:
        return
    heights = np.maximum.accumulate(np.array([value for value, _, _ in ends]) - steps) + steps
    heights = np.minimum(heights, high - steps[::-1])
    for (value, at, name), height in zip(ends, heights, strict=True):
        place = at + 0.02 * np.ptp(rounds), height
        axes.annotate(printable(name), (at, value), place, fontsize=7, color=SOFT, va="center", annotation_clip=False)


def curvature_scatter(name: str, forman: Array, first: Array, last: Array, labels: list[str], alt: str) -> Html:
    """Draw a dot per client: its curvature after the last round by its graph's, and an open one for after the first.

    Parameters
    ----------
    forman, first, last : array (C,)
        Finite.
    labels : list of C str
        For more than `MANY_CLIENTS` they are left out, and so is the first round.
    """
    with page_style(name):
        figure, axes = new_figure(3.1)
        dots = {"facecolor": MEAN, "edgecolor": PAPER, "label": "after the last round", "zorder": 3}
        if len(labels) > MANY_CLIENTS:
            axes.scatter(forman, last, s=14, linewidth=0.3, alpha=0.6, **dots)
        else:
            axes.vlines(forman, first, last, color=CLIENT, linewidth=0.8)
            axes.scatter(forman, first, s=22, facecolor=PAPER, edgecolor=CLIENT, label="after the first round")
            axes.scatter(forman, last, s=34, linewidth=0.6, **dots)
            for x, y, label in zip(forman, last, labels, strict=True):
                axes.annotate(label, (x, y), xytext=(5, 3), textcoords="offset points", fontsize=8, color=INK)
        axes.set(xlabel="mean Forman–Ricci curvature of the client's graph", ylabel=CURVATURE)
        axes.margins(0.08)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
        return to_svg(figure, alt)


def class_squares(name: str, counts: Array, clients: list[str], classes: list[str], alt: str) -> Html:
    """Draw a square per client and class, its area the count; at most `MOST_COLUMNS` and `MOST_ROWS` are legible.

    Parameters
    ----------
    counts : array (C, K)
    clients : list of C str
    classes : list of K str
    """
    with page_style(name):
        row = 0.24 if len(classes) <= 12 else 0.18
        figure, axes = new_figure(0.7 + row * len(classes))
        side = 0.9 * min(72 * row, 280 / len(clients))
        x, y = np.nonzero(counts.T)[::-1]
        axes.scatter(x, y, s=side**2 * counts[x, y] / max(counts.max(), 1), marker="s", color=MEAN, linewidth=0)
        axes.set(xlim=(-0.6, len(clients) - 0.4), ylim=(len(classes) - 0.4, -0.6), xlabel="client", ylabel="class")
        every = 1 if len(clients) <= 20 else 2
        axes.set_xticks(range(0, len(clients), every), clients[::every], fontsize=8)
        axes.set_yticks(range(len(classes)), [printable(name) for name in classes], fontsize=8)
        return to_svg(figure, alt)
