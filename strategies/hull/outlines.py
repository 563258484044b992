"""Outlines of the groups: a point beyond all of them is in no group of the clients.

An outline goes around a group's centre, at a multiple of the hyperbolic distance up to which at
least half of the clients' hulls contain a point. It reveals no client's corner, so that every
classifier can have it.
"""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.hull import from_klein, to_klein
from curvfed.strategies.hull.depth import hull_depths
from curvfed.strategies.hull.grouped_hulls import GroupedHulls

Array = NDArray[np.float64]

RAYS = 32
STEPS = 64
FAR = 12.0
"""Number of rays of an outline, number of points on each ray at which the depth is computed, and
the distance of the last of them at curvature -1."""

FAINT = 0.01
"""Share of the corners outside the outline of their own group."""


@dataclass(frozen=True, eq=False)
class Outlines:
    """Outlines in the Poincaré disc of curvature -1.

    Attributes
    ----------
    centres : array (J, 2)
    radii : array (J, rays)
        The outline's distance from the centre, along geodesics at equal angles from the x axis on.
    """

    centres: Array = field(default_factory=lambda: np.empty((0, 2)))
    radii: Array = field(default_factory=lambda: np.empty((0, 0)))

    @classmethod
    def of(cls, bodies: GroupedHulls) -> Self:
        """Outlines of the groups, at a distance that encloses 99% of all corners within that of
        their own group."""
        far = FAR * np.arange(1, STEPS + 1) / STEPS
        rays = np.exp(2j * np.pi * np.arange(RAYS) / RAYS)
        centres = []
        radii = []
        ratios = []
        for label in np.unique(bodies.groups):
            mine = [
                hull
                for hull, group in zip(bodies.klein, bodies.groups, strict=True)
                if group == label
            ]
            centre = from_klein(np.median([hull.mean(axis=0) for hull in mine], axis=0)[None])[0]
            around = _translate((np.tanh(far / 2) * rays[:, None]).ravel(), complex(*centre))
            points = to_klein(np.stack([around.real, around.imag], axis=1))
            is_inside = np.median(hull_depths(mine, points), axis=1).reshape(RAYS, STEPS) >= 0
            centres.append(centre)
            radii.append(np.max(far * is_inside, axis=1) + far[0])
            corners = bodies.points[bodies.labels == label] * np.sqrt(-bodies.curvature)
            ratios.append(_ratios(corners, centre, radii[-1]))
        return cls(
            np.array(centres),
            np.array(radii) * max(1.0, float(np.quantile(np.concatenate(ratios), 1 - FAINT))),
        )

    def outside(self, points: Array) -> NDArray[np.bool_]:
        """Whether points (n, 2) lie outside all outlines; False without outlines."""
        outside = np.full(len(points), bool(self.radii.size))
        for centre, radii in zip(self.centres, self.radii, strict=True):
            outside &= _ratios(points, centre, radii) > 1
        return outside


def _ratios(points: Array, centre: Array, radii: Array) -> Array:
    """Distances of points (n, 2) from a centre, in units of the outline's in their direction."""
    relative = _translate(points @ np.array([1, 1j]), -complex(*centre))
    place = np.mod(np.angle(relative) / (2 * np.pi), 1) * len(radii)
    low = place.astype(int) % len(radii)
    reach = radii[low] + (place - np.floor(place)) * (radii[(low + 1) % len(radii)] - radii[low])
    return np.asarray(2 * np.arctanh(np.minimum(np.abs(relative), 1 - 1e-15)) / reach)


def _translate(points: NDArray[np.complex128], offset: complex) -> NDArray[np.complex128]:
    """Möbius addition by ⊕ points, in the unit disc."""
    return (points + offset) / (1 + points * offset.conjugate())
