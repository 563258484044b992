"""Points of hyperbolic space from their distances, in closed form."""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh

from curvfed.geometry.arrays import Floats

LONGEST = 300.0
"""The largest √|curvature|·distance: products of two hyperbolic cosines stay below the largest
float64."""


def hydra(distances: ArrayLike, dim: int = 2, curvature: float = -1.0) -> Floats:
    """Embed a matrix of distances in the Poincaré ball (strain-minimising hyperbolic embedding).

    Keller-Ressel and Nargang 2020, "Hydra: a method for strain-minimizing hyperbolic embedding of
    network- and distance-based data", algorithm 1: the matrix A = cosh(√|curvature|·D) of points of
    the hyperboloid is x₀x₀ᵀ − XXᵀ. The eigenvector of its largest eigenvalue gives x₀, those of the
    `dim` smallest eigenvalues give X. Distances between points of this space are recovered up to
    rounding, the points up to isometry.

    Parameters
    ----------
    distances : array-like, (n, n)
        Symmetric, finite, at least 0, with 0 on the diagonal; n > dim.
    dim : int
        At least 1.
    curvature : float
        Negative.

    Returns
    -------
    (n, dim), float64
        Inside the ball of radius 1/√|curvature|.

    Raises
    ------
    ValueError
        If the matrix, dimension or curvature is not as above, or a distance exceeds
        `LONGEST`/√|curvature|.

    Examples
    --------
    >>> points = hydra([[0, 1, 2], [1, 0, 1], [2, 1, 0]], dim=1)
    >>> [round(float(x), 4) for x in sorted(points[:, 0] / points[:, 0].max())]
    [-1.0, 0.0, 1.0]
    """
    matrix = np.asarray(distances, dtype=np.float64)
    if not -math.inf < curvature < 0:
        raise ValueError(f"curvature is {curvature}; allowed is below 0 and finite")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not 1 <= dim < len(matrix):
        raise ValueError(
            f"distances have shape {matrix.shape} for dim {dim}; allowed is (n, n) with n above"
            " dim, dim ≥ 1"
        )
    scaled = math.sqrt(-curvature) * matrix
    is_positive = np.isfinite(matrix).all() and (matrix >= 0).all()
    if not is_positive or matrix.diagonal().any() or not np.allclose(matrix, matrix.T):
        raise ValueError(
            "distances are no distances; allowed are finite, symmetric, at least 0, and 0 on the"
            " diagonal"
        )
    if scaled.max() > LONGEST:
        raise ValueError(
            f"the largest √|curvature|·distance is {scaled.max():.4g}; allowed is at most"
            f" {LONGEST:g}"
        )
    gram = np.cosh(scaled)
    last = len(matrix) - 1
    largest, first = eigh(gram, subset_by_index=[last, last])
    smallest, space_vectors = eigh(gram, subset_by_index=[0, dim - 1])
    time = np.abs(first[:, 0]) * math.sqrt(largest[0])  # Perron: all of one sign
    space = space_vectors * np.sqrt(np.maximum(-smallest, 0))
    # Distances that fit no hyperbolic space give points off the hyperboloid; the radius then
    # follows from the time alone.
    nearest = min(1.0, float(time.min()))
    total = time + nearest
    # Distances near the longest leave points with time 0 in float64: they lie at the origin.
    radius = np.sqrt((time - nearest) / np.where(total > 0, total, 1))
    length = np.linalg.norm(space, axis=1)
    unit = space / np.where(length > 0, length, 1)[:, None]
    inside = np.minimum(radius, 1 - 1e-12)
    return unit * inside[:, None] / math.sqrt(-curvature)
