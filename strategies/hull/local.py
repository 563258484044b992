"""A client's half before anything is sent: from its points to quantised convex hulls (Sections 5.1 and 5.2)."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.hull import convex_hull, thin
from curvfed.strategies.hull.public import Public

Bins = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class LocalHulls:
    """The hulls of one client.

    Attributes
    ----------
    hulls : tuple of uint64 arrays
        Per class that the client has points of: the bins of the vertices of the quantised hull.
    classes : tuple of int
        These classes, as the client numbers them.
    vertices : tuple of arrays (m, 2)
        Per such class the hull's vertices before quantisation.
    num_points : int
        Points that the hulls are of.
    moved : int
        Points that lay beyond the public radius and were moved onto it.
    thinned : int
        Vertices that the public cap cost.
    """

    hulls: tuple[Bins, ...]
    classes: tuple[int, ...]
    vertices: tuple[NDArray[np.float64], ...]
    num_points: int
    moved: int
    thinned: int

    @cached_property
    def num_revealed(self) -> int:
        """Vertices that would leave the client, each as the bin that it lies in."""
        return sum(len(hull) for hull in self.hulls)

    @property
    def share_revealed(self) -> float:
        """Of its points; 0 for a client without."""
        return self.num_revealed / self.num_points if self.num_points else 0.0

    @property
    def largest(self) -> int:
        """Vertices of its largest hull."""
        return max(map(len, self.hulls), default=0)


def local_hulls(points: NDArray[np.float64], labels: NDArray[np.int64], public: Public) -> LocalHulls:
    """Per class: hull, quantisation, and the hull of what that gives (Definition 3), thinned to the public cap.

    Parameters
    ----------
    points : array (n, 2)
        In the disc.
    labels : array (n,)
        Whole numbers, of the client's own choice.

    Raises
    ------
    ValueError
        If a point is not in the disc, or there are more classes than the public number.
    """
    classes = np.unique(labels).tolist()
    if len(classes) > public.num_classes:
        raise ValueError(f"there are points of more classes than the public number, {public.num_classes}")
    inside, moved = public.quantizer.clamp(points)
    hulls, vertices, thinned = [], [], 0
    for one in classes:
        mine = inside[labels == one]
        corners = mine[convex_hull(mine, public.curvature)]
        bins = np.unique(public.quantizer.encode(corners))
        centres = public.quantizer.decode(bins)
        kept = convex_hull(centres, public.curvature)
        thinned += max(0, len(kept) - public.cap)
        kept = kept[thin(centres[kept], public.curvature, public.cap)]
        hulls.append(np.sort(bins[kept]))
        vertices.append(corners)
    return LocalHulls(tuple(hulls), tuple(classes), tuple(vertices), len(points), moved, thinned)
