"""The built-in data set: uniform points in a hyperbolic disc, with a hyperplane between its two
classes."""

import math
from dataclasses import dataclass

import numpy as np

from curvfed.tasks.errors import DataError
from curvfed.tasks.points.client_points import Floats, Integers

POINTS_STREAM = 11
HYPERPLANE_STREAM = 12
"""Random streams of the seed."""

MIN_SIDE = 0.05
"""Minimum share of the points in a class; with fewer the hyperplane is drawn again."""

TRIES = 1000


@dataclass(frozen=True)
class Hyperplane:
    """A geodesic of the disc: the points x with ⟨−p ⊕ x, w⟩ = 0 (Prakash et al., 2024, eq. 5).

    Attributes
    ----------
    reference : tuple of float
        p, a point of the hyperplane.
    normal : tuple of float
        w, not 0.
    curvature : float
        Negative.
    """

    reference: tuple[float, float]
    normal: tuple[float, float]
    curvature: float

    def distance(self, points: Floats) -> Floats:
        """Hyperbolic distance of each point, positive on the side to which the normal points.

        sinh(√k d) = 2√k ⟨−p ⊕ x, w⟩ / ((1 − k‖−p ⊕ x‖²) ‖w‖) (Ganea et al., 2018, theorem 5). The
        denominators of the Möbius sum cancel: with u = x − p, its numerator is (1 − k‖p‖²) u −
        k‖u‖² p.

        Parameters
        ----------
        points : (..., 2), float64
            Inside the disc.

        Returns
        -------
        (...), float64
            The error is at most eps·exp(√k (‖p‖ + ‖x‖))/√k with hyperbolic norms, as from rounding
            p, w and x.
        """
        k = -self.curvature
        p = np.array(self.reference)
        w = np.array(self.normal)
        u = points - p
        defect = _defect(p, k)
        numerator = defect * u - k * (u * u).sum(axis=-1, keepdims=True) * p
        height = 2 * math.sqrt(k) * (numerator @ w) / (defect * _defect(points, k) * np.hypot(*w))
        distance: Floats = np.arcsinh(height) / math.sqrt(k)
        return distance


def _defect(points: Floats, k: float) -> Floats:
    """1 − k‖x‖² as a product, which has no cancellation near the boundary."""
    norm = math.sqrt(k) * np.hypot(points[..., 0], points[..., 1])
    defect: Floats = (1 - norm) * (1 + norm)
    return defect


def uniform_points(num: int, radius: float, curvature: float, rng: np.random.Generator) -> Floats:
    """Points uniform in hyperbolic area (Prakash et al., 2024, algorithm 3, with the angle 2π U
    instead of U).

    Parameters
    ----------
    num : int, at least 0
    radius : float
        Largest Euclidean norm of a point, up to rounding, in (0, 1/√|curvature|).
    curvature : float, negative

    Returns
    -------
    (num, 2), float64
    """
    unit = 1 / math.sqrt(-curvature)
    share = radius / unit
    # sinh(R_H/2s) is r/√(1 − r²), and tanh of the inverse hyperbolic sine of y is y/√(1 + y²).
    reach = np.sqrt(1 - rng.random(num)) * share / math.sqrt((1 - share) * (1 + share))
    norm = unit * reach / np.sqrt(1 + reach * reach)
    angle = 2 * np.pi * rng.random(num)
    return np.stack([norm * np.cos(angle), norm * np.sin(angle)], axis=1)


def two_classes(
    num: int, radius: float, reference: float, margin: float, curvature: float, seed: int
) -> tuple[Floats, Integers, Hyperplane]:
    """Points labelled by the side of a random hyperplane (Prakash et al., 2024, section 6.2).

    The hyperplane goes through a point of norm `reference` times `radius`. The directions of this
    point and of the normal are random, and drawn again until each class has `MIN_SIDE` of the
    points.

    Parameters
    ----------
    num : int
        The number of points before those within `margin` of the hyperplane are removed.
    radius : float
        As in `uniform_points`.
    reference : float, in [0, 1)
    margin : float, at least 0
        A hyperbolic distance.
    curvature : float, negative
    seed : int, at least 0

    Returns
    -------
    points : (n, 2), float64
    labels : (n,), int64
        1 on the side to which the normal points, else 0.
    hyperplane : Hyperplane

    Raises
    ------
    DataError
        If no hyperplane leaves enough points on both sides.
    """
    points = uniform_points(num, radius, curvature, np.random.default_rng([seed, POINTS_STREAM]))
    rng = np.random.default_rng([seed, HYPERPLANE_STREAM])
    min_side = max(1, MIN_SIDE * num)
    for _ in range(TRIES):
        to_reference, to_normal = 2 * np.pi * rng.random(2)
        norm = reference * radius
        point = (norm * math.cos(to_reference), norm * math.sin(to_reference))
        normal = (math.cos(to_normal), math.sin(to_normal))
        hyperplane = Hyperplane(point, normal, curvature)
        distance = hyperplane.distance(points)
        is_outside = np.abs(distance) >= margin
        positive = int((is_outside & (distance >= 0)).sum())
        if min(positive, int(is_outside.sum()) - positive) >= min_side:
            return points[is_outside], (distance[is_outside] >= 0).astype(np.int64), hyperplane
    raise DataError(
        f"uniform: no hyperplane leaves {MIN_SIDE:.0%} of the points on each side; allowed is a"
        f" smaller points.margin, now {margin}, or points.reference, now {reference}, or a larger"
        f" points.num, now {num}",
        key="uniform-points",
    )
