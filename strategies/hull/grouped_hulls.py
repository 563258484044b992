"""The clients' hulls with their groups, and the outlying clients: their hulls lie apart from the
other hulls of their groups."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.arrays import Booleans, Floats, Integers
from curvfed.geometry.hull import convex_hull, from_klein, to_klein
from curvfed.strategies.hull.depth import group_depths, hull_depths

FAR_BELOW = 0.6
"""A client is outlying if the share of its corners that lie deepest in their own group is below
this fraction of the median share.

With 10 clients and ten overlapping classes, also in Dirichlet(0.1) partitions, honest clients have
at least 0.6 of the median; clients with points on the rim, noise or shuffled labels have 0.1 to 0.5
of it.
"""

TURNS = 24
"""Number of rotations of the disc, at equal angles, at which a client's hulls are compared with the
others', each with and without a reflection."""

MANY_HULLS = 4
TURNED = (1.6, 0.5)
TURNED_FEW = (3.0, 0.25)
"""A client is turned if its hulls lie this many times further from the others' than those of the
median client, and a rotation or reflection brings them to this fraction of the distance; the second
pair is for fewer than `MANY_HULLS` hulls, which fit other places by chance. One hull always does.

The numbers were chosen by trial on Dirichlet partitions of Olsson's cells among ten clients;
`make accept DATA=folder ARGS="--only olsson_liars"` shows in how many splits clients are named that
send the negative of their points.
"""


@dataclass(frozen=True, eq=False)
class GroupedHulls:
    """Grouped hulls of anonymous clients.

    Attributes
    ----------
    vertices : list of h arrays (m, 2)
        Corners of each hull in the Poincaré disc.
    groups, clients : int arrays (h,)
    curvature : float
    """

    vertices: list[Floats]
    groups: Integers
    clients: Integers
    curvature: float

    @cached_property
    def points(self) -> Floats:
        """All corners, (n, 2)."""
        return np.concatenate(self.vertices)

    @cached_property
    def hull_of(self) -> Integers:
        """The hull of each corner, (n,)."""
        return np.repeat(np.arange(len(self.vertices)), list(map(len, self.vertices)))

    @cached_property
    def labels(self) -> Integers:
        """The group of each corner, (n,)."""
        return self.groups[self.hull_of]

    @cached_property
    def klein(self) -> list[Floats]:
        """The hulls as polygons of the Klein model of the unit disc, counter-clockwise."""
        scale = np.sqrt(-self.curvature)
        return [
            to_klein(corners[convex_hull(corners, self.curvature)] * scale)
            for corners in self.vertices
        ]

    @cached_property
    def corner_depths(self) -> Floats:
        """Depth of every corner in every hull, (n, h)."""
        return hull_depths(self.klein, to_klein(self.points * np.sqrt(-self.curvature)))

    def where(self, selected: Booleans) -> Self:
        """The hulls selected by `selected` (h,)."""
        vertices = [
            corners
            for corners, is_selected in zip(self.vertices, selected, strict=True)
            if is_selected
        ]
        return type(self)(vertices, self.groups[selected], self.clients[selected], self.curvature)

    def depths_without(self, hidden: Booleans) -> Floats:
        """Median depths (n', J) of the corners of the hidden hulls (h,) in the other hulls of each
        group."""
        rows = self.corner_depths[hidden[self.hull_of]][:, ~hidden]
        return group_depths(rows, self.groups[~hidden], np.unique(self.groups))


def outlying_clients(bodies: GroupedHulls) -> Integers:
    """The numbers of the outlying clients; none for fewer than three clients, since these do not
    show an outlier.

    A client with one class lacks a second class to confuse it with, but its corners can lie in
    another group.
    """
    clients = np.unique(bodies.clients)
    groups = np.unique(bodies.groups)
    if len(clients) < 3:
        return np.zeros(0, np.int64)
    shares = []
    for client in clients:
        mine = bodies.clients == client
        deepest = groups[bodies.depths_without(mine).argmax(axis=1)]
        is_inside = deepest == bodies.labels[mine[bodies.hull_of]]
        shares.append(float(is_inside.mean()))
    return clients[np.array(shares) < FAR_BELOW * np.median(shares)]


