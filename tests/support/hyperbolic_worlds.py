"""What the laws of both models of hyperbolic space draw."""

import math

import torch
from hypothesis import strategies as st
from tiers import examples

DTYPES = [torch.float32, torch.float64]
F64 = torch.float64

radii = st.sampled_from([1e-6, 1e-2, 1.0, 4.0, 10.0])
law = examples(60)


class World:
    """A curvature, a dimension, a dtype, and points of the model `space` drawn in them; the length
    of a tangent vector at the origin is `stretch` times its norm."""

    space = None
    stretch = 1

    def __init__(self, curvature, dim, dtype, seed):
        self.curvature, self.dim, self.dtype = curvature, dim, dtype
        self.R = 1 / math.sqrt(-curvature)
        self.eps = torch.finfo(dtype).eps
        self.generator = torch.Generator().manual_seed(seed)

    def __repr__(self):
        return f"World({self.curvature}, {self.dim}, {self.dtype})"

    def vectors(self, num, radius):
        """Tangent vectors at the origin with √|c|·length uniform below `radius`."""
        v = torch.randn(num, self.dim, generator=self.generator, dtype=F64)
        most = self.R * radius / self.stretch
        norm = most * torch.rand(num, 1, generator=self.generator, dtype=F64)
        return (v / v.norm(dim=-1, keepdim=True) * norm).to(self.dtype)

    def points(self, num, radius):
        return self.space.exp0(self.vectors(num, radius), self.curvature)


@st.composite
def worlds(draw, kind, max_dim=64):
    return kind(
        curvature=draw(st.floats(-4.0, -0.05)),
        dim=draw(st.integers(1, max_dim)),
        dtype=draw(st.sampled_from(DTYPES)),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


def assert_below(error, bound):
    assert error.isfinite().all()
    assert (error <= bound).all(), f"error over bound: {(error / bound).max().item():.3g}"
