"""Whether the clients' graphs are curved, and differently: the curvature that distorts the
distances of each client's graph least, with Ricci curvatures and Gromov's δ."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from curvfed.client_app.data import load_data
from curvfed.client_app.node import Node
from curvfed.deployments.arguments import Request, UsageError
from curvfed.extensions.curvature.commands.hyperbolicity import hyperbolicity
from curvfed.extensions.curvature.distortion import LONGEST, PRECISION, RESOLUTION, Fit, fit
from curvfed.extensions.curvature.measures import ollivier, sampled_distances
from curvfed.server_app.report import charts, style
from curvfed.server_app.report.page import Cell, Page, Picture, Table, html_page, number, percent
from curvfed.strategies.base.run_keys import home
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.stored_files import write_atomically

QUADRUPLES = 100_000
"""Number of quadruples of nodes in the estimate of δ."""

FEWEST = 5
"""Minimum number of nodes in the largest component of a graph to fit its curvature."""

GAIN = 0.01
"""A graph counts as curved if its curvature lowers the distortion of flat space by more."""


@dataclass(frozen=True)
class GraphCurvature:
    """The curvature of one client's graph.

    Attributes
    ----------
    client, nodes, fitted_nodes : int
        The client's number, the nodes of its largest component, and those among them with fitted
        distances.
    diameter : float
        The longest of these distances.
    forman, ollivier : float
        Mean Ricci curvatures of its edges.
    delta : float
        Mean δ over the mean distance: 0 for a tree.
    fits : dict of int to Fit
        By number of dimensions.
    """

    client: int
    nodes: int
    fitted_nodes: int
    diameter: float
    forman: float
    ollivier: float
    delta: float
    fits: Mapping[int, Fit]


def measure(
    request: Request, client: int, dimensions: Sequence[int], max_nodes: int
) -> GraphCurvature | None:
    """The curvature of a client's graph, fitted to the distances of at most `max_nodes` nodes; None
    if its largest component has too few.

    Raises
    ------
    UsageError, ConfigError, DataError
        If the data are not graphs of nodes, or cannot be read.
    """
    graph = load_data(request.config, Node(partition=client, num_partitions=request.num_supernodes))
    if not isinstance(graph, ClientGraph) or graph.graph_of_node is not None:
        raise UsageError(
            f'dataset = "{request.config.dataset}": the data are {graph.task}; allowed are nodes'
            " of one graph per client",
            key="not-a-graph",
        )
    distances, size = sampled_distances(graph, max_nodes)
    if len(distances) < max(FEWEST, max(dimensions) + 1):
        return None
    mean_delta, _ = hyperbolicity(distances, QUADRUPLES)
    pairs = distances[np.triu_indices(len(distances), 1)]
    mean_ollivier = ollivier(graph, home() / "cache")
    fits = {dim: fit(distances, dim) for dim in dimensions}
    return GraphCurvature(
        client=client,
        nodes=size,
        fitted_nodes=len(distances),
        diameter=float(distances.max()),
        forman=graph.forman,
        ollivier=mean_ollivier,
        delta=mean_delta / float(pairs.mean()),
        fits=fits,
    )


def common(graphs: Sequence[GraphCurvature], dim: int) -> tuple[float, float]:
    """The curvature that is best for all clients together, among those of the search, and its mean
    distortion; 0 if it gains less than `RESOLUTION` over flat space, as for a single graph."""
    means = {}
    for curvature in graphs[0].fits[dim].curve:
        errors = [graph.fits[dim].curve.get(curvature, math.inf) for graph in graphs]
        means[curvature] = float(np.mean(errors))
    best = min(means, key=means.__getitem__)
    if means[0.0] - means[best] < RESOLUTION:
        best = 0.0
    return best, means[best]


@dataclass(frozen=True)
class Summary:
    """The gains from curvature, and from tailored curvature, by the fits in a number of dimensions.

    Attributes
    ----------
    dimensions : int
    own, common, flat : float
        Mean distortion with each client's own curvature, the best common one, and none.
    common_curvature : float
    graphs : int
    curved : int
        Graphs with a gain of more than `GAIN` over flat space.
    at_the_end : int
        Graphs with the most negative curvature that was tried.
    forman_rank : float or None
        Rank correlation of mean Forman curvature and own curvature; None where it is undefined.
    """

    dimensions: int
    own: float
    common: float
    flat: float
    common_curvature: float
    graphs: int
    curved: int
    at_the_end: int
    forman_rank: float | None


def summary(graphs: Sequence[GraphCurvature], dim: int) -> Summary:
    """The summary of the clients' graphs in a number of dimensions."""
    fits = [graph.fits[dim] for graph in graphs]
    curvature, together = common(graphs, dim)
    curvatures = [client_fit.curvature for client_fit in fits]
    formans = [graph.forman for graph in graphs]
    rank = None
    if len(graphs) > 2 and len(set(curvatures)) > 1 and len(set(formans)) > 1:
        rank = float(spearmanr(formans, curvatures).statistic)
    return Summary(
        dimensions=dim,
        own=float(np.mean([client_fit.distortion for client_fit in fits])),
        common=together,
        flat=float(np.mean([client_fit.flat for client_fit in fits])),
        common_curvature=curvature,
        graphs=len(graphs),
        curved=sum(client_fit.flat - client_fit.distortion > GAIN for client_fit in fits),
        at_the_end=sum(
            client_fit.curvature <= (1 - PRECISION) * min(client_fit.curve) for client_fit in fits
        ),
        forman_rank=rank,
    )


