"""Coordinates of points of hyperbolic space in which far points stay apart, and in which steps are
those of a plane."""

import math
from typing import Any

import torch
from torch import Tensor

from curvfed.geometry.arguments import Curvature, check_points, magnitude, per_set
from curvfed.geometry.custom_gradient import Gradients, custom_gradient
from curvfed.geometry.safe_math import (
    asinh_root,
    asinhc,
    floor,
    max_radius,
    root,
    sinhc_cosh,
    squared,
    squared64,
    through_norms,
)


def cdist(v: Tensor, w: Tensor, curvature: Curvature) -> Tensor:
    """Geodesic distances of all exp0(vᵢ) from all exp0(wⱼ), in memory O(n·m).

    Any vector v is the normal coordinates of a point, exp0(v), at distance 2‖v‖ from the origin. In
    float32 they tell points apart far beyond the limit of the ball's own coordinates, so features
    and prototypes are stored in this form.

    Parameters
    ----------
    v : Tensor (..., n, d)
        For example features; their squared lengths must be finite, √|c|‖v‖ up to 1e18 in float32.
    w : Tensor (..., m, d)
        For example prototypes. Those farther than `safe_math.max_radius`/√|c| from the origin,
        39.9/√|c| in float32, are read as if at this distance.
    curvature : float or Tensor
        A tensor broadcasts with the batch shape (...), without n and m.

    Returns
    -------
    Tensor (..., n, m)
        Error ≤ 8·eps·(dist + cosh(r)/√|c|), r the radius √|c|·2‖·‖ of the point nearer to the
        origin. The gradient where the points are equal, where none exists, is 0.

    Notes
    -----
    HyperFed's Eq. 7 uses these distances, with its Eq. 6. At curvature −1, with x = tanh(‖v‖)v/‖v‖
    and y likewise from w, sinh(dist/2) = ‖x − y‖·cosh‖v‖·cosh‖w‖. Only x − y can cancel, and there
    is no 0/0 at v = 0.

    Examples
    --------
    >>> v = torch.tensor([[1.0, 0.0], [100.0, 0.0]])
    >>> cdist(v, torch.tensor([[-1.0, 0.0]]), curvature=-1.0).round(decimals=3)
    tensor([[  4.],
            [202.]])
    """
    check_points(v=v, w=w)
    if isinstance(curvature, float) and curvature == -1.0:
        return _distances(v, w)
    scale = magnitude(per_set(curvature)) ** 0.5
    unit_v = (scale * v).to(v.dtype)
    unit_w = (scale * w).to(w.dtype)
    return (_distances(unit_v, unit_w) / scale).to(v.dtype)


