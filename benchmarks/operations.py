"""Maps of hyperbolic space against geoopt's and HypLL's, losses on curved heads, the search for
prototypes of such heads.

How exact the maps are is tested: tests/long/test_peer_errors.py. Losses are timed from features to
gradients.
"""

import itertools
import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from peer_maps import (
    CURVATURES,
    DTYPES,
    OPERATIONS,
    GeooptHead,
    Operation,
    Points,
    bound,
    directions,
    points,
)
from textbook import prototypes_by_descent
from torch import Tensor, nn

from benchmarks.measure import Call, Pair, Place, Row
from curvfed.geometry.prototypes import uniform
from curvfed.tasks.heads import HeadSpec, head_start, make_head
from curvfed.tasks.images.client_task import Objective, objective
from curvfed.tasks.images.models import ImageNet

BATCH = 10_000

MOBIUS = "error 8 eps by its condition, theirs 2e10"
MORE_EXACT = {
    ("poincare.log0, float32, forward", "geoopt"): "error .4 eps by its condition, theirs 2e5",
    ("poincare.log0, float32, forward", "HypLL"): "error .4 eps by its condition, theirs 2",
    ("poincare.log0, float64, forward", "HypLL"): "error 2 eps by its condition, theirs 4",
    ("poincare.mobius_add, float32, forward", "HypLL"): MOBIUS,
    ("poincare.mobius_add, float32, forward and backward", "HypLL"): MOBIUS,
    ("lorentz.dist", "geoopt"): "error 1 eps by its condition, theirs 3e7",
    ("lorentz.exp", "geoopt"): "error 2e2 eps by its condition, theirs 1e8, and not finite far out",
    ("lorentz.log", "geoopt"): "error 1 eps by its condition, theirs 7e20",
}
"""What more passes than the peer's buy, of a map or one of its rows, in float32; they have no
goal."""
AS_FAST = {
    ("poincare.exp", "geoopt"): "error .8 eps by its condition, theirs 2e4",
    ("poincare.mobius_add", "geoopt"): "error 8 eps by its condition, theirs 2e4",
    ("lorentz.project", "geoopt"): "the same passes, and checks of the arguments",
}
"""Likewise, of rows whose goal some processors miss."""


def operations(place: Place) -> list[Row]:
    """Every operation in both dtypes, forward, and forward and backward; a call does it once per
    curvature."""
    rows = []
    for operation in OPERATIONS:
        for dtype in DTYPES:
            for way in ("forward", "forward and backward"):
                what = f"{operation.space}.{operation.name}, {str(dtype).removeprefix('torch.')}, {way}"
                made = (
                    partial(_pair, place, operation, peer, dtype, way != "forward")
                    for peer in operation.peers
                )
                for peer, make in zip(operation.peers, made, strict=True):
                    names = (f"{operation.space}.{operation.name}", what)
                    exact = _clause(MORE_EXACT, names, peer)
                    fast = _clause(AS_FAST, names, peer)
                    goal = None if exact else 1.0
                    rows.append(Row(what, peer, make, goal, 7, 5, buys=exact or fast))
    return rows


def _clause(clauses: dict[tuple[str, str], str], names: tuple[str, str], peer: str) -> str:
    """What is said of a map, or of the row of it, against this peer; "" for nothing."""
    return next((clauses[name, peer] for name in names if (name, peer) in clauses), "")


def _pair(
    place: Place, operation: Operation, peer: str, dtype: torch.dtype, backward: bool
) -> Pair:
    batches = [
        (curvature, _batch(operation.space, dtype, curvature, place.size(BATCH, 20)))
        for curvature in CURVATURES
    ]

    def calls(name: str) -> Call:
        every = [bound(operation, name, curvature, dtype, batch) for curvature, batch in batches]
        each = [_backward(*pair) if backward else partial(pair[0], *pair[1]) for pair in every]
        return lambda: [call() for call in each]

    return calls(""), calls(peer)


def _backward(function: Callable[..., Tensor], arguments: list[Tensor]) -> Call:
    leaves = [argument.clone().requires_grad_() for argument in arguments]
    ones = torch.ones_like(function(*arguments))
    return lambda: torch.autograd.grad(function(*leaves), leaves, ones)