def sentences(graphs: Sequence[GraphCurvature], dim: int) -> list[str]:
    """The summary in words."""
    short = summary(graphs, dim)
    words = [
        f"In {dim} dimensions, the mean distortion is {percent(short.own)} with each client's own"
        f" curvature, {percent(short.common)} with the best common one"
        f" ({number(short.common_curvature, 3)}), and {percent(short.flat)} in flat space.",
        f"Curved, by a gain of more than {100 * GAIN:g} point over flat space: {short.curved} of"
        f" {short.graphs} graphs.",
    ]
    if short.at_the_end:
        words.append(
            f"The own curvature of {short.at_the_end} of {short.graphs} clients is the most"
            " negative that was tried, as for a tree."
        )
    if short.forman_rank is not None:
        words.append(
            "The rank correlation of the clients' mean Forman curvature and their own curvature"
            f" is {number(short.forman_rank, 2)}."
        )
    return words


def tables(graphs: Sequence[GraphCurvature], dimensions: Sequence[int]) -> list[Table]:
    """A row per client, and a row per client and number of dimensions."""
    graph_rows = []
    fit_rows = []
    fits = [graph.fits[dim] for graph in graphs for dim in dimensions]
    has_spherical = any(fit.spherical < fit.flat for fit in fits)
    for graph in graphs:
        texts = [
            number(graph.nodes),
            number(graph.diameter, 0),
            number(graph.forman, 2),
            number(graph.ollivier, 3),
            number(graph.delta, 3),
        ]
        graph_rows.append(([str(graph.client)], [Cell(text) for text in texts]))
        for dim in dimensions:
            client_fit = graph.fits[dim]
            errors = [client_fit.distortion, client_fit.flat]
            if has_spherical:
                errors.append(client_fit.spherical)
            texts = [number(client_fit.curvature, 3), *map(percent, errors)]
            fit_rows.append(([str(graph.client), str(dim)], [Cell(text) for text in texts]))
    measures = ["nodes", "diameter", "Forman", "Ollivier", "δ / mean distance"]
    errors_of = ["best curvature", "distortion", "flat"]
    fitted = max(graph.fitted_nodes for graph in graphs)
    legend = (
        "Distortion: Kruskal's stress, the root of Σ(d̂ − d)²/Σd² over the distances d and their"
        f" embedded ones d̂, of {fitted} nodes of the largest component at most; a local minimum of"
        f" it, at curvatures from −({LONGEST:g}/diameter)² to (π/diameter)². Forman curvature"
        " counts triangles. "
    )
    if has_spherical:
        errors_of.append("spherical")
        legend += "The spherical one is the least over curvatures from 0."
    else:
        legend += "No curvature above 0 has less distortion than 0 in any row."
    return [
        Table("", ["client"], measures, graph_rows, optional=measures),
        Table("", ["client", "dimensions"], errors_of, fit_rows, legend),
    ]


def write_page(
    graphs: Sequence[GraphCurvature], dimensions: Sequence[int], data: str, folder: Path
) -> Path:
    """Write `curvature.html` with the tables and a figure for each number of dimensions, and the
    summaries as `curvature.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
    words = []
    for dim in dimensions:
        words.append(" ".join(sentences(graphs, dim)))
        curves = [graph.fits[dim].curve for graph in graphs]
        points = [(graph.forman, graph.fits[dim].curvature) for graph in graphs]
        pictures.append(_draw(dim, curves, points, folder / f"curvature-{dim}"))
    title = f"Are the graphs of {data} curved?"
    page = Page(title, words, [], pictures, tables(graphs, dimensions))
    path = folder / "curvature.html"
    write_atomically(path, html_page(page).encode())
    summaries = {str(dim): asdict(summary(graphs, dim)) for dim in dimensions}
    text = json.dumps(summaries, indent=1)
    write_atomically(folder / "curvature.json", f"{text}\n".encode())
    return path


def _draw(
    dim: int,
    curves: Sequence[Mapping[float, float]],
    points: Sequence[tuple[float, float]],
    stem: Path,
) -> Picture:
    """Draw each client's distortion over the curvature, and its best curvature over its Forman
    curvature, and save the picture.

    Parameters
    ----------
    dim : int
        Number of dimensions.
    curves : sequence of N mappings
        Distortion by curvature.
    points : sequence of N (mean Forman curvature, best curvature)
    stem : Path
    """
    with style.applied():
        figure, (by_curvature, by_forman) = style.panels(2)
        for curve in curves:
            shares = [100 * error for error in curve.values()]
            by_curvature.plot([*curve], shares, color=style.CLIENT, linewidth=1.2)
        by_curvature.set_xscale("symlog", linthresh=0.01)
        ticks = (-10, -1, -0.1, -0.01, 0, 0.01, 0.1, 1)
        by_curvature.set_xticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
        by_curvature.axvline(0, color=style.SOFT, linewidth=1.2, linestyle=":")
        charts.name(by_curvature, "curvature", "distortion (%)")
        formans, best = zip(*points, strict=True)
        by_forman.plot(formans, best, "o", color=style.MEAN)
        by_forman.axhline(0, color=style.SOFT, linewidth=1.2, linestyle=":")
        charts.name(by_forman, "mean Forman curvature", "best curvature")
    title = f"The clients' graphs in {dim} dimensions"
    caption = (
        f"{title}. Left: a line per client; the lowest place is its best curvature. Right: a dot"
        " per client."
    )
    return Picture(figure, title, caption).saved(stem)
