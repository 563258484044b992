"""Points of hyperbolic space, with gradients, steps and means in orthonormal frames. Moves and
means are computed in float64: far out, float32 loses a step of length 1.

The frame of a point is that of the origin, moved along the geodesic from there. In it a gradient is
the Riemannian gradient and a step has its hyperbolic length, whatever the coordinates, so Adam and
SGD work on it unchanged (Bonnabel, 2013; Bécigneul & Ganea, 2019, with the transport that keeps the
frame's coordinates).

At curvature 0 the coordinates of both charts are flat: steps are added, rows are averaged, and no
chart is needed.
"""

import math

import torch
from torch import Tensor

from curvfed.geometry.arguments import check_points
from curvfed.geometry.safe_math import (
    asinh_root,
    asinhc,
    floor,
    root,
    sinhc_cosh,
    squared,
    squared64,
)

_SHARE = 0.8


def farthest(dtype: torch.dtype) -> float:
    """Largest distance of a row from the origin at curvature −1: 12.8 in float32, 28.8 in float64,
    where points at distance 1 from each other still have about a fifth of their digits."""
    return -_SHARE * math.log(floor(dtype))


class Hyperboloid:
    """Points by the space coordinates s (..., d) of (√(1/|c| + |s|²), s) (Nickel & Kiela, 2018).

    Parameters
    ----------
    curvature : float
        c, negative.

    Attributes
    ----------
    has_flat_steps : bool
        Whether steps are taken in the coordinates themselves, and not along geodesics.

    Examples
    --------
    >>> chart = Hyperboloid()
    >>> s = torch.tensor([[3.0, 0.0]])
    >>> chart.move(s, -chart.log(torch.zeros(1, 2), s)).abs().round(decimals=4)
    tensor([[0., 0.]])
    """

    has_flat_steps = False

    def __init__(self, curvature: float = -1.0) -> None:
        self.scale = math.sqrt(-curvature)

    def unit_space(self, rows: Tensor) -> Tensor:
        """The space coordinates of rows, scaled to curvature −1, in float64."""
        return self.scale * rows.double()

    def of_unit_space(self, space: Tensor) -> Tensor:
        """The rows with these space coordinates at curvature −1."""
        return space / self.scale

    def ball(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The points, scaled to the unit ball, (..., d), and 1/(1 − |x|²) (..., 1)."""
        space = self.scale * rows
        time = (squared(space) + 1).sqrt()
        return space / (time + 1), (time + 1) / 2

    def distance(self, quotient: Tensor) -> Tensor:
        """Distances by |x − y|²/((1 − |x|²)(1 − |y|²)) of points of the unit ball, which is
        sinh²(√|c|·dist/2)."""
        return asinh_root(quotient) * (2 / self.scale)

    def gradient(self, rows: Tensor, gradient: Tensor) -> Tensor:
        """The Riemannian gradient in the frames, from that by the coordinates."""
        space = self.scale * rows
        time = (squared(space) + 1).sqrt()
        along = (gradient * space).sum(-1, keepdim=True)
        return torch.addcmul(gradient, along / (time + 1), space)

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
        along = (space * turned).sum(-1, keepdim=True)
        moved = torch.addcmul(turned, cosh + along / (time + 1), space)
        bounded = moved * (math.sinh(reach) / root(squared(moved))).clamp(max=1)
        return self.of_unit_space(bounded).to(rows.dtype)

    def offset(self, rows: Tensor, ends: Tensor) -> Tensor:
        """Lorentz coordinates (..., d+1) of `ends` at curvature −1 where the frames of `rows` are
        that of the origin, the first less 1: all 0 for equal points. Their sums have a centroid."""
        space = self.unit_space(rows)
        target = self.unit_space(ends)
        time = (squared(space) + 1).sqrt()
        target_time = (squared(target) + 1).sqrt()
        along = (space * target).sum(-1, keepdim=True)
        back = torch.addcmul(target, along / (time + 1) - target_time, space)
        square = squared(back)
        above = square / ((square + 1).sqrt() + 1)
        return torch.cat([above, back], dim=-1).to(rows.dtype)

    def log(self, rows: Tensor, ends: Tensor) -> Tensor:
        """The steps (..., d) in the frames of `rows` that lead to `ends`; the inverse of `move`."""
        return _step(self.offset(rows, ends)[..., 1:]) / self.scale

    def move_to_centroid(self, rows: Tensor, means: Tensor) -> Tensor:
        """The points on the rays of means of `offset`: the weighted Lorentz centroids (Law et al.,
        2019)."""
        above, space = means.double().split([1, means.shape[-1] - 1], dim=-1)
        length = (1 + above * (2 + above) - squared64(space)).clamp(min=1)
        steps = _step(space / length.sqrt()) / self.scale
        return self.move(rows, steps.to(rows.dtype))


class Normal(Hyperboloid):
    """Points of the Poincaré ball by their normal coordinates v (..., d), the point
    tanh(√|c||v|)v/(√|c||v|) at distance 2|v| from the origin.

    Flat steps suit them: a step turns a far point by as much as a near one.

    Examples
    --------
    >>> Normal().move(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor([[0.5000, 0.0000]])
    """

    has_flat_steps = True

    def unit_space(self, rows: Tensor) -> Tensor:
        """The space coordinates sinh(2|v|)v/|v| of v = √|c|·rows, in float64, at most `farthest`
        from the origin, as flat steps may lead farther."""
        unit = self.scale * rows.double()
        ratio, _ = sinhc_cosh(4 * squared(unit), farthest(rows.dtype))
        return 2 * ratio * unit

    def of_unit_space(self, space: Tensor) -> Tensor:
        """The inverse of `unit_space`."""
        return _step(space) / (2 * self.scale)

    def ball(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """See `Hyperboloid`; 1/(1 − |x|²) is cosh²(√|c||v|)."""
        unit = self.scale * rows
        ratio, cosh = sinhc_cosh(squared(unit), farthest(rows.dtype) / 2)
        return ratio / cosh * unit, cosh.square()


class Geodesic(Normal):
    """Normal coordinates with steps along geodesics.

    The metric is that of the coordinates at the origin, a quarter of the ball's. A step is the same
    as a flat one at the origin, and at every point as the curvature goes to 0.

    Examples
    --------
    >>> Geodesic().gradient(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor([[2., 0.]])
    """

    has_flat_steps = False

    def gradient(self, rows: Tensor, gradient: Tensor) -> Tensor:
        """See `Hyperboloid`. Along the ray from the origin a coordinate is half a distance; across
        it, at a coordinate r at curvature −1, it is sinh(2r)/r."""
        unit = self.scale * rows.double()
        square = squared(unit)
        # sinh(2r)/2r
        stretch, _ = sinhc_cosh(4 * square, farthest(rows.dtype))
        ray = unit / root(square)
        along = (gradient * ray).sum(-1, keepdim=True) * ray
        across = gradient - along
        return (2 * along + 2 * across / stretch).to(rows.dtype)


def _step(space: Tensor) -> Tensor:
    """The tangent vectors at the origin of points of curvature −1 by their space coordinates."""
    return asinhc(root(squared(space))) * space
