"""The figures of all runs of rounds: scores, losses, curvatures, and how the classes are dealt to
the clients."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.directory import run_files
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.directory.tables import is_number
from curvfed.server_app.report import charts, class_scores, labels, style, units
from curvfed.server_app.report.templates import Picture
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.messages import FINE_TUNE

Array = NDArray[np.float64]

MANY_CLIENTS = 30
"""Clients beyond which a band replaces a line for each client, and dots have no labels."""

BAND = (10.0, 90.0)
"""Percentiles over the clients that bound the band."""

LOSSES = {
    "cross-entropy": ("Cross-entropy", "nats"),
    "mse": ("Mean squared error of the scores of the classes", ""),
    "triplet": ("Triplet loss, of hyperbolic distances,", ""),
    "geodesic": ("Hyperbolic distance to the prototype of the right class", ""),
}
"""Training losses in words, and their units."""


def figures(run: RunFiles) -> list[Picture]:
    """All pictures of a page for which the files have data."""
    draws = [score, loss, class_scores.confusion, curvature_by_round, curvature_by_graph, classes]
    if _has_model_figures(run):
        from curvfed.server_app.report import image_figures as models

        draws = [
            models.accuracy,
            *draws[:3],
            models.examples,
            models.features,
            models.weights,
            *draws[3:],
        ]
    with style.applied(style.PAGE_SIZE):
        return _of_hulls(run) + [picture for draw in draws if (picture := draw(run)) is not None]


def run_figure(folder: Path) -> Any:
    """Draw the accuracy over the rounds, or of a one-shot run the disc, as matplotlib's Figure.

    Raises
    ------
    ValueError
        If the run has neither: a run of rounds needs scores of two rounds.
    """
    for picture in figures(RunFiles.read(folder)):
        if picture.words in ("accuracy", "score", "disc"):
            figure = picture.axes.figure
            figure.set_facecolor("white")
            return figure
    raise ValueError(
        f"{folder} has nothing to plot: allowed is a run with scores of two rounds, or with hulls"
    )


def _has_model_figures(run: RunFiles) -> bool:
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


def _of_hulls(run: RunFiles) -> list[Picture]:
    if run.hulls is None:
        return []
    from curvfed.server_app.report.hull_figures import hull_figures

    return hull_figures(run)


def score(run: RunFiles) -> Picture | None:
    """Test scores of the clients by round, with the mean on validation data and the round that
    these data choose."""
    best, metrics = (run.summary.get(part) or {} for part in ("best_validation", "metrics"))
    level = ("guessing", 0.5) if run.metric == "roc_auc" else None
    if run.metric == "accuracy" and is_number(metrics.get("majority_accuracy")):
        level = ("most frequent class alone", metrics["majority_accuracy"])
    return _by_round(run, "score", f"test {run.metric_name} (%)", "score", level, best.get("round"))


def loss(run: RunFiles) -> Picture | None:
    """Training losses of the clients by round."""
    name, unit = loss_name(run)
    return _by_round(
        run, "loss", f"training loss{f' ({unit})' if unit else ''}", "loss", loss=name, unit=unit
    )


def loss_name(run: RunFiles) -> tuple[str, str]:
    """The loss of the clients' training in words, and its unit."""
    method = METHODS.get(run.summary.get("method") or "")
    loss = method.loss if method else "cross-entropy"
    name, unit = LOSSES[run.config.get("spherefed.loss", loss) if loss == "mse" else loss]
    mixup = run.config.get("hyperfed.mixup", 0)
    more = (
        f" and {mixup:g} times the cross-entropy of mixed images"
        if loss == "triplet" and mixup
        else ""
    )
    return name + more, unit


def curvature_by_round(run: RunFiles) -> Picture | None:
    """The curvatures of the clients' spaces by round."""
    return _by_round(run, "curvature", charts.CURVATURE, "curvature")


def _by_round(
    run: RunFiles,
    column: str,
    axis: str,
    words: str,
    level: tuple[str, float] | None = None,
    best: Any = None,
    **facts: Any,
) -> Picture | None:
    """Draw a column of `clients.csv` by round, and in bold the mean of each client's last measured
    value.

    Parameters
    ----------
    level : (label, value), optional
        A horizontal line to compare with.
    best : float, optional
        The round to mark.
    """
    rounds, values = run.by_client(column)
    measured = np.isfinite(values).any(axis=1)
    if measured.sum() < 2:
        return None
    is_score = words == "score"
    clients = values.shape[1]
    latest = charts.known(values)
    factor = 100.0 if is_score else 1.0
    mean = charts.row_means(latest)
    last = latest[-1][np.isfinite(latest[-1])]
    scored = np.flatnonzero(np.isfinite(mean))
    shown = scored[charts.evenly(len(scored))]
    axes = style.page_axes(3.1)
    _draw_clients(axes, rounds[shown], factor * latest[shown], factor * values[shown])
    label = "mean" if clients > 1 else "the client"
    axes.plot(rounds[shown], factor * mean[shown], color=style.MEAN, linewidth=2.2, label=label)
    validation = charts.row_means(charts.known(run.by_client("validation")[1]))
    if is_score and np.isfinite(validation).any():
        dashed = {"color": style.OTHER, "linewidth": 1.3, "label": "mean on validation data"}
        axes.plot(rounds[shown], factor * validation[shown], "--", **dashed)
    if level is not None:
        axes.axhline(
            factor * level[1], color=style.SOFT, linewidth=1.2, linestyle=":", label=level[0]
        )
    star = np.flatnonzero((rounds == best) & np.isfinite(mean))
    if len(star):
        edge = {
            "markeredgecolor": style.PAPER,
            "markeredgewidth": 0.8,
            "linestyle": "none",
            "zorder": 5,
        }
        label = f"best validation: round {best:.0f}"
        axes.plot(
            rounds[star],
            factor * mean[star],
            "*",
            color=style.MEAN,
            markersize=13,
            label=label,
            **edge,
        )
    charts.over_rounds(axes, axis)
    if is_score and run.data_sets and clients <= MANY_CLIENTS:
        _name_ends(
            axes,
            rounds,
            factor * values,
            [run.data_sets.get(partition, "") for partition in run.partitions],
        )
    labels.page_legend(axes)
    facts |= {
        "column": column,
        "name": run.metric_name,
        "clients": clients,
        "many": clients > MANY_CLIENTS,
        "best": best,
        "gaps": not np.isfinite(values[measured]).all(),
        "rounds": rounds[scored[[0, -1]]],
        "means": mean[scored[[0, -1]]],
        "ends": (last.min(), last.max()),
        "show": units.percent if is_score else units.number,
    }
    return Picture(axes, words, facts)


