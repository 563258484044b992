"""Principal components of the clients' gene expression (Pearson, 1901) from one secure sum of first
and second moments.

Each client adds, over its cells, every gene's sum and the products of every two genes. The total
gives the components of all cells in one place, and no cell leaves a client. They are the reference
by which every client then embeds its cells.
"""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from curvfed.strategies.base.calibration import pack_symmetric, triangle, unpack_symmetric
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.keys import Table
from curvfed.strategies.base.method import ONE_SHOT, POINTS, Method
from curvfed.tasks.class_names import names_in
from curvfed.tasks.points.expression import MAX_LOGARITHM

Array = NDArray[np.float64]


class Keys(Table):
    """Keys of principal component analysis."""

    genes: str = Field(
        default="",
        description=(
            "names of 3 to 1,000 genes, comma-separated, which the file of every node must have; a"
            " client sends a number for each pair of them"
        ),
    )
    components: int = Field(default=30, ge=2, le=1000, description="maximum number of components")

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


def length(genes: int) -> int:
    """Length of a client's vector."""
    return genes + triangle(genes)


def moments(values: Array) -> Array:
    """Sums of expression (n, g) and of its products (upper triangle): one vector (`length`,)."""
    return np.concatenate([values.sum(axis=0), pack_symmetric(values.T @ values)])


def reference(
    total: Array, cells: int, genes: int, components: int
) -> tuple[dict[str, Array], float]:
    """Principal components of standardised expression, from the sum of all clients' moments.

    Returns
    -------
    arrays : dict
        "mean", "deviation" (g,); "axes" (g, c), by falling variance; and "variances" (c,) of the
        components. A gene that does not vary has deviation 1, and a direction in which no cell
        differs from another is no component.
    share : float
        The share of the variance that the components explain, over the genes that vary.
    """
    mean = total[:genes] / cells
    covariance = unpack_symmetric(total[genes:], genes) / cells - np.outer(mean, mean)
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


def principal(gram: Array, count: int) -> tuple[Array, Array]:
    """The largest eigenvalues (c,), descending, and axes (g, c), each with a positive largest
    entry, of a matrix (g, g)."""
    from scipy.linalg import eigh

    size = len(gram)
    values, axes = eigh(gram, subset_by_index=[size - min(count, size), size - 1])
    values = values[::-1]
    axes = axes[:, ::-1]
    return values, axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(len(values))])


METHODS = {
    "pca": Method(
        "principal components of gene expression from one secure sum, a reference to embed cells"
        " with",
        space="disc",
        aggregation=ONE_SHOT,
        tasks=POINTS,
        keys={"pca": Keys},
    ),
}