def turned_clients(bodies: GroupedHulls) -> Integers:
    """The numbers of the clients with hulls that fit the others' only after a rotation or a
    reflection of the disc, as of another embedding; none if there are fewer than four clients.

    A hull is compared by the mean of its corners in the Klein model with the median of those of the
    other clients in each group, and the hulls of a client go to different groups.
    """
    clients, counts = np.unique(bodies.clients, return_counts=True)
    if len(clients) < 4:
        return np.zeros(0, np.int64)
    centres = np.array([complex(*corners.mean(axis=0)) for corners in bodies.klein])
    distances = []
    for client in clients:
        is_own = bodies.clients == client
        other_centres = [
            centres[~is_own & (bodies.groups == group)]
            for group in np.unique(bodies.groups[~is_own])
        ]
        medians = [np.median(group.real) + 1j * np.median(group.imag) for group in other_centres]
        distances.append(_distances_of_turns(centres[is_own], np.array(medians)))
    by_turn = np.array(distances)
    in_place = by_turn[:, 0, 0]
    rotated = by_turn[:, 0, 2:-1].min(axis=1)
    reflected = by_turn[:, 1].min(axis=1)
    turned = np.minimum(rotated, reflected)
    far, near = np.where(counts[:, None] < MANY_HULLS, TURNED_FEW, TURNED).T
    is_turned = (in_place > far * np.median(in_place)) & (turned < near * in_place)
    return clients[is_turned & (counts > 1)]


def _distances_of_turns(points: NDArray[np.complex128], places: NDArray[np.complex128]) -> Floats:
    """Mean hyperbolic distance of points (n,) from different places (m,) of the Klein model, the
    nearest ones together, without and with a reflection at each rotation: (2, TURNS)."""
    from scipy.optimize import linear_sum_assignment

    gaps = np.sqrt(np.outer(1 - np.abs(points) ** 2, 1 - np.abs(places) ** 2))
    mirrored = np.stack([points, points.conj()])[:, None, :, None]
    angles = 2j * np.pi * np.arange(TURNS) / TURNS
    turns = np.exp(angles)[:, None, None]
    inner = (mirrored * turns * places.conj()).real
    distances = np.arccosh(np.maximum((1 - inner) / gaps, 1))
    means = np.empty((2, TURNS))
    for place in np.ndindex(means.shape):
        means[place] = distances[place][linear_sum_assignment(distances[place])].mean()
    return means


def without_clients(bodies: GroupedHulls, outlying: Integers) -> GroupedHulls:
    """The hulls of the other clients; a group that only outlying clients have keeps its hulls, so
    that no class is lost."""
    is_honest = ~np.isin(bodies.clients, outlying)
    return bodies.where(is_honest | ~np.isin(bodies.groups, bodies.groups[is_honest]))


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

    An outline goes around a group's centre, at a multiple of the largest hyperbolic distance where
    at least half of the clients' hulls contain a point. It reveals no client's corner, so that
    every classifier can have it.

    Attributes
    ----------
    centres : array (J, 2)
    radii : array (J, rays)
        The outline's distance from the centre, along geodesics at equal angles from the x axis on.
    """

    centres: Floats = field(default_factory=lambda: np.empty((0, 2)))
    radii: Floats = field(default_factory=lambda: np.empty((0, 0)))

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
            hull_means = [hull.mean(axis=0) for hull in mine]
            centre = from_klein(np.median(hull_means, axis=0)[None])[0]
            polar_grid = (np.tanh(far / 2) * rays[:, None]).ravel()
            around = _translate(polar_grid, complex(*centre))
            points = to_klein(np.stack([around.real, around.imag], axis=1))
            depths = np.median(hull_depths(mine, points), axis=1)
            is_inside = depths.reshape(RAYS, STEPS) >= 0
            centres.append(centre)
            radii.append(np.max(far * is_inside, axis=1) + far[0])
            corners = bodies.points[bodies.labels == label] * np.sqrt(-bodies.curvature)
            ratios.append(_ratios(corners, centre, radii[-1]))
        farthest = float(np.quantile(np.concatenate(ratios), 1 - FAINT))
        return cls(np.array(centres), np.array(radii) * max(1.0, farthest))

    def outside(self, points: Floats) -> Booleans:
        """Whether points (n, 2) lie outside all outlines; False without outlines."""
        outside = np.full(len(points), bool(self.radii.size))
        for centre, radii in zip(self.centres, self.radii, strict=True):
            outside &= _ratios(points, centre, radii) > 1
        return outside


def _ratios(points: Floats, centre: Floats, radii: Floats) -> Floats:
    """Distances of points (n, 2) from a centre, in units of the outline's in their direction."""
    relative = _translate(points @ np.array([1, 1j]), -complex(*centre))
    place = np.mod(np.angle(relative) / (2 * np.pi), 1) * len(radii)
    low = place.astype(int) % len(radii)
    step = radii[(low + 1) % len(radii)] - radii[low]
    reach = radii[low] + (place - np.floor(place)) * step
    radii = np.minimum(np.abs(relative), 1 - 1e-15)
    return 2 * np.arctanh(radii) / reach


def _translate(points: NDArray[np.complex128], offset: complex) -> NDArray[np.complex128]:
    """Möbius addition by ⊕ points, in the unit disc."""
    return (points + offset) / (1 + points * offset.conjugate())
