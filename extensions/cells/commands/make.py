"""Make a reference: genes, scaling, principal components and disc coordinates of its own cells."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from curvfed.extensions.cells.expression import Expression
from curvfed.extensions.cells.hydra import hydra
from curvfed.extensions.cells.methods.pca import principal
from curvfed.geometry.arrays import Floats
from curvfed.geometry.poincare import dist, exp0, log0
from curvfed.tasks.errors import DataError

GENES = 2000
COMPONENTS = 30
NEIGHBOURS = 15
GRAPH_CELLS = 3000
"""Maximum numbers of genes, of principal components, of neighbours of a cell in the graph, and of
cells in the graph."""

NEAREST = 15
"""Number of neighbours; a cell's coordinates are their mean."""

LARGEST_Z = 10.0
"""Standardised expression is clipped here, as in scanpy."""

WITHIN = 0.99
"""Share of the reference's own cells within its range."""

DIAMETERS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0)
"""Candidates for the largest distance between two cells in the disc."""


def make_reference(
    expression: Expression, name: str, report: Callable[[str], None]
) -> dict[str, Any]:
    """Make a reference: the coordinates of its cells, and the values that other files need, by
    their places in an `.h5ad`.

    `hydra` gives the disc coordinates from the lengths of shortest paths in the graph of nearest
    neighbours by principal components. The diameter is the candidate with the least distortion.
    Cells beyond `GRAPH_CELLS` get their coordinates from their neighbours, as cells of a site do.

    Raises
    ------
    DataError
        If there are too few cells or varying genes.
    """
    genes, mean, deviation = _variable_genes(expression)
    count = expression.values.shape[0]
    if len(genes) < 3 or count <= 2 * NEIGHBOURS:
        raise DataError(
            f"{name} has {count} cells and {len(genes)} genes that vary; allowed are more than"
            f" {2 * NEIGHBOURS} cells and at least 3 genes",
            key="few-cells",
        )
    report(f"principal components of {len(genes)} genes ...")
    scaled = standardised(expression.dense(genes), mean, deviation)
    _, axes = principal(scaled.T @ scaled, min(COMPONENTS, len(scaled) - 1))
    components = scaled @ axes
    shuffled = np.random.default_rng(0).permutation(count)
    chosen = np.sort(shuffled[:GRAPH_CELLS])
    report(f"shortest paths between {len(chosen)} cells, and their embedding ...")
    paths = path_lengths(components[chosen])
    points, diameter, error = _embed_paths(paths)
    coordinates = np.empty((count, 2))
    coordinates[chosen] = points
    remaining = np.setdiff1d(np.arange(count), chosen)
    if len(remaining):
        coordinates[remaining] = interpolated(components[chosen], points, components[remaining])
    reference = {
        "genes": np.array(genes, dtype=object),
        "mean": mean,
        "deviation": deviation,
        "axes": axes,
        "misfit": _largest_misfit(scaled, axes.shape[1]),
        "graph_cells": chosen,
        "scale": diameter / paths.max(),
        "distortion": error,
    }
    report(
        f"distortion: {error:.3f} (mean |disc distance / graph distance - 1|), diameter"
        f" {diameter:g}"
    )
    return {
        "obsm/X_poincare": coordinates,
        "obsm/X_curvfed_pca": components,
        "uns/curvfed": reference,
    }


def standardised(values: Floats, mean: Floats, deviation: Floats) -> Floats:
    """Expression (n, g) minus its mean, in standard deviations, clipped at `LARGEST_Z`."""
    return np.clip((values - mean) / deviation, -LARGEST_Z, LARGEST_Z)


def misfit(scaled: Floats, axes: Floats) -> Floats:
    """Mean square (n,) over the genes of the residual of standardised expression (n, g)."""
    return np.square(scaled - scaled @ axes @ axes.T).mean(axis=1)


def _largest_misfit(scaled: Floats, count: int) -> float:
    """The misfit that a share `WITHIN` of the cells stays below, by five-fold cross-validation."""
    misfits = np.empty(len(scaled))
    fold = np.arange(len(scaled)) % 5
    for number in range(5):
        is_out = fold == number
        training = scaled[~is_out]
        misfits[is_out] = misfit(scaled[is_out], principal(training.T @ training, count)[1])
    return float(np.quantile(misfits, WITHIN))


def path_lengths(components: Floats) -> Floats:
    """Lengths (n, n) of shortest paths along edges to the `NEIGHBOURS` nearest cells and of the
    minimum spanning tree, which connects all cells."""
    from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path
    from scipy.spatial.distance import cdist

    direct = np.maximum(cdist(components, components), 1e-9)  # 0 means no edge
    np.fill_diagonal(direct, 0)
    tree = minimum_spanning_tree(direct).toarray()
    count = min(NEIGHBOURS, len(direct) - 1)
    near = np.argpartition(direct, count, axis=1)[:, : count + 1]
    rows = np.arange(len(direct))[:, None]
    tree[rows, near] = direct[rows, near]
    return shortest_path(tree, directed=False)


def distortion(points: Floats, paths: Floats, scale: float) -> float:
    """Mean |d(x, y) / (scale · path) − 1| over the pairs of points (n, 2) in the disc of curvature
    −1."""
    upper = np.triu_indices(len(points), 1)
    first, second = (torch.from_numpy(points[indices]) for indices in upper)
    ratios = dist(first, second, -1.0).numpy() / (scale * paths[upper])
    return float(np.abs(ratios - 1).mean())


def interpolated(components: Floats, points: Floats, new: Floats) -> Floats:
    """Disc coordinates (m, 2) of cells with components `new`: the mean of log0 over the nearest of
    n cells.

    Parameters
    ----------
    components, points : (n, c) and (n, 2)
    new : (m, c)
    """
    from sklearn.neighbors import KNeighborsRegressor

    def weights(near: Floats) -> Floats:
        """Gaussian weights; the width is the distance to the farthest neighbour."""
        relative = near / np.maximum(near[:, -1:], 1e-12)
        return np.exp(-2 * relative**2)

    model = KNeighborsRegressor(min(NEAREST, len(components)), weights=weights)
    model.fit(components, log0(torch.from_numpy(points), -1.0).numpy())
    return exp0(torch.from_numpy(model.predict(new)), -1.0).numpy()


def _embed_paths(paths: Floats) -> tuple[Floats, float, float]:
    """The points, the diameter and the distortion of the best embedding."""
    candidates = []
    for diameter in DIAMETERS:
        scale = diameter / paths.max()
        points = hydra(scale * paths)
        candidates.append((distortion(points, paths, scale), diameter, points))
    error, diameter, points = min(candidates, key=lambda candidate: candidate[:2])
    return points, diameter, error


def _variable_genes(expression: Expression) -> tuple[list[str], Floats, Floats]:
    """The `GENES` genes of largest variance, their means and their standard deviations."""
    values = expression.values
    mean = np.asarray(values.mean(axis=0), dtype=np.float64).ravel()
    square = values.multiply(values) if hasattr(values, "toarray") else np.square(values)
    mean_square = np.asarray(square.mean(axis=0), dtype=np.float64).ravel()
    variance = mean_square - mean**2
    chosen = np.argsort(-variance, kind="stable")[:GENES]
    chosen = np.sort(chosen[variance[chosen] > 1e-8])
    return [expression.genes[place] for place in chosen], mean[chosen], np.sqrt(variance[chosen])
