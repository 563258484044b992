"""Euclidean distances of all pairs of points, the basis of matrices of hyperbolic distances."""

from typing import Any

import torch
from torch import Tensor

from curvfed.geometry.custom_gradient import Gradients, custom_gradient, under_torch_func

_TINY = 2.0**-1022


def norms_apart(x: Tensor, y: Tensor) -> Tensor:
    """‖xᵢ − yⱼ‖, (..., n, d), (..., m, d) -> (..., n, m), from differences.

    The matrix product ‖x‖² + ‖y‖² − 2⟨x, y⟩ would be faster, but its error is eps where the
    distance needs eps·‖x − y‖², and near the boundary all distances are short. Second derivatives,
    which `torch.cdist` lacks, take memory O(n·m·d).
    """
    return _norms_apart(x, y)


def _forward(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist"),)


def _backward(
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
    by_x: Tensor = through(gradient, wide_x, wide_y, apart)
    return by_x


def _cdist_backward(gradient: Tensor, x: Tensor, y: Tensor, apart: Tensor) -> Tensor:
    by_x: Tensor = torch.ops.aten._cdist_backward(
        gradient.contiguous(), x.contiguous(), y.contiguous(), 2.0, apart.contiguous()
    )
    return by_x


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


def _formula(x: Tensor, y: Tensor) -> Tensor:
    """The norms; a norm of 0 has the gradient 0."""
    apart = x.unsqueeze(-2) - y.unsqueeze(-3)
    square = apart.double().square().sum(-1)
    length = square.clamp(min=_TINY).sqrt()
    return torch.where(square < _TINY, 0.0, length).to(x.dtype)


_norms_apart = custom_gradient(_forward, _backward, _formula)
