"""Vectors of mpmath's numbers, for oracles with many digits."""

import mpmath
import torch
from mpmath import mpf

SPACES = [(-1.0, 1), (-1.0, 16), (-0.05, 2), (-0.05, 64), (-1.5, 3), (-4.0, 1), (-4.0, 64)]
"""Each curvature with a small and a large dimension; the formulas know neither."""


def exact(tensor):
    return [mpf(value) for value in tensor.tolist()]


def dot(a, b):
    return mpmath.fsum(p * q for p, q in zip(a, b, strict=True))


def norm(a):
    return mpmath.sqrt(dot(a, a))


def direction(dim, generator):
    """A random unit vector, as a tensor."""
    v = torch.randn(dim, generator=generator, dtype=torch.float64)
    return v / v.norm()
