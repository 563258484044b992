"""How networks tend to those at curvature 0, as their curvature does."""

import math
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn

SIZES = [1e-2, 1e-3, 1e-4, 1e-5, 1e-6]
"""Absolute curvatures."""


STEPS = 4


def values(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def shaken(model: nn.Module) -> nn.Module:
    """In float64, with no parameter at 0."""
    model = model.double().train()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.add_(values(*parameter.shape, seed=number, scale=0.3))
    return model


def a_round(make: Callable[[float], tuple[nn.Module, Callable[[], Tensor]]], c: float) -> Tensor:
    """Outputs, gradients, and the parameters after some steps, as one vector."""
    model, outputs = make(c)
    parts = []
    for step in range(STEPS):
        model.zero_grad()
        out = outputs()
        weights = values(*out.shape, seed=11)
        (weights * out).sum().backward()
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if step == 0:
            parts += [out.detach().flatten(), *(p.grad.flatten() for p in trained)]
        with torch.no_grad():
            for parameter in trained:
                parameter.sub_(parameter.grad, alpha=0.01)
    return torch.cat([*parts, *(p.detach().flatten() for p in model.parameters())])


def orders(errors: list[float]) -> list[float]:
    """The exponents by which errors fall with the curvature, between neighbours of `SIZES`."""
    return [math.log10(first / second) for first, second in pairwise(errors)]