def _batch(space: str, dtype: torch.dtype, curvature: float, num: int) -> Points:
    """Points up to r = 6, where no library has to project, of which `w` goes beyond for every
    tenth."""
    generator = torch.Generator().manual_seed(0)
    x, y = (directions(num, generator) for _ in range(2))
    radii = 6 * torch.rand(2, num, 1, generator=generator, dtype=torch.float64)
    arguments = points(space, curvature, dtype, radii[0] * x, radii[1] * y)
    if "w" in arguments:
        arguments["w"][::10] *= (
            2 / math.sqrt(-curvature) / arguments["w"][::10].norm(dim=-1, keepdim=True)
        )
    return arguments


IMAGES = 128
CLASSES = 100
DIM = 20
FIXED: dict[str, Any] = {"fixed": True, "start": "uniform"}

LOSS_BUYS = "distances or angles to all prototypes; .1 to .6 ms beside a ConvNet's step of 45 ms"
CURVED = {
    "hyperfed's triplet loss, one negative": ("prototypes", objective("triplet")),
    "hyperfed's triplet loss, all negatives": ("prototypes", objective("triplet", negatives="all")),
    "geodesic loss on the Poincaré head": ("prototypes", objective("geodesic")),
    "spherefed's squared error on the sphere": ("sphere", objective("mse")),
}
"""Kind of the head, which is fixed, and the loss."""


def losses(place: Place) -> list[Row]:
    """Every loss against cross-entropy on a trained head; the hyperbolic ones also against geoopt's
    distance."""
    size = f"{IMAGES} images, {CLASSES} classes, {DIM} dimensions"
    flat = "cross-entropy on a linear head"
    peer = "the same with geoopt's distance"
    all_losses = CURVED.items()
    balls = {name: loss for name, (kind, loss) in CURVED.items() if kind == "prototypes"}
    return [
        *(
            Row(
                f"{name}, {size}", flat, partial(_against_flat, *loss), None, 9, 100, buys=LOSS_BUYS
            )
            for name, loss in all_losses
        ),
        *(
            Row(f"{name}, {size}", peer, partial(_against_geoopt, loss), 1.0, 9, 100)
            for name, loss in balls.items()
        ),
    ]


def prototypes(place: Place) -> list[Row]:
    """As many as CIFAR-100 has classes, in the paper's dimensions, from new starts: none is kept
    from before."""
    seeds = itertools.count(1_000)
    classes = place.size(CLASSES, 5)
    what = f"{CLASSES} prototypes in {DIM} dimensions"
    descent = "1,000 steps down HyperFed's Eq. 5, which spread them less"

    def search() -> object:
        return uniform(classes, DIM, next(seeds))

    return [
        Row(
            what,
            descent,
            lambda: (search, partial(prototypes_by_descent, classes, DIM, 1_000)),
            repeats=3,
        ),
        Row(what, "3 s", lambda: (search, 3.0), 1.0, 3),
    ]


def _against_flat(kind: str, loss: Objective) -> Pair:
    return _gradients(_head(kind, **FIXED), loss), _gradients(
        _head("linear"), objective("cross-entropy")
    )


def _against_geoopt(loss: Objective) -> Pair:
    head = _head("prototypes", **FIXED)
    return _gradients(head, loss), _gradients(GeooptHead(head.prototypes.detach()), loss)


@cache
def _head(kind: str, **of: Any) -> Any:
    spec = HeadSpec(kind, CLASSES, DIM, **of)
    head = make_head(spec)
    head.load_state_dict(head_start(spec, 0))
    return head


def _gradients(head: nn.Module, loss: Objective) -> Call:
    """Of a network whose images are its features."""
    net = ImageNet(nn.Sequential(), head)
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(IMAGES, DIM, generator=generator) / 4
    labels = torch.randint(CLASSES, (IMAGES,), generator=generator)
    wanted = [features.requires_grad_(), *(p for p in net.parameters() if p.requires_grad)]
    return lambda: torch.autograd.grad(loss(net, features, labels), wanted)
