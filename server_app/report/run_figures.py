"""The pictures of a run of rounds: scores, losses, curvatures, and the classes of the clients."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.geometry.arrays import Floats
from curvfed.server_app.directory import is_number
from curvfed.server_app.directory.run_files import RunFiles, class_counts, curvatures
from curvfed.server_app.report import charts, class_scores, style
from curvfed.server_app.report.page import Picture
from curvfed.strategies.base.figures import VALIDATION, find
from curvfed.strategies.base.method import Network
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.messages import FINE_TUNE
from curvfed.tasks.kinds import GUESSES, KINDS, TRIVIAL_OF

MANY_CLIENTS = 30
"""Clients beyond which a band replaces a line for each client, and dots have no labels."""

BAND = (10.0, 90.0)
"""Percentiles over the clients that bound the band."""

LOSSES = {
    "cross-entropy": "cross-entropy (nats)",
    "mse": "mean squared error of the scores of the classes",
    "triplet": "triplet loss of hyperbolic distances",
    "geodesic": "hyperbolic distance to the prototype of the right class",
}
"""Training losses in words."""


def run_pictures(run: RunFiles) -> list[Picture]:
    """All pictures of a page for which the files have data."""
    with style.applied(style.PAGE_SIZE):
        return [picture for draw in _kinds(run) if (picture := draw(run)) is not None]


def run_figure(folder: Path) -> Any:
    """Draw the accuracy over the rounds, or of a one-shot run the disc, as matplotlib's Figure.

    Raises
    ------
    ValueError
        If the run has neither: a run of rounds needs scores of two rounds.
    """
    run = RunFiles.read(folder)
    with style.applied(style.PAGE_SIZE):
        for draw in _kinds(run):
            picture = draw(run) if draw.__name__ in ("accuracy", "score", "disc") else None
            if picture is not None and picture.figure is not None:
                picture.figure.set_facecolor("white")
                return picture.figure
    raise ValueError(
        f"{folder} has nothing to plot: allowed is a run with scores of two rounds, or with hulls"
    )


def _kinds(run: RunFiles) -> Sequence[Callable[[RunFiles], Picture | None]]:
    """The functions that draw the pictures of this run, in order; they import what only they
    need."""
    if run.hulls is not None:
        from curvfed.server_app.report import hull_figures

        return [hull_figures.disc, hull_figures.confusion]
    if run.added:
        return [*(KINDS[name].part("picture") for name in run.added), score, loss]
    kinds = [score, loss, class_scores.confusion, curvature_by_round, curvature_by_graph, classes]
    if not _has_global_model(run):
        return kinds
    from curvfed.server_app.report import model_figures

    first = [model_figures.accuracy, score, loss, class_scores.confusion]
    return [
        *first,
        model_figures.examples,
        model_figures.features,
        model_figures.weights,
        *kinds[3:],
    ]


def _has_global_model(run: RunFiles) -> bool:
    """Whether the global or the fine-tuned models were scored, or the aggregation has weights of
    its own."""
    scored = run.rounds.get("global_accuracy", ())
    weighted = run.scores.get("weight", ())
    return (
        any(scored)
        or any(weighted)
        or FINE_TUNE in run.rounds.get("phase", ())
        or run.global_test is not None
    )


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
    validation = charts.row_means(charts.known(run.by_client(VALIDATION)[1]))
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
    latest = factor * charts.known(values)
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


def curvature_by_graph(run: RunFiles) -> Picture | None:
    """Curvature of the space against Forman-Ricci curvature of the graph, for the clients that tell
    both."""
    forman, courses = curvatures(run)
    clients = [client for client in run.partitions if client in forman and client in courses]
    if not clients:
        return None
    x = [forman[client] for client in clients]
    first, last = ([courses[client][end] for client in clients] for end in (0, -1))
    axes = style.page_axes(3.1)
    is_crowded = len(clients) > MANY_CLIENTS
    if is_crowded:
        axes.scatter(
            x, last, s=14, color=style.MEAN, alpha=0.6, linewidth=0, label="after the last round"
        )
        charts.page_legend(axes)
    else:
        charts.page_legend(axes, charts.moved(axes, x, first, last))
        for place, height, client in zip(x, last, clients, strict=True):
            axes.annotate(
                client,
                (place, height),
                xytext=(5, 3),
                textcoords="offset points",
                fontsize=8,
                color=style.INK,
            )
    axes.set(xlabel=f"{charts.FORMAN} of the client's graph", ylabel=charts.CURVATURE)
    axes.margins(0.08)
    caption = (
        "A dot is a client: further left its graph branches more, further down its space is more"
        " hyperbolic."
    )
    return Picture(axes.figure, "Curvature of spaces by curvature of graphs", caption)


def classes(run: RunFiles) -> Picture | None:
    """Class counts as shaded cells, of the largest clients and classes if there are many."""
    by_client = class_counts(run)
    if not by_client:
        return None
    counts = np.array(
        [[counts.get(name, 0) for counts in by_client.values()] for name in run.class_names],
        dtype=np.float64,
    )
    rows, columns = (charts.largest(counts.sum(axis=axis), charts.MOST_CELLS) for axis in (1, 0))
    shown = counts[np.ix_(rows, columns)]
    axes = style.page_axes(0.9 + min(max(0.22 * len(rows), 0.6), 4.0))
    names = (
        [str(list(by_client)[column]) for column in columns],
        [run.class_names[row] for row in rows],
    )
    charts.cells(
        axes, np.where(shown > 0, -np.sqrt(shown / max(shown.max(), 1)), np.nan), names, most=20
    )
    axes.set(xlabel="client", ylabel="class")
    caption = (
        f"The colour deepens with the square root of the number of {run.examples}, up to"
        f" {shown.max():,.0f}. {charts.left_out(columns, counts.shape[1], 'clients')}"
    )
    return Picture(axes.figure, "Classes of the clients", caption.strip())
