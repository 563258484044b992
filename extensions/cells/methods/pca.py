"""Principal components of the clients' gene expression (Pearson, 1901) from one secure sum of first
and second moments.

Each client adds, over its cells, every gene's sum and the products of every two genes. The total
gives the components of all cells in one place, and no cell leaves a client. They are the reference
by which every client then embeds its cells.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from curvfed.extensions.cells.expression import MAX_LOGARITHM, ClientCells, client_cells
from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.keys import Table
from curvfed.strategies.base.method import POINTS, OneShot
from curvfed.strategies.base.moments import class_moments, gaussians, moments_length
from curvfed.strategies.base.one_shot import (
    Half,
    Model,
    OneShotClient,
    OneShotServer,
    Setting,
    Vectors,
)
from curvfed.strategies.base.statistics import Statistics, spread
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.class_names import names_in
from curvfed.tasks.errors import DataError


class Keys(Table):
    """Keys of principal component analysis."""

    genes: str = ""
    """names of 3 to 1,000 genes, comma-separated, which the file of every node must have; a client
    sends a number for each pair of them"""
    components: int = Field(default=30, ge=2, le=1000)
    """maximum number of components"""

    @property
    def names(self) -> list[str]:
        """The genes.

        Raises
        ------
        ConfigError
            If there are too few or too many, or one is named twice.
        """
        try:
            names = names_in(self.genes)
        except ValueError as error:
            raise ConfigError(f"pca.genes: {error}", key="genes") from None
        if not 3 <= len(set(names)) == len(names) <= 1000:
            raise ConfigError(
                f"pca.genes has {len(names)} names, {len(set(names))} of them different; allowed"
                " are 3 to 1,000 genes, each once",
                key="genes",
            )
        return names


BOUND = MAX_LOGARITHM**2
"""Maximum that one cell adds to an entry of the sums."""

LEAST_VARIANCE = 1e-8
"""Bound on the rounding error in the variance of a constant gene or direction."""


def moments(values: Floats) -> Floats:
    """Sums of expression (n, g) and of its products (upper triangle): a row of moments without the
    number of cells."""
    row: Floats = class_moments(values, np.zeros(len(values), np.int64), 1)[0, 1:]
    return row


def reference(total: Floats, cells: int, components: int) -> tuple[dict[str, Floats], float]:
    """Principal components of standardised expression, from the sum of all clients' moments.

    Returns
    -------
    arrays : dict
        "mean", "deviation" (g,); "axes" (g, c), by falling variance; and "variances" (c,) of the
        components. A gene that does not vary has deviation 1, and a direction in which no cell
        differs from another is not a component.
    share : float
        The share of the variance that the components explain, over the genes that vary.
    """
    _, mean, scatter = gaussians(np.concatenate([[cells], total]))
    covariance = scatter / cells
    variance = np.diagonal(covariance)
    deviation = np.sqrt(np.where(variance > LEAST_VARIANCE, variance, 1))
    correlation = covariance / np.outer(deviation, deviation)
    variances, axes = principal(correlation, min(components, cells - 1))
    varies = variances > LEAST_VARIANCE
    arrays = {
        "mean": mean,
        "deviation": deviation,
        "axes": axes[:, varies],
        "variances": variances[varies],
    }
    return arrays, float(variances[varies].sum() / np.trace(correlation))


def principal(gram: Floats, count: int) -> tuple[Floats, Floats]:
    """The largest eigenvalues (c,), descending, and axes (g, c), each with a positive largest
    entry, of a matrix (g, g)."""
    from scipy.linalg import eigh

    size = len(gram)
    values, axes = eigh(gram, subset_by_index=[size - min(count, size), size - 1])
    values = values[::-1]
    axes = axes[:, ::-1]
    largest_entries = axes[np.abs(axes).argmax(axis=0), np.arange(len(values))]
    return values, axes * np.sign(largest_entries)


class MomentsOfCells(Half):
    """The facts about a client's vector that both halves know."""

    def vectors(self, clients: int) -> Vectors:
        """Vectors of real numbers."""
        return Vectors(moments_length(len(self.keys.names)) - 1, BOUND)


class PcaClient(MomentsOfCells, OneShotClient):
    """The client's half: moments of the cells' expression."""

    @classmethod
    def read_data(cls, path: Path, keys: Any) -> ClientCells:
        """The expression of the run's genes in a node's own file."""
        return client_cells(path, keys.names)

    def contribution(self, clients: int, order_numbers: Mapping[int, bytes]) -> Statistics:
        """The moments, and the number of cells."""
        data = self.site.data
        if not isinstance(data, ClientCells):
            raise DataError(
                "the data are not cells with their expression; allowed is an .h5ad of the node's"
                " own (data-path)",
                key="not-cells",
            )
        values = data.values[spread(len(data.values), self.site.leaving.max_examples)]
        return Statistics({"sums": moments(values)}, len(values))


class PcaServer(MomentsOfCells, OneShotServer):
    """The server's half: the reference; there is nothing to score."""

    summands = "moments"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        _ = self.keys.names  # refuses impossible names

    def learn(self, total: Statistics) -> Model:
        """The reference."""
        moments_of_all = total.arrays["sums"]
        arrays, share = reference(moments_of_all, total.weight, self.keys.components)
        count = len(arrays["variances"])
        if count < 2:
            raise DataError(
                f"the {total.weight} cells differ in {count} directions of pca.genes; a map needs"
                " at least 2",
                key="too-few-directions",
            )
        return Model(arrays, {"components": count, "variance_share": share})


METHODS = {
    "pca": OneShot(
        "principal components of gene expression from one secure sum, a reference to embed cells"
        " with",
        space="flat",
        client="curvfed.extensions.cells.methods.pca:PcaClient",
        server="curvfed.extensions.cells.methods.pca:PcaServer",
        tasks=POINTS,
        keys={"pca": Keys},
        phase="moments",
    ),
}
