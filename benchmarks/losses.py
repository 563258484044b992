"""Losses on curved heads against cross-entropy on a linear head, and against themselves with geoopt's distance.

From features of 128 images to the gradient with respect to them and, where they are trained, to the head's weights;
100 classes, 20 dimensions, as a network's last layer sees them.
"""

from collections.abc import Callable
from functools import lru_cache, partial

import geoopt
import torch
from torch import Tensor, nn

from benchmarks.row import Place, Row
from benchmarks.timing import Ratio, compare
from curvfed.tasks.heads import HeadSpec, PoincareHead, head_start, make_head
from curvfed.tasks.images.models import ImageNet
from curvfed.tasks.images.objectives import ObjectiveSpec, objective

BATCH, CLASSES, DIM = 128, 100, 20
REPEATS, CALLS = 9, 100
SIZE = f"{BATCH} images, {CLASSES} classes, {DIM} dimensions"

CURVED = {
    "hyperfed's triplet loss, one negative": ("poincare", ObjectiveSpec("triplet")),
    "hyperfed's triplet loss, all negatives": ("poincare", ObjectiveSpec("triplet", negatives="all")),
    "geodesic loss on the Poincaré head": ("poincare", ObjectiveSpec("geodesic")),
    "spherefed's squared error on the sphere": ("sphere", ObjectiveSpec("mse")),
}
"""Kind of the head, which is fixed, and the loss."""


def rows(place: Place) -> list[Row]:
    """Every loss against the flat one; the hyperbolic ones also against geoopt."""
    flat = [
        Row(f"{name}, {SIZE}", "cross-entropy on a linear head", "twin", partial(against_flat, *loss), 1.5)
        for name, loss in CURVED.items()
    ]
    peers = [
        Row(f"{name}, {SIZE}", "the same with geoopt's distance", "peer", partial(against_geoopt, loss[1]), 1.0)
        for name, loss in CURVED.items()
        if loss[0] == "poincare"
    ]
    return flat + peers


def against_flat(kind: str, spec: ObjectiveSpec) -> Ratio:
    """A loss on its fixed head against cross-entropy on a trained one."""
    linear = HeadSpec("linear", CLASSES, DIM)
    return _compare(_gradients(_net(_fixed(kind)), spec), _gradients(_net(linear), ObjectiveSpec("cross-entropy")))


def against_geoopt(spec: ObjectiveSpec) -> Ratio:
    """A loss on the Poincaré head and on one of geoopt's functions."""
    ours = _net(_fixed("poincare"))
    head = ours.head
    assert isinstance(head, PoincareHead)
    return _compare(_gradients(ours, spec), _gradients(ImageNet(nn.Sequential(), _Geoopt(head)), spec))


class _Geoopt(nn.Module):
    """Logits −d(exp0(z), w) by geoopt, of the prototypes of a fixed head."""

    def __init__(self, head: PoincareHead) -> None:
        super().__init__()
        self._ball = geoopt.Stereographic(k=-1.0)
        self.weight, self._prototypes = head.weight, head.prototypes.detach()

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, C)."""
        return -self._apart(features, self._prototypes)

    def distances(self, features: Tensor, classes: Tensor) -> Tensor:
        """(n, d) and (n, k) -> (n, k)."""
        return self._apart(features, self._prototypes[classes])

    def _apart(self, features: Tensor, prototypes: Tensor) -> Tensor:
        found: Tensor = self._ball.dist(self._ball.expmap0(features)[:, None], prototypes)
        return found


def _compare(ours: Callable[[], object], theirs: Callable[[], object]) -> Ratio:
    torch.set_num_threads(1)
    for _ in range(3):  # geoopt's scripts are compiled at the second call
        ours(), theirs()
    return compare(ours, theirs, REPEATS, CALLS)


def _fixed(kind: str) -> HeadSpec:
    return HeadSpec(kind, CLASSES, DIM, fixed=True, start="uniform")


def _net(spec: HeadSpec) -> ImageNet:
    """A network whose images are its features."""
    head = make_head(spec)
    head.load_state_dict(_start(spec))
    return ImageNet(nn.Sequential(), head)


@lru_cache
def _start(spec: HeadSpec) -> dict[str, Tensor]:
    """Looked for once: it takes longer than the measurement."""
    return head_start(spec, 0)


def _gradients(net: ImageNet, spec: ObjectiveSpec) -> Callable[[], object]:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(BATCH, DIM, generator=generator) / 4
    labels = torch.randint(CLASSES, (BATCH,), generator=generator)
    loss, wanted = objective(spec), [features.requires_grad_(), *(p for p in net.parameters() if p.requires_grad)]
    return lambda: torch.autograd.grad(loss(net, features, labels), wanted)
