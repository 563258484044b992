"""How well distances fit a space of constant curvature: embeddings in closed form, and the
curvature of least distortion."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import pdist

from curvfed.geometry import poincare
from curvfed.geometry.arrays import Floats
from curvfed.geometry.hydra import LONGEST, hydra

GRID = np.geomspace(1e-3, 30, 10)
"""Absolute curvatures of the search, for distances whose unit is that of a graph's edge."""

PRECISION = 0.05
"""Of the logarithm of the best curvature."""


@dataclass(frozen=True)
class Fit:
    """The fit of distances in one number of dimensions.

    Attributes
    ----------
    curvature : float
        The curvature of least distortion; 0 if no curved space fits better than flat space.
    distortion : float
        At that curvature.
    hyperbolic, flat, spherical : float
        The least distortion over negative curvatures, in flat space, and over positive ones.
    curve : dict of float to float
        The distortion by curvature, on the grid of the search.
    """

    curvature: float
    distortion: float
    hyperbolic: float
    flat: float
    spherical: float
    curve: dict[float, float]


def distortion(distances: ArrayLike, dim: int, curvature: float) -> float:
    """The mean absolute error of embedded distances over the mean distance.

    Negative curvature: `hydra`; 0: classical scaling, with the common factor of least squares,
    since flat space has no unit of length; positive: spherical scaling.

    Parameters
    ----------
    distances : array-like, (n, n)
        As `hydra` takes them.
    dim : int
        From 1 to n − 1.
    curvature : float

    Returns
    -------
    float
        At least 0; infinite if the distances do not fit into the space: longer than half a great
        circle, or too long for `hydra`.

    Examples
    --------
    >>> triangle = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    >>> round(distortion(triangle, dim=2, curvature=0.0), 6)
    0.0
    """
    matrix = np.asarray(distances, np.float64)
    above = np.triu_indices(len(matrix), 1)
    pairs = matrix[above]
    if abs(curvature) > largest_curvature(pairs, curvature):
        return math.inf
    if curvature < 0:
        points = torch.from_numpy(hydra(matrix, dim, curvature))
        embedded = poincare.cdist(points, points, curvature).numpy()[above]
    elif curvature > 0:
        cosines = _sphere(matrix, dim, curvature)
        embedded = np.arccos(cosines[above]) / math.sqrt(curvature)
    else:
        embedded = pdist(_classical_scaling(matrix, dim))
        embedded = embedded * (embedded @ pairs / max(embedded @ embedded, 1e-300))
    return float(np.abs(embedded - pairs).mean() / pairs.mean())


def largest_curvature(distances: ArrayLike, sign: float) -> float:
    """The largest absolute curvature of this sign whose space has room for these distances."""
    reach = LONGEST if sign < 0 else math.pi
    return (reach / float(np.max(distances))) ** 2 * (1 - 1e-9)  # the root may be rounded up


def fit(distances: ArrayLike, dim: int) -> Fit:
    """The curvature of least distortion of these distances.

    Parameters
    ----------
    distances : array-like, (n, n)
        As `hydra` takes them.
    dim : int
        From 1 to n − 1.
    """
    flat = distortion(distances, dim, 0.0)
    curve = {0.0: flat}
    best = {}
    for sign in (-1.0, 1.0):
        sizes = _sizes(distances, sign)
        errors = [distortion(distances, dim, sign * size) for size in sizes]
        for size, error in zip(sizes, errors, strict=True):
            if math.isfinite(error):
                curve[sign * size] = error
        place = int(np.argmin(errors))
        best[sign] = (sign * sizes[place], errors[place])
        if errors[place] < flat:
            bounds = (sizes[max(place - 1, 0)], sizes[min(place + 1, len(sizes) - 1)])
            best[sign] = _refined(distances, dim, sign, bounds, best[sign])
    candidates = {0.0: flat} | dict(best.values())
    curvature = min(candidates, key=candidates.__getitem__)
    return Fit(
        curvature=curvature,
        distortion=candidates[curvature],
        hyperbolic=best[-1.0][1],
        flat=flat,
        spherical=best[1.0][1],
        curve=dict(sorted(curve.items())),
    )


def _sizes(distances: ArrayLike, sign: float) -> list[float]:
    """The absolute curvatures of the search that leave room for the distances, and the largest
    one that does."""
    largest = largest_curvature(distances, sign)
    return [*(size for size in GRID.tolist() if size < largest), min(largest, GRID[-1])]


def _refined(
    distances: ArrayLike,
    dim: int,
    sign: float,
    bounds: tuple[float, float],
    start: tuple[float, float],
) -> tuple[float, float]:
    """The best curvature of one sign between bounds, and its distortion; `start` if none is
    better."""
    optimum = minimize_scalar(
        lambda log_size: distortion(distances, dim, sign * math.exp(log_size)),
        bounds=[math.log(bound) for bound in bounds],
        method="bounded",
        options={"xatol": PRECISION},
    )
    if not optimum.fun < start[1]:
        return start
    return sign * math.exp(optimum.x), float(optimum.fun)


def hyperbolicity(distances: ArrayLike, samples: int, seed: int = 0) -> tuple[float, float]:
    """Gromov's δ by the condition on four points: half the difference of the two largest of the
    three sums of opposite distances; 0 in a tree.

    Parameters
    ----------
    distances : array-like, (n, n)
    samples : int
        Number of quadruples, drawn uniformly.
    seed : int

    Returns
    -------
    mean, largest : float
        Over the quadruples; the largest is a lower bound on that of all.

    Examples
    --------
    >>> path = [[0, 1, 2, 3], [1, 0, 1, 2], [2, 1, 0, 1], [3, 2, 1, 0]]
    >>> hyperbolicity(path, samples=10)
    (0.0, 0.0)
    """
    matrix = np.asarray(distances, np.float64)
    a, b, c, d = np.random.default_rng(seed).integers(len(matrix), size=(4, samples))
    first = matrix[a, b] + matrix[c, d]
    second = matrix[a, c] + matrix[b, d]
    third = matrix[a, d] + matrix[b, c]
    sums = np.stack([first, second, third])
    sums.sort(axis=0)
    deltas = (sums[2] - sums[1]) / 2
    return float(deltas.mean()), float(deltas.max())


def _classical_scaling(matrix: Floats, dim: int) -> Floats:
    """Points (n, dim) of flat space from the largest eigenvalues of the centred Gram matrix."""
    squares = matrix**2
    rows = squares.mean(axis=1)
    gram = -(squares - rows[:, None] - rows + squares.mean()) / 2
    values, vectors = eigh(gram, subset_by_index=[len(matrix) - dim, len(matrix) - 1])
    return vectors * np.sqrt(np.maximum(values, 0))


def _sphere(matrix: Floats, dim: int, curvature: float) -> Floats:
    """Cosines (n, n) of unit vectors in dim + 1 dimensions, from the largest eigenvalues of the
    cosines of the distances."""
    cosines = np.cos(math.sqrt(curvature) * matrix)
    last = len(matrix) - 1
    values, vectors = eigh(cosines, subset_by_index=[max(last - dim, 0), last])
    points = vectors * np.sqrt(np.maximum(values, 0))
    lengths = np.linalg.norm(points, axis=1)
    unit = points / np.where(lengths > 0, lengths, 1)[:, None]
    return np.clip(unit @ unit.T, -1, 1)
