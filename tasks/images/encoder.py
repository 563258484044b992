"""Features of a frozen network in place of an image's pixels. Extensions and other packages add the
networks by the group `curvfed.image-encoders`."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from torch import Tensor, nn

from curvfed.tasks import plugins
from curvfed.tasks.errors import EncoderError

log = logging.getLogger("curvfed")

SIZE = 224
"""Height and width of the images if `images.size` is not given."""

BATCH = 64
"""Images that are encoded together."""

LOGGED_SECONDS = 10.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True)
class Encoder:
    """A frozen network from images to features.

    Attributes
    ----------
    name : str
        The value of `images.encoder`.
    place : str
        The place of the weights, in words.
    load : callable
        () -> a torch module in evaluation mode from images (n, 3, h, w), uint8, to features (n, d),
        float32. Raises EncoderError.
    """

    name: str
    place: str
    load: Callable[[], nn.Module] = field(compare=False)


def find_encoder(name: str) -> Encoder:
    """The encoder of a name; its weights are not read yet.

    Raises
    ------
    EncoderError
        If no package knows the name, or the weights are missing.
    """
    for package in plugins.additions(plugins.ENCODERS):
        encoder: Encoder | None = plugins.addition(plugins.ENCODERS, package)(name)
        if encoder is not None:
            return encoder
    raise EncoderError(
        f'images.encoder = "{name}": no package here knows such a network; allowed is the name of a'
        " file of weights as torchvision publishes it, without .pth, such as resnet18-f37072fd"
        f"{plugins.absent_hint(plugins.ENCODERS)}",
        key="no-encoder",
    )


@lru_cache(maxsize=1)
def network_of(encoder: Encoder) -> nn.Module:
    """The network with its weights; the last one is kept, for the next client.

    Raises
    ------
    EncoderError
        If the weights cannot be read, or are others than the name says.
    """
    return encoder.load().eval().requires_grad_(False)


def encoded(name: str, count: int, read: Callable[[int, int], Tensor]) -> Tensor:
    """The features (count, d, 1, 1), float32, of images by the encoder of this name.

    Parameters
    ----------
    name : str
    count : int
        The number of images.
    read : callable
        (start, end) -> Tensor (end - start, 1 or 3, h, w), uint8: the images from the first number
        up to the second. Grey images are repeated in three channels.

    Raises
    ------
    EncoderError
        If the encoder is missing, or does not take such images.
    """
    network = network_of(find_encoder(name))
    batches = []
    logged = time.monotonic()
    for start in range(0, count, BATCH):
        images = read(start, min(start + BATCH, count)).expand(-1, 3, -1, -1)
        batches.append(_features(name, network, images))
        if time.monotonic() - logged > LOGGED_SECONDS:
            logged = time.monotonic()
            log.info("%s has encoded %d of %d images", name, start + len(images), count)
    if not batches:
        return torch.zeros(0, 1, 1, 1)
    return torch.cat(batches)[:, :, None, None]


def _features(name: str, network: nn.Module, images: Tensor) -> Tensor:
    height, width = images.shape[2:]
    try:
        with torch.no_grad():
            features: Tensor = network(images)
    except (RuntimeError, ValueError, AssertionError) as error:  # by the network's own checks
        raise EncoderError(
            f'images.encoder = "{name}": the network does not take images of {height}x{width}'
            f" ({type(error).__name__}: {str(error).partition(chr(10))[0]}); {SIZE}x{SIZE} is the"
            " default of images.size",
            key="encoder-size",
        ) from error
    if features.shape[:1] != images.shape[:1] or features.ndim != 2:
        raise EncoderError(
            f'images.encoder = "{name}": the network returns {tuple(features.shape)} for'
            f" {len(images)} images; allowed is a row of features for each",
            key="encoder-output",
        )
    if not features.isfinite().all():
        raise EncoderError(
            f'images.encoder = "{name}": a feature is not finite', key="encoder-output"
        )
    return features.float()
