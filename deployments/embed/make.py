"""A reference: genes, scaling, principal components and disc coordinates, from the reference's
cells alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from curvfed.geometry.hydra import hydra
from curvfed.geometry.poincare import dist, exp0, log0
from curvfed.strategies.methods.pca import principal
from curvfed.tasks.errors import DataError
from curvfed.tasks.points.expression import Expression

Floats = NDArray[np.float64]

GENES = 2000
COMPONENTS = 30
NEIGHBOURS = 15
MOST = 3000
"""Numbers of genes, of principal components, of neighbours of a cell in the graph, and of cells in
the graph."""

NEAREST = 15
"""Neighbours whose mean gives a cell's coordinates."""

LARGEST_Z = 10.0
"""Standardised expression is cut here, as is scanpy's custom."""

WITHIN = 0.99
"""The share of the reference's own cells that lie within its range."""

DIAMETERS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0)
"""The largest distance between two cells in the disc that are tried."""


def make_reference(given: Expression, name: str, tell: Callable[[str], None]) -> dict[str, Any]:
    """Make a reference: the coordinates of its cells, and all that other files need of it, by their
    places in an `.h5ad`.

    The disc coordinates are `hydra`'s, of the lengths of shortest paths in the graph of nearest
    neighbours among the principal components. Of the diameters tried the one with the least
    distortion is kept. Cells beyond `MOST` take the coordinates of their neighbours, as those of a
    site do.

    Raises
    ------
    DataError
        Fewer cells or varying genes than the graph needs.
    """
    genes, mean, deviation = _varying(given)
    count = given.values.shape[0]
    if len(genes) < 3 or count <= 2 * NEIGHBOURS:
        raise DataError(
            f"{name} has {count} cells and {len(genes)} genes that vary; allowed are more than"
            f" {2 * NEIGHBOURS} cells and at least 3 genes"
        )
    tell(f"principal components of {len(genes)} genes ...")
    scaled = standardised(given.dense(genes), mean, deviation)
    _, axes = principal(scaled.T @ scaled, min(COMPONENTS, len(scaled) - 1))
    components = scaled @ axes
    chosen = np.sort(np.random.default_rng(0).permutation(count)[:MOST])
    tell(f"shortest paths between {len(chosen)} cells, and their embedding ...")
    paths = path_lengths(components[chosen])
    points, diameter, error = _best(paths)
    placed = np.empty((count, 2))
    others = np.setdiff1d(np.arange(count), chosen)
    placed[chosen] = points
    if len(others):
        placed[others] = interpolated(components[chosen], points, components[others])
    kept = {
        "genes": np.array(genes, dtype=object),
        "mean": mean,
        "deviation": deviation,
        "axes": axes,
        "misfit": _largest_misfit(scaled, axes.shape[1]),
        "graph_cells": chosen,
        "scale": diameter / paths.max(),
        "distortion": error,
    }
    tell(
        f"distortion: {error:.3f} (mean |disc distance / graph distance - 1|), diameter"
        f" {diameter:g}"
    )
    return {"obsm/X_poincare": placed, "obsm/X_curvfed_pca": components, "uns/curvfed": kept}


def standardised(values: Floats, mean: Floats, deviation: Floats) -> Floats:
    """Expression (n, g) minus its mean, in standard deviations, cut at `LARGEST_Z`."""
    return np.clip((values - mean) / deviation, -LARGEST_Z, LARGEST_Z)


def misfit(scaled: Floats, axes: Floats) -> Floats:
    """Mean square (n,) over the genes of what components leave of standardised expression (n,
    g).
    """
    return np.asarray(np.square(scaled - scaled @ axes @ axes.T).mean(axis=1))


def _largest_misfit(scaled: Floats, count: int) -> float:
    """What `WITHIN` of cells stay below by the components of others: those of a fifth are left out
    in turn."""
    found = np.empty(len(scaled))
    fold = np.arange(len(scaled)) % 5
    for number in range(5):
        out = fold == number
        kept = scaled[~out]
        found[out] = misfit(scaled[out], principal(kept.T @ kept, count)[1])
    return float(np.quantile(found, WITHIN))


def path_lengths(components: Floats) -> Floats:
    """Lengths (n, n) of shortest paths along edges to the `NEIGHBOURS` nearest and of the minimum
    spanning tree.

    With the tree all cells are joined, however far apart groups of them are.
    """
    from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path
    from scipy.spatial.distance import cdist

    direct = np.maximum(cdist(components, components), 1e-9)  # 0 would be no edge
    np.fill_diagonal(direct, 0)
    tree = minimum_spanning_tree(direct).toarray()
    count = min(NEIGHBOURS, len(direct) - 1)
    near = np.argpartition(direct, count, axis=1)[:, : count + 1]
    rows = np.arange(len(direct))[:, None]
    tree[rows, near] = direct[rows, near]
    return np.asarray(shortest_path(tree, directed=False))


def interpolated(components: Floats, points: Floats, new: Floats) -> Floats:
    """Disc coordinates (m, 2) of cells with components `new`: the mean of log0 over the nearest of
    n known cells.

    Parameters
    ----------
    components, points : (n, c) and (n, 2)
    new : (m, c)
    """
    from sklearn.neighbors import KNeighborsRegressor

    def weights(near: Floats) -> Floats:
        """They fall with the distance, as a Gaussian whose width is that to the farthest of these
        neighbours."""
        return np.exp(-2 * (near / np.maximum(near[:, -1:], 1e-12)) ** 2)

    model = KNeighborsRegressor(min(NEAREST, len(components)), weights=weights)
    model.fit(components, log0(torch.from_numpy(points), -1.0).numpy())
    return exp0(torch.from_numpy(model.predict(new)), -1.0).numpy()


def distortion(points: Floats, paths: Floats, scale: float) -> float:
    """Mean |d(x, y) / (scale · path) − 1| over the pairs of points (n, 2) in the disc of curvature
    −1."""
    upper = np.triu_indices(len(points), 1)
    one, other = (torch.from_numpy(points[places]) for places in upper)
    return float(np.abs(dist(one, other, -1.0).numpy() / (scale * paths[upper]) - 1).mean())


def _best(paths: Floats) -> tuple[Floats, float, float]:
    tried = []
    for diameter in DIAMETERS:
        scale = diameter / paths.max()
        points = hydra(scale * paths)
        tried.append((distortion(points, paths, scale), diameter, points))
    error, diameter, points = min(tried, key=lambda one: one[:2])
    return points, diameter, error


def _varying(given: Expression) -> tuple[list[str], Floats, Floats]:
    """The `GENES` genes of largest variance, their means and their standard deviations."""
    values = given.values
    mean = np.asarray(values.mean(axis=0), dtype=np.float64).ravel()
    square = values.multiply(values) if hasattr(values, "toarray") else np.square(values)
    variance = np.asarray(square.mean(axis=0), dtype=np.float64).ravel() - mean**2
    chosen = np.argsort(-variance, kind="stable")[:GENES]
    chosen = np.sort(chosen[variance[chosen] > 1e-8])
    return [given.genes[place] for place in chosen], mean[chosen], np.sqrt(variance[chosen])
