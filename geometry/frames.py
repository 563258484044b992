"""Points in hyperbolic space of curvature −1, with gradients, steps and means in orthonormal
frames. Moves and means are computed in float64: far out, float32 loses a step of length 1.

The frame of a point is that of the origin, moved along the geodesic from there. In it a gradient is
the Riemannian gradient and a step has its hyperbolic length, whatever the coordinates, so Adam and
SGD work on it unchanged (Bonnabel, 2013; Bécigneul & Ganea, 2019, with the transport that keeps the
frame's coordinates).
"""

import math

import torch
from torch import Tensor

from curvfed.geometry.arguments import check_points
from curvfed.geometry.safe_math import asinhc, floor, root, sinhc_cosh, squared, squared64

_SHARE = 0.8


def farthest(dtype: torch.dtype) -> float:
    """Largest distance of a row from the origin: 12.8 in float32, 28.8 in float64, where points at
    distance 1 from each other still have about a fifth of their digits."""
    return -_SHARE * math.log(floor(dtype))


class Hyperboloid:
    """Points by the space coordinates s (..., d) of (√(1 + |s|²), s) (Nickel & Kiela, 2018).

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

    def space(self, rows: Tensor) -> Tensor:
        """The space coordinates of rows, in float64."""
        return rows.double()

    def of_space(self, space: Tensor) -> Tensor:
        """The rows with these space coordinates."""
        return space

    def ball(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The points in the unit ball (..., d), and 1/(1 − |x|²) (..., 1)."""
        time = (squared(rows) + 1).sqrt()
        return rows / (time + 1), (time + 1) / 2

    def gradient(self, rows: Tensor, gradient: Tensor) -> Tensor:
        """The Riemannian gradient in the frames, from that by the coordinates."""
        time = (squared(rows) + 1).sqrt()
        along = (gradient * rows).sum(-1, keepdim=True)
        return torch.addcmul(gradient, along / (time + 1), rows)

    def move(self, rows: Tensor, steps: Tensor) -> Tensor:
        """The points at the ends of the geodesics with these steps (..., d) in the frames, at most
        `farthest` from the origin."""
        check_points(rows=rows, steps=steps)
        space = self.space(rows)
        time = (squared(space) + 1).sqrt()
        reach = farthest(rows.dtype)
        ratio, cosh = sinhc_cosh(squared64(steps), reach)
        turned = ratio * steps
        along = (space * turned).sum(-1, keepdim=True)
        moved = torch.addcmul(turned, cosh + along / (time + 1), space)
        within = moved * (math.sinh(reach) / root(squared(moved))).clamp(max=1)
        return self.of_space(within).to(rows.dtype)

    def offset(self, rows: Tensor, ends: Tensor) -> Tensor:
        """Lorentz coordinates (..., d+1) of `ends` where the frames of `rows` are that of the
        origin, the first less 1: all 0 for equal points. Their sums have a centroid."""
        space = self.space(rows)
        target = self.space(ends)
        time = (squared(space) + 1).sqrt()
        target_time = (squared(target) + 1).sqrt()
        along = (space * target).sum(-1, keepdim=True)
        back = torch.addcmul(target, along / (time + 1) - target_time, space)
        square = squared(back)
        return torch.cat([square / ((square + 1).sqrt() + 1), back], dim=-1).to(rows.dtype)

    def log(self, rows: Tensor, ends: Tensor) -> Tensor:
        """The steps (..., d) in the frames of `rows` that lead to `ends`; the inverse of `move`."""
        return _step(self.offset(rows, ends)[..., 1:])

    def move_to_centroid(self, rows: Tensor, means: Tensor) -> Tensor:
        """The points on the rays of means of `offset`: the weighted Lorentz centroids (Law et al.,
        2019)."""
        above, space = means.double().split([1, means.shape[-1] - 1], dim=-1)
        length = (1 + above * (2 + above) - squared64(space)).clamp(min=1)
        return self.move(rows, _step(space / length.sqrt()).to(rows.dtype))


class Normal(Hyperboloid):
    """Points of the Poincaré ball by their normal coordinates v (..., d), the point tanh(|v|)v/|v|
    at distance 2|v| from the origin.

    Flat steps suit them: a step turns a far point by as much as a near one.

    Examples
    --------
    >>> Normal().move(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor([[0.5000, 0.0000]])
    """

    has_flat_steps = True

    def space(self, rows: Tensor) -> Tensor:
        """The space coordinates sinh(2|v|)v/|v|, in float64, at most `farthest` from the origin, as
        flat steps may lead farther."""
        ratio, _ = sinhc_cosh(4 * squared64(rows), farthest(rows.dtype))
        return 2 * ratio * rows

    def of_space(self, space: Tensor) -> Tensor:
        """The inverse of `space`."""
        return _step(space) / 2

    def ball(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """See `Hyperboloid`; 1/(1 − |x|²) is cosh²|v|."""
        ratio, cosh = sinhc_cosh(squared(rows), farthest(rows.dtype) / 2)
        return ratio / cosh * rows, cosh.square()


def _step(space: Tensor) -> Tensor:
    """The tangent vectors at the origin of points by their space coordinates."""
    return asinhc(root(squared(space))) * space
