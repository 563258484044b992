"""The clients' hulls with their groups, and parts of them."""

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
        """Median depths (n', J) of the corners of the hidden hulls (h,) in those of each group that are not hidden."""
        rows = self.corner_depths[hidden[self.hull_of]][:, ~hidden]
        return group_depths(rows, self.groups[~hidden], np.unique(self.groups))
