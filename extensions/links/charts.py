"""Points of hyperbolic space by rows of an embedding: places in the ball, steps between points, and
means, in the frames of `curvfed.geometry.frames`.

At curvature 0 the coordinates of both charts are flat: rows are averaged, and no chart is needed.
"""

import torch
from torch import Tensor

from curvfed.geometry.frames import Chart, Geodesic, farthest, tangents
from curvfed.geometry.safe_math import asinh_root, dot, sinhc_cosh, squared, squared64


class Hyperboloid(Chart):
    """Points by the space coordinates s (..., d) of (√(1/|c| + |s|²), s) (Nickel & Kiela, 2018).

    Parameters
    ----------
    curvature : float
        c, negative.

    Examples
    --------
    >>> chart = Hyperboloid()
    >>> s = torch.tensor([[3.0, 0.0]])
    >>> chart.move(s, -chart.log(torch.zeros(1, 2), s)).abs().round(decimals=4)
    tensor([[0., 0.]])
    """

    def unit_space(self, rows: Tensor) -> Tensor:
        """The rows, scaled to curvature −1, in float64."""
        return self.scale * rows.double()

    def of_unit_space(self, space: Tensor) -> Tensor:
        """The inverse of `unit_space`."""
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
        """See `Chart`."""
        space = self.scale * rows
        time = (squared(space) + 1).sqrt()
        along = dot(gradient, space)
        return torch.addcmul(gradient, along / (time + 1), space)

    def offset(self, rows: Tensor, ends: Tensor) -> Tensor:
        """Lorentz coordinates (..., d+1) of `ends` at curvature −1 where the frames of `rows` are
        that of the origin, the first less 1: all 0 for equal points. Their sums have a centroid."""
        space = self.unit_space(rows)
        target = self.unit_space(ends)
        time = (squared(space) + 1).sqrt()
        target_time = (squared(target) + 1).sqrt()
        along = dot(space, target)
        back = torch.addcmul(target, along / (time + 1) - target_time, space)
        square = squared(back)
        above = square / ((square + 1).sqrt() + 1)
        return torch.cat([above, back], dim=-1).to(rows.dtype)

    def log(self, rows: Tensor, ends: Tensor) -> Tensor:
        """The steps (..., d) in the frames of `rows` that lead to `ends`; the inverse of `move`."""
        return tangents(self.offset(rows, ends)[..., 1:]) / self.scale

    def move_to_centroid(self, rows: Tensor, means: Tensor) -> Tensor:
        """The points on the rays of means of `offset`: the weighted Lorentz centroids (Law et al.,
        2019)."""
        above, space = means.double().split([1, means.shape[-1] - 1], dim=-1)
        length = (1 + above * (2 + above) - squared64(space)).clamp(min=1)
        steps = tangents(space / length.sqrt()) / self.scale
        return self.move(rows, steps.to(rows.dtype))


class Normal(Geodesic, Hyperboloid):
    """Points of the Poincaré ball by their normal coordinates, as in `Geodesic`.

    Flat steps suit them: a step turns a far point by as much as a near one.

    Examples
    --------
    >>> Normal().move(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    tensor([[0.5000, 0.0000]])
    """

    has_flat_steps = True

    def ball(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """See `Hyperboloid`; 1/(1 − |x|²) is cosh²(√|c||v|)."""
        unit = self.scale * rows
        ratio, cosh = sinhc_cosh(squared(unit), farthest(rows.dtype) / 2)
        return ratio / cosh * unit, cosh.square()
