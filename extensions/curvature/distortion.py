"""How well distances fit a space of constant curvature: embeddings of least stress, by one solver
for all curvatures, and the curvature of least distortion."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.optimize import minimize, minimize_scalar
from scipy.spatial.distance import pdist, squareform

from curvfed.geometry.arrays import Floats
from curvfed.geometry.one_thread import one_thread

_SIZES = 2.0 ** np.arange(-10, 5)
GRID = np.concatenate([-_SIZES[::-1], [0.0], _SIZES])
"""Curvatures of the search; the unit of distance is a graph's edge."""

PRECISION = 0.05
"""Relative precision of the best curvature."""

LONGEST = 16.0
"""The largest √|κ|·distance at a negative curvature κ. Points at the rim of the space differ in
direction by e^(−√|κ|·radius): beyond this limit descents end far above the least stress."""

RESOLUTION = 0.001
"""Distortions within .1 points count as equal: other starts change them by as much."""

_EXACT = {"ftol": 1e-12, "maxiter": 3000}
_SEARCH = {"ftol": 3e-5, "maxiter": 100}
"""Ends of a descent alone, and of a descent from a neighbour in the search."""

_FUNCTIONS: dict[float, tuple[Any, Any, Any]] = {
    -1.0: (np.sinh, np.cosh, np.arcsinh),
    0.0: (np.positive, np.ones_like, np.positive),
    1.0: (np.sin, np.cos, np.arcsin),
}
"""Sine, cosine and arc sine by the sign of the curvature."""


@dataclass(frozen=True)
class Fit:
    """The fit of distances in one number of dimensions.

    Attributes
    ----------
    curvature : float
        The curvature of least distortion; 0 if it gains less than `RESOLUTION` over flat space.
    distortion : float
        At that curvature.
    hyperbolic, flat, spherical : float
        The least distortion over curvatures up to 0, at 0, and over curvatures from 0.
    curve : dict of float to float
        The distortion by curvature in the search, in ascending order.
    """

    curvature: float
    distortion: float
    hyperbolic: float
    flat: float
    spherical: float
    curve: dict[float, float]


def distortion(distances: ArrayLike, dim: int, curvature: float) -> float:
    """The least stress of an embedding, √(Σ(d̂ − d)²/Σd²) over all pairs, d̂ the embedded distances.

    This is Kruskal's stress-1 (Psychometrika 1964). It is continuous in the curvature: the starts
    of the descents are the same for all curvatures, and `stress` is analytic in it.

    Parameters
    ----------
    distances : array-like, (n, n)
        Symmetric, finite, at least 0, with 0 on the diagonal; n > dim.
    dim : int
        From 1 to n − 1.
    curvature : float

    Returns
    -------
    float
        From 0 to 1; infinite if the distances do not fit into the space: longer than half a great
        circle, or than `LONGEST`/√|curvature|. The lower of the local minima that descents from
        classical and from spherical scaling reach.

    Examples
    --------
    >>> triangle = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    >>> round(distortion(triangle, dim=2, curvature=0.0), 6)
    0.0
    """
    matrix = np.asarray(distances, np.float64)
    low, high = curvature_range(matrix)
    if not low <= curvature <= high:
        return math.inf
    with one_thread():
        return _descend(_starts(matrix, dim), matrix, curvature, _EXACT)[0]


def curvature_range(distances: ArrayLike) -> tuple[float, float]:
    """The least and the largest curvature of spaces with room for these distances."""
    unit = (1 - 1e-9) / float(np.max(distances)) ** 2  # the root may be rounded up
    return -(LONGEST**2) * unit, math.pi**2 * unit


def fit(distances: ArrayLike, dim: int) -> Fit:
    """The curvature of least distortion of these distances.

    The search goes from the largest curvature to the least and back. Each descent starts from the
    embedding at its neighbour, to keep the curve free of steps. The starts of `distortion` enter at
    the largest curvature and at 0.

    Parameters
    ----------
    distances : array-like, (n, n)
        As `distortion` takes them.
    dim : int
        From 1 to n − 1.
    """
    with one_thread():
        curve = _curve(np.asarray(distances, np.float64), dim)
    flat = curve[0.0]
    best = min(curve, key=curve.__getitem__)
    if flat - curve[best] < RESOLUTION:
        best = 0.0
    return Fit(
        curvature=best,
        distortion=curve[best],
        hyperbolic=min(error for curvature, error in curve.items() if curvature <= 0),
        flat=flat,
        spherical=min(error for curvature, error in curve.items() if curvature >= 0),
        curve=dict(sorted(curve.items())),
    )


def _curve(matrix: Floats, dim: int) -> dict[float, float]:
    """The distortion by curvature, on the grid and at the best curvature."""
    low, high = curvature_range(matrix)
    curvatures = [low, *GRID[(low < GRID) & (high > GRID)].tolist(), high]
    points: dict[float, list[Floats]] = {curvature: [] for curvature in curvatures}
    points[0.0] = points[high] = _starts(matrix, dim)
    neighbour: list[Floats] = []
    curve = {}
    for curvature in [*reversed(curvatures), *curvatures]:
        starts = [*points[curvature], *neighbour]
        curve[curvature], embedding = _descend(starts, matrix, curvature, _SEARCH)
        if not curvature:
            embedding -= embedding.mean(axis=0)  # far from the origin, directions are close
        points[curvature] = neighbour = [embedding]
    best = min(curve, key=curve.__getitem__)
    if best:
        neighbours = np.clip([best / 2, 2 * best], low, high)
        optimum = minimize_scalar(
            lambda curvature: _descend(points[best], matrix, curvature, _SEARCH)[0],
            bounds=sorted(neighbours),
            options={"xatol": PRECISION * abs(best)},
        )
        curve[float(optimum.x)] = float(optimum.fun)
    return curve


