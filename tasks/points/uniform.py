"""The built-in data set: points uniform in a hyperbolic disc, two classes on the sides of a hyperplane."""

import math
from dataclasses import dataclass

import numpy as np

from curvfed.tasks.errors import DataError
from curvfed.tasks.points.client_points import Floats, Integers

POINTS_STREAM, HYPERPLANE_STREAM = 11, 12
"""Of the seed, for what is drawn."""

LEAST_SIDE = 0.05
"""Share of the points that each class has at least; a hyperplane that leaves fewer is drawn again."""

TRIES = 1000


@dataclass(frozen=True)
class Hyperplane:
    """A geodesic of the disc: the points x with ⟨−p ⊕ x, w⟩ = 0 (Prakash et al., 2024, eq. 5).

    Attributes
    ----------
    reference : tuple of float
        p, a point of it, inside the disc.
    normal : tuple of float
        w, of any length but 0.
    curvature : float
        Negative.
    """

    reference: tuple[float, float]
    normal: tuple[float, float]
    curvature: float

    def distance(self, points: Floats) -> Floats:
        """Hyperbolic distance of each point, positive on the side that the normal points to.

        sinh(√k d) = 2√k ⟨−p ⊕ x, w⟩ / ((1 − k‖−p ⊕ x‖²) ‖w‖) (Ganea et al., 2018, theorem 5), where the denominators of
        the Möbius sum cancel: with u = x − p, what remains of −p ⊕ x is (1 − k‖p‖²) u − k‖u‖² p.

        Parameters
        ----------
        points : (..., 2), float64
            Inside the disc.

        Returns
        -------
        (...), float64
            Within eps·exp(√k (‖p‖ + ‖x‖))/√k, hyperbolic norms: what the last bits of p, w and x make of it.
        """
        k = -self.curvature
        p, w = np.array(self.reference), np.array(self.normal)
        u = points - p
        room = _room(p, k)
        beyond = room * u - k * (u * u).sum(axis=-1, keepdims=True) * p
        height = 2 * math.sqrt(k) * (beyond @ w) / (room * _room(points, k) * np.hypot(*w))
        distance: Floats = np.arcsinh(height) / math.sqrt(k)
        return distance


def _room(points: Floats, k: float) -> Floats:
    """1 − k‖x‖², without the cancellation near the boundary that the square would bring."""
    norm = math.sqrt(k) * np.hypot(points[..., 0], points[..., 1])
    room: Floats = (1 - norm) * (1 + norm)
    return room


def uniform_points(num: int, radius: float, curvature: float, rng: np.random.Generator) -> Floats:
    """Points of uniform density in hyperbolic area (Prakash et al., 2024, algorithm 3; the angle is 2π U, not U).

    Parameters
    ----------
    num : int, at least 0
    radius : float
        Euclidean norm that no point exceeds by more than rounding, in (0, 1/√|curvature|).
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
    """Points, which side of a hyperplane each is on, and that hyperplane (Prakash et al., 2024, section 6.2).

    The hyperplane goes through a point of norm `reference` times `radius`, in random directions; it is drawn again until
    each class has `LEAST_SIDE` of the points.

    Parameters
    ----------
    num : int
        Of points before those nearer to the hyperplane than `margin` are removed.
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
        1 on the side that the normal points to, else 0.
    hyperplane : Hyperplane

    Raises
    ------
    DataError
        If no hyperplane leaves enough points on either side.
    """
    points = uniform_points(num, radius, curvature, np.random.default_rng([seed, POINTS_STREAM]))
    rng = np.random.default_rng([seed, HYPERPLANE_STREAM])
    least = max(1, LEAST_SIDE * num)
    for _ in range(TRIES):
        to_reference, to_normal = 2 * np.pi * rng.random(2)
        hyperplane = Hyperplane(
            (reference * radius * math.cos(to_reference), reference * radius * math.sin(to_reference)),
            (math.cos(to_normal), math.sin(to_normal)),
            curvature,
        )
        distance = hyperplane.distance(points)
        kept = np.abs(distance) >= margin
        positive = int((kept & (distance >= 0)).sum())
        if min(positive, int(kept.sum()) - positive) >= least:
            return points[kept], (distance[kept] >= 0).astype(np.int64), hyperplane
    raise DataError(
        f"uniform: no hyperplane leaves {LEAST_SIDE:.0%} of the points on either side; allowed is a smaller "
        f"points.margin, now {margin}, or points.reference, now {reference}, or a larger points.num, now {num}"
    )
