"""Differentially private class moments: number, sum and products of the vectors of each class."""

import numpy as np

from curvfed.strategies.base.calibration import (
    Array,
    pack_symmetric,
    triangle_variances,
    unpack_symmetric,
)

FAINT = 3.0
"""A class whose number is below this many standard deviations of its noise counts as absent."""


def moment_variances(features: int, classes: int, reach: float) -> Array:
    """Variances of the noise on (classes, 1 + l + l(l + 1)/2) moments, for a noise multiplier of 1.

    A vector of length `reach` adds 1, its entries and their products to one class; each of the
    three has a third of the budget.
    """
    products = reach**4 * triangle_variances(features)
    row = np.concatenate([[1.0], np.full(features, reach**2), products])
    return np.tile(3 * row, (classes, 1))


def pool_products(moments: Array, features: int) -> Array:
    """The moments with the products of all classes in the row of the first, and none elsewhere."""
    pooled = moments.copy()
    split = 1 + features
    pooled[:, split:] = 0
    pooled[0, split:] = moments[:, split:].sum(axis=0)
    return pooled


def plausible_moments(
    noisy: Array, features: int, noise: float, reach: float, pooled: bool = False
) -> Array:
    """Moments that vectors of length `reach` can have, near the noisy ones.

    Numbers are whole, and 0 for classes that are lost in the noise; means are at most `reach` long;
    the eigenvalues of a scatter matrix are at least the largest of its noise, 2·√l standard
    deviations, for what is smaller is noise.

    Parameters
    ----------
    noisy : array (C, 1 + l + l(l + 1)/2)
    noise : float
        The root of the factor of `moment_variances` in the noise.
    pooled : bool
        Whether they are of `pool_products`; then all classes get the same covariance.
    """
    numbers = np.rint(noisy[:, 0])
    numbers[numbers < max(1.0, FAINT * noise * 3**0.5)] = 0
    means = noisy[:, 1 : 1 + features] / np.maximum(numbers, 1)[:, None]
    lengths = np.linalg.norm(means, axis=1)
    means *= np.minimum(1, reach / np.maximum(lengths, 1e-300))[:, None]
    means[numbers == 0] = 0
    products = numbers[:, None, None] * means[:, :, None] * means[:, None]
    raw = np.stack([unpack_symmetric(row, features) for row in noisy[:, 1 + features :]])
    floor = 2 * (features * 1.5) ** 0.5 * noise * reach**2
    if pooled:
        scatter = _at_least(raw[0] - products.sum(axis=0), floor)
        scatters = numbers[:, None, None] * scatter / max(numbers.sum(), 1)
    else:
        scatters = np.stack([_at_least(matrix, floor) for matrix in raw - products])
        scatters[numbers == 0] = 0
    packed = np.stack([pack_symmetric(matrix) for matrix in scatters + products])
    return np.concatenate([numbers[:, None], numbers[:, None] * means, packed], axis=1)


def _at_least(matrix: Array, floor: float) -> Array:
    """The symmetric matrix with its eigenvalues raised to the floor."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.maximum(values, floor) @ vectors.T)
