"""Functions with an edge (0/0, √0, overflow) in a form that keeps value, gradient and second
derivative finite, and Euclidean distances of all pairs of points, which have such an edge at 0.

A ratio that tends to 1 at 0 is evaluated at ``max(x, √eps)``. The error, at most x²/6, is below
rounding, and so is the gradient that the clamp sets to 0; the error of second derivatives is x/3.
(The usual alternative, two `where` around a series, costs three more kernels.)
"""

import math
from typing import Any

import torch
from torch import Tensor

from curvfed.geometry.custom_gradient import Gradients, custom_gradient, under_torch_func

_SMALLER = 2.0**-40  # float32 squares numbers up to 1e19


def norm_square(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """`squared`, but its gradient cannot be differentiated again: that of the norm at 0 does not
    depend on x."""
    if x.shape[-1] <= 64:
        length = norm(x, dtype)
        return length * length
    x = x.to(dtype or x.dtype)
    return (x * x).sum(-1, keepdim=True)


def norm(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The root of `norm_square`."""
    if x.shape[-1] > 64:
        return norm_square(x, dtype).sqrt_()
    # One pass, which adds in a few long chains: at d = 1000 its error would be 18·eps.
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=dtype)


def _wide_square(x: Tensor) -> tuple[Tensor]:
    """‖x‖² in float64, summed in the dtype of x from coordinates that are scaled down."""
    if x.dtype == torch.float64:
        return (norm_square(x),)
    square = norm_square(x * _SMALLER).double()
    return (square * _SMALLER**-2,)


def _square_gradient(
    gradient: Tensor, inputs: tuple[Tensor], output: object, needs: object
) -> Gradients:
    (x,) = inputs
    return ((2 * gradient).to(x.dtype) * x,)


squared = custom_gradient(lambda x: (norm_square(x),), _square_gradient, None)
"""‖x‖², (..., d) -> (..., 1); relative error ≤ 5·eps for d ≤ 1000."""

squared64 = custom_gradient(lambda x: (norm_square(x, torch.float64),), _square_gradient, None)
"""‖x‖² in float64, with a gradient in the dtype of x."""

wide_squared = custom_gradient(_wide_square, _square_gradient, None)
"""‖x‖² in float64 with the precision of x: relative error ≤ 5·eps for norms from 1e-6 to 1e30; the
squares of smaller norms are too small or 0."""


def dot(x: Tensor, y: Tensor) -> Tensor:
    """⟨x, y⟩, (..., d), (..., d) -> (..., 1)."""
    return (x * y).sum(-1, keepdim=True)


def floor(dtype: torch.dtype) -> float:
    """The rounding of a dtype: 1.2e-7 float32, 2.2e-16 float64."""
    return torch.finfo(dtype).eps


def max_radius(dtype: torch.dtype) -> float:
    """Largest r for which sinh(r)² times any usual dimension is finite: 39.9 float32, 319
    float64.
    """
    return 0.45 * math.log(torch.finfo(dtype).max)


def root(square: Tensor) -> Tensor:
    """√q, at least √eps; below that, a ratio such as sinh(x)/x is 1 to working precision, and the
    gradient is 0."""
    return square.clamp(min=floor(square.dtype)).sqrt()


def sinhc_cosh(square: Tensor, limit: float | Tensor) -> tuple[Tensor, Tensor]:
    """sinh(r)/x and cosh(r) with r = min(x, limit), of x².

    Parameters
    ----------
    square : Tensor (...)
        x², finite.
    limit : float or Tensor
        At most `max_radius`.

    Returns
    -------
    tuple of Tensor (...)
        Relative error of both ≤ (3 + r)·eps; the gradients are finite, with respect to `square`
        too.
    """
    x = root(square)
    r = torch.minimum(x, limit) if isinstance(limit, Tensor) else x.clamp(max=limit)
    ratio = r.sinh() / x
    cosh = (1 + ratio.square() * square).sqrt()
    return ratio, cosh


def _asinh_forward(x: Tensor) -> tuple[Tensor]:
    """log1p(x + x²/(1 + √(1 + x²)))."""
    below = (x * x).add_(1).sqrt_().add_(1)
    value = (x / below).mul_(x).add_(x).log1p_()
    return (value,)


def _asinh_backward(
    gradient: Tensor, inputs: tuple[Tensor], output: object, needs: object
) -> Gradients:
    (x,) = inputs
    slope = (x * x + 1).rsqrt()
    return (gradient * slope,)


asinh = custom_gradient(_asinh_forward, _asinh_backward, None)
"""asinh(x) of x ≥ 0, several times faster than torch's kernel; relative error ≤ 3·eps where x² is
finite."""


def _asinh_root_forward(square: Tensor) -> tuple[Tensor]:
    below = (square + 1).sqrt_().add_(1)
    value = (square / below).add_(square.sqrt()).log1p_()
    return (value,)


def _asinh_root_backward(
    gradient: Tensor, inputs: tuple[Tensor], output: object, needs: object
) -> Gradients:
    (square,) = inputs
    tiny = torch.finfo(square.dtype).tiny
    slope = square.clamp(min=tiny).rsqrt() * (square + 1).rsqrt()
    return (torch.where(square < tiny, 0.0, gradient / 2 * slope),)


asinh_root = custom_gradient(_asinh_root_forward, _asinh_root_backward, None)
"""asinh(√q) of a finite q ≥ 0; the gradient at 0, where none exists, is 0. Relative error ≤ 4·eps
where q is normal."""


def asinhc(x: Tensor) -> Tensor:
    """asinh(x)/x.

    Parameters
    ----------
    x : Tensor (...), 0 ≤ x ≤ sinh(`max_radius`)

    Returns
    -------
    Tensor (...)
        Relative error ≤ 4·eps; the gradient is finite, 0 at x = 0.
    """
    x = x.clamp(min=floor(x.dtype) ** 0.5)
    return asinh(x) / x


def arc_factors(q: Tensor) -> tuple[Tensor, Tensor]:
    """δ/sinh δ and δ·tanh(δ/2), smooth in q = sinh²(δ/2): 1 − 2q/3 + … and 2q − ….

    Parameters
    ----------
    q : Tensor (...), 0 ≤ q, finite

    Returns
    -------
    tuple of Tensor (...)
        Relative error of both ≤ 6·eps; the gradients are finite (that of the first is 0 for
        q < eps).
    """
    arc = asinhc(root(q))
    cosh = (1 + q).sqrt()
    return arc / cosh, 2 * arc * (q / cosh)


_TINY = 2.0**-1022


def norms_apart(x: Tensor, y: Tensor) -> Tensor:
    """‖xᵢ − yⱼ‖, (..., n, d), (..., m, d) -> (..., n, m), from differences.

    The matrix product ‖x‖² + ‖y‖² − 2⟨x, y⟩ would be faster, but its error is eps where the
    distance needs eps·‖x − y‖², and near the boundary all distances are short. Second derivatives,
    which `torch.cdist` lacks, take memory O(n·m·d).
    """
    return _norms_apart(x, y)


def _norms_forward(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist"),)


def _norms_backward(
    gradient: Tensor, inputs: tuple[Any, ...], output: tuple[Tensor, ...], needs: tuple[bool, ...]
) -> Gradients:
    x, y = inputs
    (apart,) = output
    by_x = None
    by_y = None
    if needs[0]:
        by_x = through_norms(gradient, x, y, apart).sum_to_size(x.shape)
    if needs[1]:
        by_y = through_norms(gradient.mT, y, x, apart.mT).sum_to_size(y.shape)
    return by_x, by_y


def through_norms(gradient: Tensor, x: Tensor, y: Tensor, apart: Tensor) -> Tensor:
    """The gradient with respect to x of the norms ‖xᵢ − yⱼ‖; a norm of 0 adds 0."""
    shape = apart.shape[:-2]
    wide_x = x.expand(*shape, *x.shape[-2:])
    wide_y = y.expand(*shape, *y.shape[-2:])
    through = _ThroughNorms.apply if under_torch_func() else _cdist_backward
    return through(gradient, wide_x, wide_y, apart)


def _cdist_backward(gradient: Tensor, x: Tensor, y: Tensor, apart: Tensor) -> Tensor:
    return torch.ops.aten._cdist_backward(
        gradient.contiguous(), x.contiguous(), y.contiguous(), 2.0, apart.contiguous()
    )


class _ThroughNorms(torch.autograd.Function):
    """The backward pass of `torch.cdist`; torch's own vmap of it is wrong if some arguments are not
    batched."""

    @staticmethod
    def forward(*tensors: Tensor) -> Tensor:
        return _cdist_backward(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> tuple[Tensor, int]:
        batched = []
        for tensor, dim in zip(tensors, in_dims, strict=True):
            if dim is None:
                batched.append(tensor.expand(info.batch_size, *tensor.shape))
            else:
                batched.append(tensor.movedim(dim, 0))
        return _ThroughNorms.apply(*batched), 0


def _norms_formula(x: Tensor, y: Tensor) -> Tensor:
    """The norms; a norm of 0 has the gradient 0."""
    apart = x.unsqueeze(-2) - y.unsqueeze(-3)
    square = apart.double().square().sum(-1)
    length = square.clamp(min=_TINY).sqrt()
    return torch.where(square < _TINY, 0.0, length).to(x.dtype)


_norms_apart = custom_gradient(_norms_forward, _norms_backward, _norms_formula)