def _forward(v: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    """The distances at curvature −1. With the gradient in closed form, a batch costs a dozen
    operations each way."""
    x, *v_parts = _ball(v)
    y, *w_parts = _ball(w)
    # By differences: the matrix product ‖x‖² + ‖y‖² − 2⟨x, y⟩ would lose the difference of near
    # points.
    apart = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
    both = v_parts[-1] * w_parts[-1].mT
    sinh = apart * both
    square = sinh * sinh
    cosh = (square + 1).sqrt_()
    # asinh; torch's own kernel is several times slower.
    half = square.div_(cosh + 1).add_(sinh).log1p_()
    # Beyond the overflow of the hyperbolic functions, the distance grows with the length.
    beyond = v_parts[0] - v_parts[0].clamp(max=max_radius(v.dtype) / 2)
    return half.add_(beyond).mul_(2), x, y, *v_parts, *w_parts, apart, both, cosh


def _backward(
    gradient: Tensor, inputs: tuple[Any, ...], output: tuple[Tensor, ...], needs: tuple[bool, ...]
) -> Gradients:
    v, w = inputs
    _, x, y, v_length, v_ratio, v_cosh, w_length, w_ratio, w_cosh, apart, both, cosh = output
    by_sinh = 2 * gradient / cosh
    by_apart = by_sinh * both
    by_both = by_sinh * apart
    gradients: list[Tensor | None] = [None, None]
    if needs[0]:
        by_x = through_norms(by_apart, x, y, apart)
        by_v_cosh = _product(by_both, w_cosh)
        by_v = _through_ball(by_x, by_v_cosh, v, v_length, v_ratio, v_cosh)
        gradients[0] = by_v.sum_to_size(v.shape)
    if needs[1]:
        by_y = through_norms(by_apart.mT, y, x, apart.mT)
        is_within = w_length <= max_radius(w.dtype) / 2
        by_w_cosh = _product(by_both.mT, v_cosh).where(is_within, 0.0)
        by_w = _through_ball(by_y, by_w_cosh, w, w_length, w_ratio, w_cosh)
        gradients[1] = by_w.sum_to_size(w.shape)
    return tuple(gradients)


def _formula(v: Tensor, w: Tensor) -> Tensor:
    """The distances in torch's own operations, in memory O(n·m·d)."""
    limit = max_radius(v.dtype) / 2
    v_square = squared64(v)
    v_sinhc, v_cosh = sinhc_cosh(v_square, limit)
    w_sinhc, w_cosh = sinhc_cosh(squared64(w), limit)
    # x·cosh‖v‖·cosh‖w‖ and y·cosh‖v‖·cosh‖w‖ of all pairs.
    scaled_x = (v * v_sinhc).unsqueeze(-2) * w_cosh.unsqueeze(-3)
    scaled_y = (w * w_sinhc).unsqueeze(-3) * v_cosh.unsqueeze(-2)
    square = squared64(scaled_x - scaled_y)
    half = asinh_root(square).squeeze(-1)
    beyond = root(v_square) - root(v_square).clamp(max=limit)
    return 2 * (half + beyond).to(v.dtype)


def _product(x: Tensor, y: Tensor) -> Tensor:
    if not torch.is_autocast_enabled(x.device.type):
        return x @ y
    with torch.autocast(x.device.type, enabled=False):
        return x @ y


def _ball(v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """exp0(v) (..., d), and (..., 1) each: ‖v‖, tanh(n)/‖v‖ and cosh(n), where n is ‖v‖, limited so
    that cosh does not overflow."""
    length = torch.linalg.vector_norm(v, dim=-1, keepdim=True).clamp(min=floor(v.dtype))
    n = length.clamp(max=max_radius(v.dtype) / 2)
    ratio = n.tanh().div_(length)
    return ratio * v, length, ratio, n.cosh_()


def _through_ball(
    by_x: Tensor, by_cosh: Tensor, v: Tensor, length: Tensor, ratio: Tensor, cosh: Tensor
) -> Tensor:
    """The gradient with respect to v, from those with respect to the results of `_ball`.

    Beyond the limit of n, the gradient by cosh gives the growth of the distance with the length, up
    to rounding: sinh(dist/2) is as large as its cosh.
    """
    along = (by_x * v).sum(-1, keepdim=True)
    sinh = ratio * length * cosh
    through_ratio = along * (cosh.pow(-2) - ratio) / length
    radial = (through_ratio + by_cosh * sinh) / length
    return torch.addcmul(ratio * by_x, radial, v)


_distances = custom_gradient(_forward, _backward, _formula)

_SHARE = 0.8


def farthest(dtype: torch.dtype) -> float:
    """Largest distance of a row from the origin: 12.8 in float32, 28.8 in float64, where points at
    distance 1 from each other still have about a fifth of their digits."""
    return -_SHARE * math.log(floor(dtype))


class Hyperboloid:
    """Points by the space coordinates s (..., d) of (√(1 + |s|²), s) (Nickel & Kiela, 2018).

    Points in hyperbolic space of curvature −1, with gradients, steps and means in orthonormal
    frames. Moves and means are computed in float64: far out, float32 loses a step of length 1.

    The frame of a point is that of the origin, moved along the geodesic from there. In it a
    gradient is the Riemannian gradient and a step has its hyperbolic length, whatever the
    coordinates, so Adam and SGD work on it unchanged (Bonnabel, 2013; Bécigneul & Ganea, 2019, with
    the transport that keeps the frame's coordinates).

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
