"""Local objectives: what a step on a batch of images lowers."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from curvfed.tasks.heads import PoincareHead, unit
from curvfed.tasks.images.models import ImageNet

Objective = Callable[[ImageNet, Tensor, Tensor], Tensor]
"""Of a model, images (n, c, h, w) and labels (n,), n ≥ 1: the mean loss over the batch, of shape ()."""


@dataclass(frozen=True)
class ObjectiveSpec:
    """Which local objective.

    Attributes
    ----------
    kind : str
        A key of `OBJECTIVES`.
    margin : float
        m ≥ 0 of the triplet loss; 3 is the paper's. Only m ≤ the least distance of two prototypes lets the loss reach 0.
    negatives : str
        "one" of the other classes, drawn per image and step, or "all" of them.
    mixup : float
        Coefficient ≥ 0 of the triplet loss' second term; the paper has none, its authors' code 2.

    Raises
    ------
    ValueError
        If an entry is not among the allowed ones.
    """

    kind: str
    margin: float = 3.0
    negatives: str = "one"
    mixup: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in OBJECTIVES:
            raise ValueError(f'objective "{self.kind}": allowed is one of {", ".join(OBJECTIVES)}')
        if self.negatives not in ("one", "all"):
            raise ValueError(f'negatives "{self.negatives}": allowed is one or all')
        for name, value in (("margin", self.margin), ("mixup", self.mixup)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} = {value}: a finite number ≥ 0 is allowed")


def objective(spec: ObjectiveSpec) -> Objective:
    """The function of a specification."""
    return OBJECTIVES[spec.kind](spec)


def cross_entropy(model: ImageNet, images: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the logits."""
    return F.cross_entropy(model(images), labels)


def mse(model: ImageNet, images: Tensor, labels: Tensor) -> Tensor:
    """‖logits − one-hot label‖²/C. SphereFed, Eq. 5, where the head's temperature is 1."""
    logits = model(images)
    # Not by one_hot, which looks at the labels.
    return F.mse_loss(logits, torch.zeros_like(logits).scatter_(1, labels[:, None], 1.0))


def geodesic(model: ImageNet, images: Tensor, labels: Tensor) -> Tensor:
    """Distance d(z, w_y) to the prototype of the image's class: no margin and no negatives.

    Parameters
    ----------
    model : ImageNet
        With a `PoincareHead`, whose logits are −d.
    """
    return cast(PoincareHead, model.head).distances(model.features(images), labels[:, None]).mean()


def triplet(spec: ObjectiveSpec, model: ImageNet, images: Tensor, labels: Tensor) -> Tensor:
    """max(d(z, w_y) − d(z, w_y') + m, 0), of one negative class y' ≠ y or the mean over all. HyperFed, Eq. 7.

    Parameters
    ----------
    model : ImageNet
        With a `PoincareHead`, whose logits are −d.

    Raises
    ------
    ValueError
        If there is a single class, and so no negative.

    Notes
    -----
    With `mixup`, that many times the cross-entropy of mixed images is added, as in the authors' code. The logits are
    the cosines of features and prototypes, not scaled. Draws are from the default generator of the images' device.
    """
    features, head = model.features(images), cast(PoincareHead, model.head)
    num_classes = len(head.weight)
    if num_classes == 1:
        raise ValueError("the triplet loss has no negative where the federation has 1 class: use 2 or more")
    if spec.negatives == "one":
        other = (labels + torch.randint_like(labels, 1, num_classes)) % num_classes
        own, negative = head.distances(features, torch.stack([labels, other], dim=1)).unbind(1)
        loss = (own - negative + spec.margin).relu().mean()
    else:
        distances = -head(features)
        own = distances.gather(1, labels[:, None])
        hinges = (own - distances + spec.margin).relu().scatter(1, labels[:, None], 0.0)
        loss = hinges.sum(dim=1).mean() / (num_classes - 1)
    return loss + spec.mixup * _mixup(model, images, labels) if spec.mixup else loss


def _mixup(model: ImageNet, images: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of λ·images + (1 − λ)·(images in another order), with both labels. Zhang et al., mixup (2018)."""
    # sin²(πu/2) of a uniform u is Beta(1/2, 1/2).
    share = (torch.rand((), device=images.device, dtype=images.dtype) * (math.pi / 2)).sin().square()
    order = torch.randperm(len(images), device=images.device)
    features = model.features(torch.lerp(images[order], images, share))
    cosines = F.linear(unit(features), unit(cast(PoincareHead, model.head).prototypes))
    return share * F.cross_entropy(cosines, labels) + (1 - share) * F.cross_entropy(cosines, labels[order])


OBJECTIVES: dict[str, Callable[[ObjectiveSpec], Objective]] = {
    "cross-entropy": lambda spec: cross_entropy,
    "mse": lambda spec: mse,
    "triplet": lambda spec: partial(triplet, spec),
    "geodesic": lambda spec: geodesic,
}
