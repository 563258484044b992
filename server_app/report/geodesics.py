"""Geodesics and convex hulls of the Poincaré disc of radius 1, as lines that look like them in print."""

import math

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.hull import from_klein, to_klein

Array = NDArray[np.float64]

_SMOOTH = 0.15  # points of print that a polyline may be away from its geodesic


def geodesic(start: Array, end: Array, pixel: float) -> Array:
    """Points (n, 2) along the geodesic between two points of the closed unit disc, dense enough to look like it.

    Parameters
    ----------
    pixel : float
        What a point of print is in the disc.
    """
    ends = np.array([start, end])
    klein = to_klein(ends)  # geodesics are straight there
    middle = from_klein(klein.mean(axis=0, keepdims=True))[0]
    sag = float(np.hypot(*(middle - ends.mean(axis=0))))
    number = 1 + math.ceil(math.sqrt(1.5 * sag / (_SMOOTH * pixel)))
    # Denser towards the ends, where near the boundary the disc's metric is the denser too.
    at = (1 - np.cos(np.linspace(0, np.pi, number + 1))) / 2
    line = from_klein(klein[0] + at[:, None] * (klein[1] - klein[0]))
    line[0], line[-1] = start, end
    return line


def outline(corners: Array, pixel: float) -> Array:
    """A polygon's closed line; back and forth between two corners, and standing still at a single one."""
    sides = [geodesic(one, other, pixel)[:-1] for one, other in zip(corners, np.roll(corners, -1, axis=0), strict=True)]
    return np.concatenate([*sides, corners[:1]])


def perpendicular(reference: Array, normal: Array, pixel: float) -> Array:
    """The geodesic (n, 2) through a point, at right angles to a normal that is not 0."""
    direction = np.array([-normal[1], normal[0]]) / float(np.hypot(*normal))
    return geodesic(_end(reference, -direction), _end(reference, direction), pixel)


def _end(point: Array, unit: Array) -> Array:
    """Where on the boundary the geodesic from a point along a unit vector ends: point ⊕ unit."""
    along, square = 2 * float(point @ unit), float(point @ point)
    far: Array = (2 + along) * point + (1 - square) * unit
    return far / float(np.hypot(*far))
