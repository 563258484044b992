"""The hull of many points against the scan of the literature, and against Qhull on the points as they are."""

from typing import Any

import numpy as np
from scipy.spatial import ConvexHull

from benchmarks.row import Place, Row
from benchmarks.timing import Ratio, compare
from curvfed.geometry.hull import convex_hull
from curvfed.geometry.quantizer import PoincareQuantizer

REPEATS = 9

Points = Any  # NumPy arrays (..., 2), whose operators are typed as anything


def rows(place: Place) -> list[Row]:
    """Of as many points as a large client has."""
    return [
        Row("hyperbolic hull of 100,000 points", "Qhull on them as Euclidean points", "limit", against_qhull, 1.5),
        Row("hyperbolic hull of 10,000 points", "the paper's scan", "peer", lambda: against_the_scan(10_000), 0.01),
        Row(
            "bins of 100,000 points, ε = .01", "their norms and angles alone", "limit", quantizer_against_polar
        ),
    ]  # fmt: skip


def quantizer_against_polar(num: int = 100_000) -> Ratio:
    """`PoincareQuantizer.encode` against the polar coordinates that any such bins begin with."""
    points, quantizer = sample(num), PoincareQuantizer(0.01, 0.95, -1.0)
    return compare(
        lambda: quantizer.encode(points),
        lambda: (np.hypot(points[:, 0], points[:, 1]), np.arctan2(points[:, 1], points[:, 0])),
        REPEATS,
    )


def against_the_scan(num: int = 100_000) -> Ratio:
    """`convex_hull` against `graham_scan`, one call each after the one to warm up."""
    points = sample(num)
    return compare(lambda: convex_hull(points, -1.0), lambda: graham_scan(points, -1.0), repeats=1)


def against_qhull(num: int = 100_000) -> Ratio:
    """`convex_hull` against Qhull's Euclidean hull of the same points, which has fewer corners."""
    points = sample(num)
    return compare(lambda: convex_hull(points, -1.0), lambda: ConvexHull(points), REPEATS)


def sample(num: int, radius: float = 0.95) -> Points:
    """Points spread evenly over a hyperbolic disc of this Euclidean radius, that of the paper's synthetic sets."""
    rng = np.random.default_rng(0)
    # Areas are as sinh² of half the distance, which is artanh of the norm.
    norm = np.tanh(np.arcsinh(np.sqrt(rng.random(num)) * radius / np.sqrt(1 - radius**2)))
    angle = 2 * np.pi * rng.random(num)
    return norm[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def graham_scan(points: Points, curvature: float) -> list[int]:
    """Pan et al., Algorithms 1 and 2, step by step: arrays where a step is on all points, else two coordinates."""
    start = int((points**2).sum(axis=1).argmax())
    normal = -_log(points[start], np.zeros(2), curvature)
    tangent = np.array([-normal[1], normal[0]])
    others = np.flatnonzero((points != points[start]).any(axis=1))
    logs = _log(points[start], points[others], curvature)
    angles = np.arctan2(_cross(tangent, logs), logs @ tangent)
    order = np.lexsort((-np.linalg.norm(logs, axis=1), angles))
    farthest = np.append(True, np.diff(angles[order]) > 0)
    stack = [start]
    for index in others[order[farthest]].tolist():
        while len(stack) > 1 and _ccw(points[stack[-2]], points[stack[-1]], points[index], curvature) <= 0:
            stack.pop()
        stack.append(index)
    return stack


def _ccw(x: Points, t: Points, z: Points, curvature: float) -> float:
    first, second = _log(x, t, curvature), _log(x, z, curvature)
    return float(_cross(first / np.linalg.norm(first), second / np.linalg.norm(second)))


def _log(p: Points, x: Points, curvature: float) -> Points:
    """Eq. 1, with the Möbius addition of Eq. 3."""
    k, p_square, x_square = -curvature, p @ p, (x * x).sum(axis=-1, keepdims=True)
    inner = -(x * p).sum(axis=-1, keepdims=True)
    moved = (1 + 2 * k * inner + k * x_square) * -p + (1 - k * p_square) * x
    moved /= 1 + 2 * k * inner + k**2 * p_square * x_square
    norm = np.linalg.norm(moved, axis=-1, keepdims=True)
    return (1 - k * p_square) / np.sqrt(k) * np.arctanh(np.sqrt(k) * norm) * moved / norm


def _cross(a: Points, b: Points) -> Points:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
