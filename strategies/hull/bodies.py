"""The clients' hulls with their groups, parts of them, and those that lie where the other hulls of
their group are not."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.hull import convex_hull, to_klein
from curvfed.strategies.hull.depth import group_depths, hull_depths

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

FAR_BELOW = 0.6
"""A client is odd if the share of its corners that lie deepest in their own group is below this
part of the median share.

Of 10 clients with ten overlapping classes, also with Dirichlet(0.1) parts, honest shares are at
least 0.6 of the median and those of clients with points on the rim, noise or shuffled labels 0.1 to
0.5 of it.
"""


@dataclass(frozen=True, eq=False)
class Bodies:
    """Grouped hulls of anonymous clients.

    Attributes
    ----------
    vertices : list of h arrays (m, 2)
        Corners of each hull in the Poincaré disc.
    groups, clients : int arrays (h,)
    curvature : float
    """

    vertices: list[Array]
    groups: Integers
    clients: Integers
    curvature: float

    @cached_property
    def points(self) -> Array:
        """All corners, (n, 2)."""
        return np.concatenate(self.vertices)

    @cached_property
    def hull_of(self) -> Integers:
        """Of each corner its hull, (n,)."""
        return np.repeat(np.arange(len(self.vertices)), list(map(len, self.vertices)))

    @cached_property
    def labels(self) -> Integers:
        """Of each corner its group, (n,)."""
        return self.groups[self.hull_of]

    @cached_property
    def klein(self) -> list[Array]:
        """The hulls as polygons of the Klein model of the unit disc, counter-clockwise."""
        scale = np.sqrt(-self.curvature)
        return [to_klein(one[convex_hull(one, self.curvature)] * scale) for one in self.vertices]

    @cached_property
    def corner_depths(self) -> Array:
        """Depth of every corner in every hull, (n, h)."""
        return hull_depths(self.klein, to_klein(self.points * np.sqrt(-self.curvature)))

    def where(self, kept: Booleans) -> Self:
        """The hulls where `kept` (h,) is true."""
        vertices = [one for one, stays in zip(self.vertices, kept, strict=True) if stays]
        return type(self)(vertices, self.groups[kept], self.clients[kept], self.curvature)

    def depths_without(self, hidden: Booleans) -> Array:
        """Median depths (n', J) of the corners of the hidden hulls (h,) in those of each group that
        are not hidden."""
        rows = self.corner_depths[hidden[self.hull_of]][:, ~hidden]
        return group_depths(rows, self.groups[~hidden], np.unique(self.groups))


def odd_clients(bodies: Bodies) -> Integers:
    """The numbers of the clients that look odd beside the others; of fewer than three, nobody can
    tell which one it is.

    A client of one class has no class that it could be taken for by mistake, but its corners can
    lie in another group.
    """
    clients = np.unique(bodies.clients)
    groups = np.unique(bodies.groups)
    if len(clients) < 3:
        return np.zeros(0, np.int64)
    shares = []
    for client in clients:
        mine = bodies.clients == client
        deepest = groups[bodies.depths_without(mine).argmax(axis=1)]
        shares.append(float((deepest == bodies.labels[mine[bodies.hull_of]]).mean()))
    return clients[np.array(shares) < FAR_BELOW * np.median(shares)]


def without(bodies: Bodies, odd: Integers) -> Bodies:
    """The hulls of the others; a group that only odd clients have keeps its hulls, so that no class
    is lost."""
    honest = ~np.isin(bodies.clients, odd)
    return bodies.where(honest | ~np.isin(bodies.groups, bodies.groups[honest]))
