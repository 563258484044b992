"""Losses on curved heads, from features to gradients, and the search for the prototypes that fix such heads."""

import itertools
from functools import cache, partial

import geoopt
import torch
from textbook import prototypes_by_descent
from torch import Tensor, nn

from benchmarks.measure import Call, Pair, Place, Row
from curvfed.geometry.prototypes import uniform
from curvfed.tasks.heads import HeadSpec, head_start, make_head
from curvfed.tasks.images.models import ImageNet
from curvfed.tasks.images.objectives import ObjectiveSpec, objective

IMAGES, CLASSES, DIM = 128, 100, 20

CURVED = {
    "hyperfed's triplet loss, one negative": ("poincare", ObjectiveSpec("triplet")),
    "hyperfed's triplet loss, all negatives": ("poincare", ObjectiveSpec("triplet", negatives="all")),
    "geodesic loss on the Poincaré head": ("poincare", ObjectiveSpec("geodesic")),
    "spherefed's squared error on the sphere": ("sphere", ObjectiveSpec("mse")),
}
"""Kind of the head, which is fixed, and the loss."""


def rows(place: Place) -> list[Row]:
    """Every loss against cross-entropy on a trained head; the hyperbolic ones also against geoopt's distance."""
    size = f"{IMAGES} images, {CLASSES} classes, {DIM} dimensions"
    flat, peer = "cross-entropy on a linear head", "the same with geoopt's distance"
    all_losses, balls = CURVED.items(), {name: loss for name, (kind, loss) in CURVED.items() if kind == "poincare"}
    return [
        *(Row(f"{name}, {size}", flat, partial(_against_flat, *loss), 1.5, 9, 100) for name, loss in all_losses),
        *(Row(f"{name}, {size}", peer, partial(_against_geoopt, loss), 1.0, 9, 100) for name, loss in balls.items()),
    ]


def prototypes(place: Place) -> list[Row]:
    """As many as CIFAR-100 has classes, in the paper's dimensions, from new starts: none is kept from before."""
    seeds, classes = itertools.count(1_000), place.size(CLASSES, 5)
    what = f"{CLASSES} prototypes in {DIM} dimensions"
    descent = "1,000 steps down HyperFed's Eq. 5, which spread them less"

    def search() -> object:
        return uniform(classes, DIM, next(seeds))

    return [
        Row(what, descent, lambda: (search, partial(prototypes_by_descent, classes, DIM, 1_000)), repeats=3),
        Row(what, "3 s", lambda: (search, 3.0), 1.0, 3),
    ]


def _against_flat(kind: str, loss: ObjectiveSpec) -> Pair:
    linear = _head(HeadSpec("linear", CLASSES, DIM))
    return _gradients(_fixed(kind), loss), _gradients(linear, ObjectiveSpec("cross-entropy"))


def _against_geoopt(loss: ObjectiveSpec) -> Pair:
    head = _fixed("poincare")
    return _gradients(head, loss), _gradients(_Geoopt(head.prototypes.detach()), loss)


class _Geoopt(nn.Module):
    """Logits −d(exp0(z), w) by geoopt."""

    def __init__(self, prototypes: Tensor) -> None:
        super().__init__()
        self._ball, self._prototypes = geoopt.Stereographic(k=-1.0), prototypes
        self.weight = nn.Parameter(prototypes.clone(), requires_grad=False)  # its shape is asked for

    def forward(self, features: Tensor) -> Tensor:
        return -self._apart(features, self._prototypes)

    def distances(self, features: Tensor, classes: Tensor) -> Tensor:
        return self._apart(features, self._prototypes[classes])

    def _apart(self, features: Tensor, prototypes: Tensor) -> Tensor:
        return self._ball.dist(self._ball.expmap0(features)[:, None], prototypes)


def _fixed(kind: str) -> nn.Module:
    return _head(HeadSpec(kind, CLASSES, DIM, fixed=True, start="uniform"))


@cache
def _head(spec: HeadSpec) -> nn.Module:
    head = make_head(spec)
    head.load_state_dict(head_start(spec, 0))
    return head


def _gradients(head: nn.Module, spec: ObjectiveSpec) -> Call:
    """Of a network whose images are its features."""
    net, generator = ImageNet(nn.Sequential(), head), torch.Generator().manual_seed(0)
    features = torch.randn(IMAGES, DIM, generator=generator) / 4
    labels = torch.randint(CLASSES, (IMAGES,), generator=generator)
    loss, wanted = objective(spec), [features.requires_grad_(), *(p for p in net.parameters() if p.requires_grad)]
    return lambda: torch.autograd.grad(loss(net, features, labels), wanted)
