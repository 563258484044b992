"""The maps of hyperbolic space against geoopt's and HypLL's, on the same points.

How exact they are is tested: tests/long/test_peer_errors.py.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from peer_maps import CURVATURES, DTYPES, OPERATIONS, Operation, Points, bound, directions, points
from torch import Tensor

from benchmarks.measure import Call, Pair, Place, Row

BATCH = 10_000


def rows(place: Place) -> list[Row]:
    """Every operation in both dtypes, forward, and forward and backward; a call does it once per curvature."""
    found = []
    for one in OPERATIONS:
        for dtype in DTYPES:
            for way in ("forward", "forward and backward"):
                what = f"{one.space}.{one.name}, {str(dtype).removeprefix('torch.')}, {way}"
                made = (partial(_pair, place, one, peer, dtype, way != "forward") for peer in one.peers)
                found += [Row(what, peer, make, 1.0, 7, 5) for peer, make in zip(one.peers, made, strict=True)]
    return found


def _pair(place: Place, one: Operation, peer: str, dtype: torch.dtype, backward: bool) -> Pair:
    batches = [(curvature, _batch(one.space, dtype, curvature, place.size(BATCH, 20))) for curvature in CURVATURES]

    def calls(name: str) -> Call:
        every = [bound(one, name, curvature, dtype, batch) for curvature, batch in batches]
        each = [_backward(*pair) if backward else partial(pair[0], *pair[1]) for pair in every]
        return lambda: [call() for call in each]

    return calls(""), calls(peer)


def _backward(function: Callable[..., Tensor], arguments: list[Tensor]) -> Call:
    leaves = [argument.clone().requires_grad_() for argument in arguments]
    ones = torch.ones_like(function(*arguments))
    return lambda: torch.autograd.grad(function(*leaves), leaves, ones)


def _batch(space: str, dtype: torch.dtype, curvature: float, num: int) -> Points:
    """Points up to r = 6, where no library has to project, of which `w` goes beyond for every tenth."""
    generator = torch.Generator().manual_seed(0)
    x, y = (directions(num, generator) for _ in range(2))
    radii = 6 * torch.rand(2, num, 1, generator=generator, dtype=torch.float64)
    found = points(space, curvature, dtype, radii[0] * x, radii[1] * y)
    if "w" in found:
        found["w"][::10] *= 2 / math.sqrt(-curvature) / found["w"][::10].norm(dim=-1, keepdim=True)
    return found
