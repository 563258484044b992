"""Pictures of the clients' data: classes, and curvatures of graphs."""

import numpy as np

from curvfed.extensions.reports import shapes
from curvfed.extensions.reports.run_clients import (
    class_counts,
    class_names,
    curvatures,
    examples_of,
)
from curvfed.server_app.directory.run_files import RunFiles
from curvfed.server_app.report import charts, style
from curvfed.server_app.report.page import Picture
from curvfed.server_app.report.run_figures import MANY_CLIENTS


def classes(run: RunFiles) -> Picture | None:
    """Class counts as shaded cells, of the largest clients and classes if there are many."""
    by_client = class_counts(run)
    if not by_client:
        return None
    all_names = class_names(run)
    counts = np.array(
        [[counts.get(name, 0) for counts in by_client.values()] for name in all_names],
        dtype=np.float64,
    )
    rows, columns = (shapes.largest(counts.sum(axis=axis), shapes.MOST_CELLS) for axis in (1, 0))
    shown = counts[np.ix_(rows, columns)]
    height = min(max(0.22 * len(rows), 0.6), 4.0)
    axes = style.page_axes(0.9 + height)
    names = (
        [str(list(by_client)[column]) for column in columns],
        [all_names[row] for row in rows],
    )
    shares = shown / max(shown.max(), 1)
    shapes.cells(axes, np.where(shown > 0, -np.sqrt(shares), np.nan), names, max_names=20)
    axes.set(xlabel="client", ylabel="class")
    caption = (
        f"The colour deepens with the square root of the number of {examples_of(run)}, up to"
        f" {shown.max():,.0f}. {shapes.left_out(columns, counts.shape[1], 'clients')}"
    )
    return Picture(axes.figure, "Classes of the clients", caption.strip())


def curvature_by_graph(run: RunFiles) -> Picture | None:
    """Curvature of the space against Forman-Ricci curvature of the graph, for the clients that
    report both."""
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
        charts.page_legend(axes, shapes.moved(axes, x, first, last))
        for place, height, client in zip(x, last, clients, strict=True):
            axes.annotate(
                client,
                (place, height),
                xytext=(5, 3),
                textcoords="offset points",
                fontsize=8,
                color=style.INK,
            )
    axes.set(xlabel=f"{shapes.FORMAN} of the client's graph", ylabel=charts.CURVATURE)
    axes.margins(0.08)
    caption = (
        "A dot is a client: further left its graph branches more, further down its space is more"
        " hyperbolic."
    )
    return Picture(axes.figure, "Curvature of spaces by curvature of graphs", caption)
