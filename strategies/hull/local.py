"""A client's hulls, and its place among the clients, which the server does not see (Appendix B)."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.arrays import Floats, Integers
from curvfed.geometry.hull import convex_hull, thin
from curvfed.strategies.errors import HullError
from curvfed.strategies.hull.codec import PublicParameters

Bins = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class LocalHulls:
    """The hulls of one client.

    Attributes
    ----------
    hulls : tuple of uint64 arrays
        The bins of the vertices of the quantised hull, for each class of the client's points.
    classes : tuple of int
        These classes, as the client numbers them.
    vertices : tuple of arrays (m, 2)
        The client's points that are the hull's vertices, for each of these classes, before they are
        moved to the public radius and quantised.
    num_points : int
        The client's training points.
    moved : int
        Number of points beyond the public radius, which are moved to it.
    thinned : int
        Number of vertices left out because of the public cap.
    """

    hulls: tuple[Bins, ...]
    classes: tuple[int, ...]
    vertices: tuple[Floats, ...]
    num_points: int
    moved: int
    thinned: int

    @cached_property
    def num_revealed(self) -> int:
        """Number of vertices that leave the client, each as its bin."""
        return sum(len(hull) for hull in self.hulls)

    def revealed(self, public: PublicParameters) -> Floats:
        """The points that leave the client, (m, 2): the hulls' vertices in the bins that are
        sent."""
        points = [np.zeros((0, 2))]
        for corners, hull in zip(self.vertices, self.hulls, strict=True):
            inside, _ = public.quantizer.clamp(corners)
            points.append(corners[np.isin(public.quantizer.encode(inside), hull)])
        return np.concatenate(points)

    @property
    def share_revealed(self) -> float:
        """`num_revealed` as a share of the points; 0 without points."""
        return self.num_revealed / self.num_points if self.num_points else 0.0

    @property
    def largest(self) -> int:
        """The number of vertices of the largest hull."""
        return max(map(len, self.hulls), default=0)


def local_hulls(points: Floats, labels: Integers, public: PublicParameters) -> LocalHulls:
    """For each class: the hull, its quantisation, and the hull of the result (Definition 3),
    thinned to the public cap.

    Parameters
    ----------
    points : array (n, 2)
        In the disc.
    labels : array (n,)
        Whole numbers that the client chooses.

    Raises
    ------
    ValueError
        If a point is not in the disc, or there are more classes than the public number.
    """
    classes = np.unique(labels).tolist()
    if len(classes) > public.num_classes:
        raise ValueError(
            f"there are points of more classes than the public number, {public.num_classes}"
        )
    inside, moved = public.quantizer.clamp(points)
    hulls = []
    vertices = []
    thinned = 0
    for label in classes:
        mine = inside[labels == label]
        extreme = convex_hull(mine, public.curvature)
        corners = mine[extreme]
        bins = np.unique(public.quantizer.encode(corners))
        centres = public.quantizer.decode(bins)
        corner_numbers = convex_hull(centres, public.curvature)
        thinned += max(0, len(corner_numbers) - public.cap)
        corner_numbers = corner_numbers[thin(centres[corner_numbers], public.curvature, public.cap)]
        hulls.append(np.sort(bins[corner_numbers]))
        vertices.append(points[labels == label][extreme])
    return LocalHulls(tuple(hulls), tuple(classes), tuple(vertices), len(points), moved, thinned)


ORDER_NUMBER_BYTES = 16
"""Two of 1000 clients draw the same number with probability 1e-33."""


def draw_order_number() -> bytes:
    """A fresh random number."""
    return secrets.token_bytes(ORDER_NUMBER_BYTES)


def client_position(order_numbers: Mapping[int, bytes], me: int) -> int:
    """This client's position in the order of all clients' numbers, from 0.

    Every client draws a fresh random number and sends it to all others, encrypted with keys that
    are used only for this. The paper derives the number from a secret key that the server can
    recover when a client vanishes; the server could then compute the order.

    Raises
    ------
    HullError
        If a number does not have `ORDER_NUMBER_BYTES` bytes, or two are equal, so that two clients
        would share a position.
    """
    wrong = sorted(
        partition
        for partition, number in order_numbers.items()
        if len(number) != ORDER_NUMBER_BYTES
    )
    if wrong:
        raise HullError(
            f"the order number of partition {wrong[0]} does not have {ORDER_NUMBER_BYTES} bytes",
            key="order-number",
        )
    ordered = sorted(order_numbers.values())
    if len(set(ordered)) < len(ordered):
        raise HullError("two clients have the same order number", key="order-number")
    return ordered.index(order_numbers[me])


def draw_slots(num_slots: int, count: int) -> list[int]:
    """`count` different slots out of 0 … num_slots − 1, at random, so that a slot does not reveal a
    class."""
    return secrets.SystemRandom().sample(range(num_slots), count)
