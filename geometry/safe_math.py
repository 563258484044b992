"""Functions with an edge (0/0, √0, overflow) in a form that keeps value, gradient and second
derivative finite.

A ratio that tends to 1 at 0 is evaluated at ``max(x, √eps)``. The error, at most x²/6, is below
rounding, and so is the gradient that the clamp sets to 0; the error of second derivatives is x/3.
(The usual alternative, two `where` around a series, costs three more kernels.)
"""

import math

import torch
from torch import Tensor

from curvfed.geometry.custom_gradient import Gradients, custom_gradient

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
    length: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=dtype)
    return length


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