def stress(points: Floats, pairs: Floats, curvature: float) -> tuple[float, Floats]:
    """Σ(d̂ − d)² over all pairs of points, and its gradient.

    Parameters
    ----------
    points : array (n, d)
        Normal coordinates: tangent vectors v at the origin, ‖v‖ the distance from it. At negative
        curvature κ, lengths above 80/√|κ| count as 80/√|κ|.
    pairs : array (n(n − 1)/2,)
        The distances d, in the order of `scipy.spatial.distance.pdist`.
    curvature : float

    Returns
    -------
    value : float
    gradient : array (n, d)

    Notes
    -----
    With sin_κ(r) = sin(√κ·r)/√κ, and so on, and the stereographic coordinates
    x = tan_κ(‖v‖/2)·v/‖v‖: sin_κ²(d̂/2) = ‖x − y‖²/((1 + κ‖x‖²)(1 + κ‖y‖²)), analytic in κ
    (Bachmann, Bécigneul and Ganea, "Constant curvature graph convolutional networks", ICML 2020).
    These coordinates are conformal: in normal coordinates, the gradient in an orthonormal frame at
    x has the factor 1 along v and sin_κ(‖v‖)/‖v‖ across it.
    """
    sign = np.sign(curvature)
    root = math.sqrt(abs(curvature)) or 1.0
    sine, cosine, arcsine = _FUNCTIONS[sign]
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    unit = points / np.maximum(lengths, 1e-100)
    half = np.clip(root / 2 * lengths, 1e-100, 40.0 if sign < 0 else math.inf)
    height = cosine(half)
    places = unit * (sine(half) / height)
    weights = height[:, 0] ** 2
    squares = pdist(places, "sqeuclidean")
    squares *= squareform(np.outer(weights, weights), checks=False)
    np.minimum(squares, 1.0 if sign > 0 else math.inf, out=squares)
    chords = np.sqrt(squares)
    residuals = 2 / root * arcsine(chords) - pairs
    value = float(residuals @ residuals)
    # The derivative by the squares. Points at an antipode or at one place do not have one.
    chords *= np.sqrt(np.maximum(1 - sign * squares, 1e-15))
    residuals *= 2 / np.maximum(chords, 1e-100)
    pulls = squareform(residuals) * weights
    turns = sign * squareform(residuals * squares).sum(axis=1, keepdims=True)
    gradient = (pulls.sum(axis=1, keepdims=True) - turns) * places - pulls @ places
    along = (gradient * unit).sum(axis=1, keepdims=True) * unit
    return value, along + (gradient - along) * (sine(half) * height / half)


def _descend(
    starts: Sequence[Floats], matrix: Floats, curvature: float, ends: Mapping[str, float]
) -> tuple[float, Floats]:
    """The distortion and the points (n, dim) at the lowest end of the descents."""
    pairs = squareform(matrix, checks=False)
    # In parts of 1e-12, as scipy's tolerance is relative only to values above 1.
    unit = 1e-12 * float(pairs @ pairs)

    def objective(coordinates: Floats) -> tuple[float, Floats]:
        value, gradient = stress(coordinates.reshape(starts[0].shape), pairs, curvature)
        return value / unit, gradient.ravel() / unit

    np.empty(2**21)  # glibc then reuses freed memory: three times as fast as pages from the kernel
    descents = [
        minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=ends)
        for start in starts
    ]
    lowest = min(descents, key=lambda descent: descent.fun)
    return math.sqrt(1e-12 * lowest.fun), lowest.x.reshape(starts[0].shape)


def _starts(matrix: Floats, dim: int) -> list[Floats]:
    """Normal coordinates (n, dim) by spherical scaling at the largest curvature, and near 0, which
    is classical scaling."""
    # Without noise, points at one place, and points of a subspace, would stay there.
    noise = 1e-3 * matrix.mean() * np.random.default_rng(0).normal(size=(len(matrix), dim))
    _, high = curvature_range(matrix)
    return [noise + _spherical_scaling(matrix, dim, share * high) for share in (1.0, 1e-4)]


def _spherical_scaling(matrix: Floats, dim: int, curvature: float) -> Floats:
    """Normal coordinates (n, dim) of points of a sphere, from the largest eigenvalues of the
    cosines of their distances; the axis of the largest is that of the origin."""
    root = math.sqrt(curvature)
    last = len(matrix) - 1
    values, vectors = eigh(np.cos(root * matrix), subset_by_index=[last - dim, last])
    points = vectors * np.sqrt(np.maximum(values, 0))
    across, heights = np.split(points, [dim], axis=1)
    lengths = np.linalg.norm(across, axis=1, keepdims=True)
    angles = np.arctan2(lengths, heights * np.sign(heights.sum()))
    return across * (angles / np.maximum(root * lengths, 1e-100))
