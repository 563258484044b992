"""First and second moments of vectors by class, as sums over examples: a server adds those of its
clients.

A vector z counts as (1, z), so that Σ (1, z)(1, z)ᵀ contains the number of vectors, their sum and
their products. Its upper triangle by rows has them in this order: a row of moments.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from curvfed.geometry.arrays import Floats, Indices
from curvfed.strategies.base.calibration import CalibrationError

SLACK = 1 + 1e-9
"""Factor that allows for rounding of sums in float64."""

FAINT = 3.0
"""A class with a number below this many standard deviations of its noise counts as absent."""


def moments_length(features: int) -> int:
    """Length of a row of moments of vectors in l dimensions: 1 + l + l(l + 1)/2."""
    return triangle(1 + features)


def class_moments(vectors: ArrayLike, labels: ArrayLike, classes: int) -> Floats:
    """The moments of each class, (C, 1 + l + l(l + 1)/2).

    Parameters
    ----------
    vectors : array (n, l)
        Array, or tensor on the CPU without gradient.
    labels : array of integers (n,)
        0 to C − 1.
    classes : int

    Examples
    --------
    >>> class_moments([[2.0, 3.0]], [1], 2)
    array([[0., 0., 0., 0., 0., 0.],
           [1., 2., 3., 4., 6., 9.]])
    """
    z = np.asarray(vectors, np.float64)
    y = np.asarray(labels)
    affine = np.hstack([np.ones((len(z), 1)), z])
    rows = np.zeros((classes, moments_length(z.shape[1])))
    for label in np.unique(y):
        of_class = affine[y == label]
        rows[label] = pack_symmetric(of_class.T @ of_class)
    return rows


def features_of(rows: Floats) -> int:
    """The dimension l of the vectors, from rows of moments."""
    return math.isqrt(2 * rows.shape[-1]) - 1


def gaussians(rows: Floats) -> tuple[Floats, Floats, Floats]:
    """Numbers (…,), means (…, l) and scatter matrices Σ (z − mean)(z − mean)ᵀ (…, l, l) by rows of
    moments.

    The numbers are rounded to whole ones. The mean of no vectors is 0. A scatter matrix is a
    difference of moments; its error is a few eps times the number times the square of the mean.
    """
    moments = unpack_symmetric(rows, 1 + features_of(rows))
    numbers = np.rint(moments[..., 0, 0])
    means = moments[..., 0, 1:] / np.maximum(numbers, 1)[..., None]
    products = numbers[..., None, None] * means[..., :, None] * means[..., None, :]
    return numbers, means, moments[..., 1:, 1:] - products


def check_products(products: Floats, noise: float = 0.0) -> None:
    """Refuse a matrix that is not a sum of z zᵀ: negative squares, or products that violate
    Cauchy-Schwarz.

    `noise` is a bound on the absolute error of the entries.

    Raises
    ------
    CalibrationError
    """
    squares = products.diagonal() + noise
    if (squares < 0).any():
        raise CalibrationError("sums with a negative sum of squares", key="negative-squares")
    lengths = np.sqrt(squares)
    if (np.abs(products) > np.outer(lengths, lengths) * SLACK + noise).any():
        raise CalibrationError(
            "sums of products that are larger than their squares allow", key="products-too-large"
        )


def check_vector(vector: Floats, expected: int) -> None:
    """Refuse anything but a finite float64 vector of the expected length.

    Raises
    ------
    CalibrationError
    """
    if vector.shape != (expected,) or vector.dtype != np.float64:
        raise CalibrationError(
            f"sums are {vector.dtype}{list(vector.shape)}, expected float64[{expected}]",
            key="shape",
        )
    if not np.isfinite(vector).all():
        raise CalibrationError("sums that are not finite", key="not-finite")


def triangle(size: int) -> int:
    """Number of entries of a packed symmetric matrix."""
    return size * (size + 1) // 2


def pack_symmetric(matrix: Floats) -> Floats:
    """The upper triangle of (…, l, l) by rows."""
    rows, columns = _upper(matrix.shape[-1])
    return matrix[..., rows, columns]


def unpack_symmetric(packed: Floats, size: int) -> Floats:
    """Inverse of `pack_symmetric`."""
    rows, columns = _upper(size)
    matrix = np.zeros((*packed.shape[:-1], size, size))
    matrix[..., rows, columns] = packed
    matrix[..., columns, rows] = packed
    return matrix


@lru_cache(maxsize=4)
def _upper(size: int) -> tuple[Indices, Indices]:
    return np.triu_indices(size)  # cached: takes longer than using them


def triangle_variances(features: int) -> Floats:
    """Variances for the products of an example of length 1, packed: 1 for squares, 1/2 for the
    others, which each stand for two entries of the matrix."""
    return pack_symmetric((1 + np.eye(features)) / 2)


def moment_variances(features: int, classes: int, reach: float) -> Floats:
    """Variances of the noise on `class_moments`, for a noise multiplier of 1.

    A vector of length `reach` adds 1, its entries and their products to one class; each of the
    three has a third of the budget.
    """
    products = reach**4 * triangle_variances(features)
    row = np.concatenate([[1.0], np.full(features, reach**2), products])
    return np.tile(3 * row, (classes, 1))


def plausible_moments(noisy: Floats, noise: float, reach: float, pooled: bool = False) -> Floats:
    """Moments that vectors of length `reach` can have, near the noisy ones.

    Numbers are whole, and 0 for classes that are lost in the noise; means are at most `reach` long;
    the eigenvalues of a scatter matrix are at least the largest of its noise, 2·√l standard
    deviations, since smaller ones are noise.

    Parameters
    ----------
    noisy : array (C, 1 + l + l(l + 1)/2)
    noise : float
        The root of the factor of `moment_variances` in the noise.
    pooled : bool
        Whether the products of all classes are in the row of the first; then all classes get the
        same covariance.
    """
    features = features_of(noisy)
    numbers = np.rint(noisy[:, 0])
    numbers[numbers < max(1.0, FAINT * noise * 3**0.5)] = 0
    means = noisy[:, 1 : 1 + features] / np.maximum(numbers, 1)[:, None]
    lengths = np.linalg.norm(means, axis=1)
    means *= np.minimum(1, reach / np.maximum(lengths, 1e-300))[:, None]
    means[numbers == 0] = 0
    products = numbers[:, None, None] * means[:, :, None] * means[:, None]
    raw = unpack_symmetric(noisy[:, 1 + features :], features)
    floor = 2 * (features * 1.5) ** 0.5 * noise * reach**2
    if pooled:
        scatter = at_least(raw[0] - products.sum(axis=0), floor)
        scatters = numbers[:, None, None] * scatter / max(numbers.sum(), 1)
    else:
        scatters = np.stack([at_least(matrix, floor) for matrix in raw - products])
        scatters[numbers == 0] = 0
    packed = pack_symmetric(scatters + products)
    return np.concatenate([numbers[:, None], numbers[:, None] * means, packed], axis=1)


def at_least(matrix: Floats, floor: float) -> Floats:
    """The symmetric matrix with its eigenvalues raised to the floor."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.maximum(values, floor) @ vectors.T
