"""The hull of many points against the scan of the literature, and against Qhull on the points as they are."""

import numpy as np
from scipy.spatial import ConvexHull

from benchmarks.timing import Ratio, compare
from geometry.hull import convex_hull

REPEATS = 9


def against_the_scan(num: int = 100_000) -> Ratio:
    """`convex_hull` against `graham_scan`, one call each after the one to warm up."""
    points = sample(num)
    return compare(lambda: convex_hull(points, -1.0), lambda: graham_scan(points, -1.0), repeats=1)


def against_qhull(num: int = 100_000) -> Ratio:
    """`convex_hull` against Qhull's Euclidean hull of the same points, which has fewer corners."""
    points = sample(num)
    return compare(lambda: convex_hull(points, -1.0), lambda: ConvexHull(points), REPEATS)


def sample(num: int, radius: float = 0.95) -> np.ndarray:
    """Points spread evenly over a hyperbolic disc of this Euclidean radius, that of the paper's synthetic sets."""
    rng = np.random.default_rng(0)
    # Areas are as sinh² of half the distance, which is artanh of the norm.
    norm = np.tanh(np.arcsinh(np.sqrt(rng.random(num)) * radius / np.sqrt(1 - radius**2)))
    angle = 2 * np.pi * rng.random(num)
    return norm[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def graham_scan(points: np.ndarray, curvature: float) -> list[int]:
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


def _ccw(x: np.ndarray, t: np.ndarray, z: np.ndarray, curvature: float) -> float:
    first, second = _log(x, t, curvature), _log(x, z, curvature)
    return float(_cross(first / np.linalg.norm(first), second / np.linalg.norm(second)))


def _log(p: np.ndarray, x: np.ndarray, curvature: float) -> np.ndarray:
    """Eq. 1, with the Möbius addition of Eq. 3."""
    k, p_square, x_square = -curvature, p @ p, (x * x).sum(axis=-1, keepdims=True)
    inner = -(x * p).sum(axis=-1, keepdims=True)
    moved = (1 + 2 * k * inner + k * x_square) * -p + (1 - k * p_square) * x
    moved /= 1 + 2 * k * inner + k**2 * p_square * x_square
    norm = np.linalg.norm(moved, axis=-1, keepdims=True)
    return (1 - k * p_square) / np.sqrt(k) * np.arctanh(np.sqrt(k) * norm) * moved / norm


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
