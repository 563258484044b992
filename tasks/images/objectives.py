"""Local objectives: the losses of a batch of images."""

import math
from collections.abc import Callable
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from curvfed.tasks.heads import PoincareHead, unit
from curvfed.tasks.images.models import ImageNet

Objective = Callable[[ImageNet, Tensor, Tensor], Tensor]
"""(model, images (n, c, h, w), labels (n,)) -> the mean loss over the batch, of shape (); n ≥ 1."""


def objective(
    kind: str, margin: float = 3.0, negatives: str = "one", mixup: float = 0.0
) -> Objective:
    """The local objective with these settings.

    Parameters
    ----------
    kind : str
        "cross-entropy", "mse", "geodesic" or "triplet"; only "triplet" has the other settings.
    margin : float
        m ≥ 0; 3 in the paper. The loss can reach 0 only if m is at most the smallest distance
        between two prototypes.
    negatives : str
        "one" of the other classes, drawn per image and step, or "all" of them.
    mixup : float
        Coefficient ≥ 0 of the second term; the paper has none, its authors' code 2.
    """
    if kind == "triplet":
        return partial(triplet, margin, negatives, mixup)
    return {"cross-entropy": cross_entropy, "mse": mse, "geodesic": geodesic}[kind]


def cross_entropy(model: ImageNet, images: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of the logits."""
    return F.cross_entropy(model(images), labels)


def mse(model: ImageNet, images: Tensor, labels: Tensor) -> Tensor:
    """‖logits − one-hot label‖²/C. SphereFed, Eq. 5, where the head's temperature is 1."""
    logits = model(images)
    # one_hot would read the labels, and thus wait for a GPU.
    return F.mse_loss(logits, torch.zeros_like(logits).scatter(1, labels[:, None], 1.0))


def geodesic(model: ImageNet, images: Tensor, labels: Tensor) -> Tensor:
    """Distance d(z, w_y) to the prototype of the image's class, without margin and negatives.

    Parameters
    ----------
    model : ImageNet
        With a `PoincareHead` or its flat twin, whose logits are −d.
    """
    return cast(PoincareHead, model.head).distances(model.features(images), labels[:, None]).mean()


def triplet(
    margin: float, negatives: str, mixup: float, model: ImageNet, images: Tensor, labels: Tensor
) -> Tensor:
    """max(d(z, w_y) − d(z, w_y') + m, 0), for one negative class y' ≠ y or the mean over all.
    HyperFed, Eq. 7.

    Parameters
    ----------
    margin, negatives, mixup
        As in `objective`; m is the margin.
    model : ImageNet
        With a `PoincareHead` or its flat twin, whose logits are −d.

    Raises
    ------
    ValueError
        If there is a single class, and thus no negative.

    Notes
    -----
    A nonzero `mixup` adds `mixup` times the cross-entropy of mixed images, as in the authors' code.
    The logits are the cosines of features and prototypes, not scaled. Draws are from the default
    generator of the images' device.
    """
    features = model.features(images)
    head = cast(PoincareHead, model.head)
    num_classes = len(head.weight)
    if num_classes == 1:
        raise ValueError(
            "the triplet loss has no negative if the federation has 1 class: use 2 or more"
        )
    if negatives == "one":
        negative = (labels + torch.randint_like(labels, 1, num_classes)) % num_classes
        distances = head.distances(features, torch.stack([labels, negative], dim=1))
        loss = (distances[:, 0] - distances[:, 1] + margin).relu().mean()
    else:
        distances = -head(features)
        to_label = distances.gather(1, labels[:, None])
        hinges = (to_label - distances + margin).relu().scatter(1, labels[:, None], 0.0)
        loss = hinges.sum(dim=1).mean() / (num_classes - 1)
    return loss + mixup * _mixup(model, images, labels) if mixup else loss


def _mixup(model: ImageNet, images: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of λ·images + (1 − λ)·(images in another order), with both labels. Zhang et
    al., mixup (2018)."""
    # sin²(πu/2) of a uniform u is Beta(1/2, 1/2).
    uniform = torch.rand((), device=images.device, dtype=images.dtype)
    share = (uniform * (math.pi / 2)).sin().square()
    order = torch.randperm(len(images), device=images.device)
    features = model.features(torch.lerp(images[order], images, share))
    cosines = F.linear(unit(features), unit(cast(PoincareHead, model.head).prototypes))
    loss = F.cross_entropy(cosines, labels)
    other_loss = F.cross_entropy(cosines, labels[order])
    return share * loss + (1 - share) * other_loss
