"""Points of the Poincaré ball by their normal coordinates, with gradients and steps in orthonormal
frames. Moves are computed in float64: far out, float32 loses a step of length 1.

The frame of a point is that of the origin, moved along the geodesic from there. In it a gradient is
the Riemannian gradient and a step has its hyperbolic length, whatever the coordinates, so Adam and
SGD work on it unchanged (Bonnabel, 2013; Bécigneul & Ganea, 2019, with the transport that keeps the
frame's coordinates).

At curvature 0 the coordinates are flat: steps are added, and no chart is needed.
"""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from curvfed.geometry.arguments import check_points
from curvfed.geometry.safe_math import asinhc, dot, floor, root, sinhc_cosh, squared

_SHARE = 0.8


def farthest(dtype: torch.dtype) -> float:
    """Largest distance of a row from the origin at curvature −1: 12.8 in float32, 28.8 in float64,
    where points at distance 1 from each other still have about a fifth of their digits."""
    return -_SHARE * math.log(floor(dtype))


class Chart(ABC):
    """Coordinates of points (..., d).

    Parameters
    ----------
    curvature : float
        c, negative.

    Attributes
    ----------
    has_flat_steps : bool
        Whether steps are taken in the coordinates themselves, and not along geodesics.
    """

    has_flat_steps = False

    def __init__(self, curvature: float = -1.0) -> None:
        self.scale = math.sqrt(-curvature)

    @abstractmethod
    def unit_space(self, rows: Tensor) -> Tensor:
        """The space coordinates s (..., d) of the points (√(1 + |s|²), s) of rows, scaled to
        curvature −1, in float64."""

    @abstractmethod
    def of_unit_space(self, space: Tensor) -> Tensor:
        """The rows with these space coordinates at curvature −1."""

    @abstractmethod
    def gradient(self, rows: Tensor, gradient: Tensor) -> Tensor:
        """The Riemannian gradient in the frames, from that by the coordinates."""

    def move(self, rows: Tensor, steps: Tensor) -> Tensor:
        """The points at the ends of the geodesics with these steps (..., d) in the frames, at most
        `farthest`/√|c| from the origin."""
        check_points(rows=rows, steps=steps)
        space = self.unit_space(rows)
        time = (squared(space) + 1).sqrt()
        reach = farthest(rows.dtype)
        unit_steps = self.scale * steps.double()
        ratio, cosh = sinhc_cosh(squared(unit_steps), reach)
        turned = ratio * unit_steps
        along = dot(space, turned)
        moved = torch.addcmul(turned, cosh + along / (time + 1), space)
        bounded = moved * (math.sinh(reach) / root(squared(moved))).clamp(max=1)
        return self.of_unit_space(bounded).to(rows.dtype)


class Geodesic(Chart):
    """Points of the Poincaré ball by their normal coordinates v (..., d), the point
    tanh(√|c||v|)v/(√|c||v|) at distance 2|v| from the origin, with steps along geodesics.

    The metric is that of the coordinates at the origin, a quarter of the ball's. A step is the same
    as a flat one at the origin, and at every point as the curvature goes to 0.

    Examples
    --------
    >>> Geodesic().gradient(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor([[2., 0.]])
    >>> Geodesic().move(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor([[0.5000, 0.0000]])
    """

    def unit_space(self, rows: Tensor) -> Tensor:
        """The space coordinates sinh(2|v|)v/|v| of v = √|c|·rows, in float64, at most `farthest`
        from the origin, as flat steps may lead farther."""
        unit = self.scale * rows.double()
        ratio, _ = sinhc_cosh(4 * squared(unit), farthest(rows.dtype))
        return 2 * ratio * unit

    def of_unit_space(self, space: Tensor) -> Tensor:
        """The inverse of `unit_space`."""
        return tangents(space) / (2 * self.scale)

    def gradient(self, rows: Tensor, gradient: Tensor) -> Tensor:
        """See `Chart`. Along the ray from the origin a coordinate is half a distance; across it, at
        a coordinate r at curvature −1, it is sinh(2r)/r."""
        unit = self.scale * rows.double()
        square = squared(unit)
        # sinh(2r)/2r
        stretch, _ = sinhc_cosh(4 * square, farthest(rows.dtype))
        ray = unit / root(square)
        along = dot(gradient, ray) * ray
        across = gradient - along
        return (2 * along + 2 * across / stretch).to(rows.dtype)


def tangents(space: Tensor) -> Tensor:
    """The tangent vectors at the origin of points of curvature −1 by their space coordinates."""
    return asinhc(root(squared(space))) * space