def _draw_clients(axes: Any, rounds: Array, latest: Array, values: Array) -> None:
    """Draw a thin line for each of several clients, or a band if there are many; nothing for a
    single one."""
    if values.shape[1] > MANY_CLIENTS:
        low, high = np.nanpercentile(latest, BAND, axis=1)
        axes.fill_between(
            rounds, low, high, color=style.CLIENT, alpha=0.25, linewidth=0, label="middle 80%"
        )
    elif values.shape[1] > 1:
        for number, client in enumerate(values.T):
            there = np.isfinite(client)
            thin = {
                "color": style.CLIENT,
                "linewidth": 0.7,
                "alpha": 0.55,
            }
            axes.plot(rounds[there], client[there], label="" if number else "a client", **thin)


def _name_ends(axes: Any, rounds: Array, values: Array, names: list[str]) -> None:
    """Names beside the last points of lines, those that would touch moved apart; none where there
    is no room for all."""
    ends = sorted(
        (client[there[-1]], rounds[there[-1]], name)
        for client, name in zip(values.T, names, strict=True)
        if len(there := np.flatnonzero(np.isfinite(client)))
    )
    low, high = axes.get_ylim()
    steps = 0.045 * (high - low) * np.arange(len(ends))
    if not len(ends) or steps[-1] > high - low:
        return
    heights = np.maximum.accumulate(np.array([value for value, _, _ in ends]) - steps) + steps
    heights = np.minimum(heights, high - steps[::-1])
    small = {"fontsize": 7, "color": style.SOFT, "va": "center", "annotation_clip": False}
    for (value, at, name), height in zip(ends, heights, strict=True):
        axes.annotate(
            units.printable(name), (at, value), (at + 0.02 * np.ptp(rounds), height), **small
        )


def curvature_by_graph(run: RunFiles) -> Picture | None:
    """Curvature of the space against Forman-Ricci curvature of the graph, for the clients that tell
    both."""
    forman, courses = run_files.curvatures(run)
    clients = [one for one in run.partitions if one in forman and one in courses]
    if not clients:
        return None
    x = [forman[one] for one in clients]
    first, last = ([courses[one][end] for one in clients] for end in (0, -1))
    axes = style.page_axes(3.1)
    many = len(clients) > MANY_CLIENTS
    if many:
        axes.scatter(
            x, last, s=14, color=style.MEAN, alpha=0.6, linewidth=0, label="after the last round"
        )
        labels.page_legend(axes)
    else:
        labels.page_legend(axes, charts.moved(axes, x, first, last))
        for at, height, client in zip(x, last, clients, strict=True):
            axes.annotate(
                client,
                (at, height),
                xytext=(5, 3),
                textcoords="offset points",
                fontsize=8,
                color=style.INK,
            )
    axes.set(xlabel=f"{charts.FORMAN} of the client's graph", ylabel=charts.CURVATURE)
    axes.margins(0.08)
    facts = {
        "clients": len(clients),
        "many": many,
        "forman": (min(x), max(x)),
        "last": (min(last), max(last)),
    }
    return Picture(axes, "forman", facts)


def classes(run: RunFiles) -> Picture | None:
    """Class counts as shaded cells, of the largest clients and classes if there are many."""
    told = run_files.class_counts(run)
    if not told:
        return None
    counts = np.array(
        [[mine.get(name, 0) for mine in told.values()] for name in run.class_names],
        dtype=np.float64,
    )
    rows, columns = (charts.largest(counts.sum(axis=axis), charts.MOST_CELLS) for axis in (1, 0))
    shown = counts[np.ix_(rows, columns)]
    axes = style.page_axes(0.9 + min(max(0.22 * len(rows), 0.6), 4.0))
    names = [str(list(told)[column]) for column in columns], [run.class_names[row] for row in rows]
    charts.cells(
        axes, np.where(shown > 0, -np.sqrt(shown / max(shown.max(), 1)), np.nan), names, most=20
    )
    axes.set(xlabel="client", ylabel="class")
    facts = {
        "drawn": shown.T.shape,
        "all": counts.T.shape,
        "most": shown.max(),
        "things": run.examples,
    }
    return Picture(axes, "classes", facts)
