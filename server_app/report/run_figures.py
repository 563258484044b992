"""The pictures of a run of rounds: scores, losses, curvatures, and the classes of the clients."""

from typing import Any

import numpy as np

from curvfed.geometry.arrays import Floats
from curvfed.server_app.directory import is_number
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import charts, style
from curvfed.server_app.report.page import Picture
from curvfed.strategies.base.figures import VALIDATION, find
from curvfed.strategies.base.method import Network
from curvfed.strategies.methods import METHODS
from curvfed.tasks.kinds import GUESSES, TRIVIAL_OF

MANY_CLIENTS = 30
"""Clients beyond which a band replaces a line for each client, and dots lack labels."""

BAND = (10.0, 90.0)
"""Percentiles over the clients that bound the band."""

LOSSES = {
    "cross-entropy": "cross-entropy (nats)",
    "mse": "mean squared error of the scores of the classes",
    "triplet": "triplet loss of hyperbolic distances",
    "geodesic": "hyperbolic distance to the prototype of the right class",
}
"""Training losses in words."""


def score(run: RunFiles) -> Picture | None:
    """Test scores of the clients by round, with the mean on validation data and the round that
    these data choose."""
    metrics = run.summary.get("metrics") or {}
    best = (run.summary.get("best_validation") or {}).get("round")
    level = None
    if run.metric in GUESSES:
        level = ("guessing", 100 * GUESSES[run.metric])
    trivial = TRIVIAL_OF.get(run.metric, "")
    if is_number(metrics.get(trivial)):
        level = (find(trivial).words, 100 * metrics[trivial])
    label = f"test {run.metric_name} (%)"
    axes = _by_round(run, "score", label, 100.0)
    if axes is None:
        return None
    mean = axes.lines[-1]
    validation = charts.row_means(charts.carried_forward(run.by_client(VALIDATION)[1]))
    rounds = run.by_client("score")[0]
    if np.isfinite(validation).any():
        dashed = {"color": style.OTHER, "linewidth": 1.3, "label": "mean on validation data"}
        shown = charts.evenly(len(rounds))
        axes.plot(rounds[shown], 100 * validation[shown], "--", **dashed)
    if level is not None:
        dotted = {"color": style.SOFT, "linewidth": 1.2, "linestyle": ":"}
        axes.axhline(level[1], label=level[0], **dotted)
    star = np.flatnonzero(mean.get_xdata() == best)
    if len(star):
        x, y = mean.get_xdata()[star], mean.get_ydata()[star]
        look = {"color": style.MEAN, "markersize": 13, "zorder": 5}
        axes.plot(x, y, "*", label=f"best validation: round {best:.0f}", **look)
    charts.page_legend(axes)
    caption = f"Test {run.metric_name} of the clients after local training."
    return Picture(axes.figure, f"Test {run.metric_name} by round", caption)


def loss(run: RunFiles) -> Picture | None:
    """Training losses of the clients by round."""
    axes = _by_round(run, "loss", find("loss").words)
    if axes is None:
        return None
    charts.page_legend(axes)
    caption = f"During local training: {loss_name(run)}."
    return Picture(axes.figure, "Training loss by round", caption)


def loss_name(run: RunFiles) -> str:
    """The loss of the clients' training in words."""
    method = METHODS.get(run.summary.get("method") or "")
    network = method.network_for(run.config) if method else Network()
    words = LOSSES[network.loss]
    mixup = network.objective.get("mixup", 0)
    if network.loss == "triplet" and mixup:
        return f"{words}, and {mixup:g} times the cross-entropy of mixed images"
    return words


def curvature_by_round(run: RunFiles) -> Picture | None:
    """The curvatures of the clients' spaces by round."""
    axes = _by_round(run, "curvature", charts.CURVATURE)
    if axes is None:
        return None
    charts.page_legend(axes)
    caption = "Curvature of the space that a client works in, stronger further down."
    return Picture(axes.figure, "Curvature by round", caption)


def _by_round(run: RunFiles, column: str, label: str, factor: float = 1.0) -> Any:
    """Draw a column of `clients.csv` by round, and in bold the mean of each client's last measured
    value, as the last line; None without two rounds."""
    rounds, values = run.by_client(column)
    if np.isfinite(values).any(axis=1).sum() < 2:
        return None
    latest = factor * charts.carried_forward(values)
    mean = charts.row_means(latest)
    scored = np.flatnonzero(np.isfinite(mean))
    shown = scored[charts.evenly(len(scored))]
    axes = style.page_axes(3.1)
    _draw_clients(axes, rounds[shown], latest[shown], factor * values[shown])
    bold = {"color": style.MEAN, "linewidth": 2.2}
    name = "mean" if values.shape[1] > 1 else "the client"
    axes.plot(rounds[shown], mean[shown], label=name, **bold)
    charts.over_rounds(axes, label)
    return axes


def _draw_clients(axes: Any, rounds: Floats, latest: Floats, values: Floats) -> None:
    """Draw a thin line for each of several clients, or a band if there are many; nothing for a
    single one."""
    if values.shape[1] > MANY_CLIENTS:
        low, high = np.nanpercentile(latest, BAND, axis=1)
        axes.fill_between(
            rounds, low, high, color=style.CLIENT, alpha=0.25, linewidth=0, label="middle 80%"
        )
    elif values.shape[1] > 1:
        for number, client in enumerate(values.T):
            is_measured = np.isfinite(client)
            thin = {
                "color": style.CLIENT,
                "linewidth": 0.7,
                "alpha": 0.55,
            }
            axes.plot(
                rounds[is_measured], client[is_measured], label="" if number else "a client", **thin
            )
