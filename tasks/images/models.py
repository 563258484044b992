"""The image models, a body and a head, with their seeded initialisation."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from curvfed.tasks import plugins
from curvfed.tasks.draws import seeded
from curvfed.tasks.heads import HeadSettings, HeadSpec, head_start, make_head
from curvfed.tasks.images.nets import NETS


@dataclass(frozen=True)
class ImageModelSpec(HeadSettings):
    """The settings of an image model, with those of its head, a `HeadSettings`.

    Attributes
    ----------
    kind : str
        A key of `curvfed.tasks.images.nets.NETS`.
    shape : tuple of int
        Channels, height and width of an image.
    norm : str
        Normalisation layers (see `NETS`).
    embedding_dim : int
        Width of a linear layer between net and head; 0: without this layer.
    num_classes : int
    head : str
        The kind of the head, a key of `curvfed.tasks.heads.HEADS`.
    addition : callable or None
        From the initialised network and the seed to the network with further parts.
    """

    kind: str
    shape: tuple[int, int, int]
    norm: str
    embedding_dim: int
    num_classes: int
    head: str = "linear"
    addition: Callable[["ImageNet", int], "ImageNet"] | None = None

    min_parameters: ClassVar[int] = 0

    def build(self, seed: int) -> "ImageNet":
        """The model with its seeded initialisation; equal on every machine for equal arguments.

        The weights of a fixed head are zero: the server sends them, from `head_start` of
        `head_spec`.
        """
        with seeded(seed, shares=self.kind not in NETS):
            if self.kind not in NETS:
                return WholeNet(plugins.model(self.kind, self.shape, self.num_classes))
            net, width = NETS[self.kind](self.shape, self.norm)
            layers = [net]
            if self.embedding_dim:
                layers.append(nn.Linear(width, self.embedding_dim))
        head_settings = _head_spec(self, width)
        model = ImageNet(nn.Sequential(*layers), make_head(head_settings))
        if not self.fixed:
            model.head.load_state_dict(head_start(head_settings, seed))
        return model if self.addition is None else self.addition(model, seed)


class ImageNet(nn.Module):
    """A body from images to features, and a head from features to logits.

    Attributes
    ----------
    body : Sequential
    head : Module
        One of `curvfed.tasks.heads`.
    mixed_precision : bool
        Whether the body trains in bfloat16 where that is safe. Features, head, losses and the body
        in evaluation keep the dtype of the images.
    """

    def __init__(self, body: nn.Sequential, head: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.mixed_precision = False

    def features(self, images: Tensor) -> Tensor:
        """(n, c, h, w) -> (n, d)."""
        # Within another such block torch would keep the weights of the first step for all later
        # ones.
        with torch.autocast(
            images.device.type,
            torch.bfloat16,
            enabled=self.mixed_precision and self.training,
            cache_enabled=False,
        ):
            features: Tensor = self.body(images)
        return features.to(images.dtype)

    def forward(self, images: Tensor) -> Tensor:
        """(n, c, h, w) -> logits (n, C)."""
        logits: Tensor = self.head(self.features(images))
        return logits


class WholeNet(ImageNet):
    """The network of another package, from images to logits, which are also its features; its
    parameters keep their names."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__(nn.Sequential(net), nn.Identity())

    def named_parameters(
        self, *options: Any, **keywords: Any
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """The parameters of the network, without a prefix."""
        return self.body[0].named_parameters(*options, **keywords)

    def named_buffers(self, *options: Any, **keywords: Any) -> Iterator[tuple[str, Tensor]]:
        """The buffers of the network, without a prefix."""
        return self.body[0].named_buffers(*options, **keywords)


def head_spec(spec: ImageModelSpec) -> HeadSpec:
    """The settings of the model's head; its width is that of the embedding, or else of the net."""
    return _head_spec(spec, 0 if spec.embedding_dim else _width(spec.kind, spec.shape, spec.norm))


def _head_spec(spec: ImageModelSpec, width: int) -> HeadSpec:
    settings = {field.name: getattr(spec, field.name) for field in fields(HeadSettings)}
    return HeadSpec(spec.head, spec.num_classes, spec.embedding_dim or width, **settings)


@lru_cache
def _width(kind: str, shape: tuple[int, int, int], norm: str) -> int:
    # The meta device needs no weights, but torch takes seconds to import its initialisation.
    with seeded(0):
        return NETS[kind](shape, norm)[1]
