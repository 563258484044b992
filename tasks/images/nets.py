"""The bodies of the image networks by name: they map images (n, c, h, w) to features (n, width).
Each function takes the shape (c, h, w) of an image and the normalisation, "group", "batch"
or "none", and returns the body and its width. All weights are drawn from torch's default
generator."""

import math
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any, Literal

from torch import nn

from curvfed.tasks import plugins
from curvfed.tasks.errors import ModelError
from curvfed.tasks.kinds import FEATURES, IMAGE_NETWORKS


def torchvision_module(name: str) -> Any:
    """A module of torchvision.

    Parameters
    ----------
    name : str
        Its name below `torchvision`.

    Raises
    ------
    ImportError
        If torchvision is absent, or built for another torch than the installed one.
    """
    try:
        return import_module(f"torchvision.{name}")
    except (RuntimeError, ValueError, AttributeError, OSError) as error:  # by version and platform
        raise ImportError(
            f"torch {version('torch')} and torchvision {version('torchvision')} do not fit each"
            f" other ({error}); install both from the same index of wheels"
        ) from error


MAX_GROUPS = 32


def num_groups(channels: int) -> int:
    """Groups of a group normalisation: the largest divisor of `channels` up to 32 that leaves a
    group two channels.

    It is 32 for all multiples of 32 from 64 on (Wu & He, 2018). A group of one channel would
    normalise each map by itself, which erases its mean, and a map of one pixel completely.
    """
    numbers = range(1, MAX_GROUPS + 1)
    return max(number for number in numbers if channels % number == 0 and 2 * number <= channels)


def normalisation(channels: int, norm: str) -> nn.Module:
    """The layer that follows a convolution: "group", "batch" (with running statistics) or
    "none".
    """
    if norm == "group":
        return nn.GroupNorm(num_groups(channels), channels)
    return nn.BatchNorm2d(channels) if norm == "batch" else nn.Identity()


def convolution(
    channels: int, out: int, kernel: int, stride: int, norm: str, groups: int = 1, relu: bool = True
) -> nn.Sequential:
    """Convolution, normalisation and optional ReLU; (h, w) becomes (⌈h / stride⌉, ⌈w / stride⌉).

    Padded by half the (odd) kernel. The convolution has a bias only without normalisation, which
    has its own.
    """
    layer = nn.Conv2d(
        channels, out, kernel, stride, padding=kernel // 2, groups=groups, bias=norm == "none"
    )
    start(layer, "relu" if relu else "linear")
    layers = [layer, normalisation(out, norm)]
    if relu:
        layers.append(nn.ReLU(inplace=True))
    return nn.Sequential(*layers)


def start(layer: nn.Conv2d, activation: Literal["relu", "linear"]) -> None:
    """Initialise a convolution by the normal weights of He et al. (2015), which keep the scale of
    its input, and biases of 0."""
    # With "fan_out" torch counts the outputs of all groups of a depthwise convolution: too many.
    nn.init.kaiming_normal_(layer.weight, mode="fan_in", nonlinearity=activation)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


Build = Callable[[tuple[int, int, int], str], tuple[nn.Module, int]]

CONVNET = ((32, 1), (64, 2), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2))
"""(channels, stride) of the convolutions of ConvNet."""


def cnn(shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """Two 5x5 convolutions of stride 2, to 16 and 32 channels, flattened: 1,568 features of 28x28.

    It lacks normalisation layers, for any `norm`, and has torch's default initialisation.
    """
    channels, height, width = shape
    layers = (
        nn.Conv2d(channels, 16, 5, 2, 2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 5, 2, 2),
        nn.ReLU(),
        nn.Flatten(),
    )
    places = -(-height // 4) * -(-width // 4)
    return nn.Sequential(*layers), 32 * places


def convnet(shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """SphereFed, Table 11: seven 3x3 convolutions, flattened; 1,024 features of 32x32 as of 28x28.

    The table names no padding; with 1 there are its 1,024 features. Other sizes give 256 ⌈h/16⌉
    ⌈w/16⌉ features.
    """
    channels, height, width = shape
    layers: list[nn.Module] = []
    for out, stride in CONVNET:
        layers.append(convolution(channels, out, 3, stride, norm))
        channels = out
    places = -(-height // 16) * -(-width // 16)
    return nn.Sequential(*layers, nn.Flatten()), channels * places


def features(shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """The values of an image as its features, with mean 0 and variance 1 over the values of an
    image: networks differ in the scale of their features, and rates suit this one. No weights."""
    width = math.prod(shape)
    return nn.Sequential(nn.Flatten(), nn.LayerNorm(width, elementwise_affine=False)), width


def has_batch_norm(model: nn.Module) -> bool:
    """Whether any layer of a model is a batch normalisation, with running statistics."""
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())


def _build(
    name: str, build: Build, min_size: int, shape: tuple[int, int, int], norm: str
) -> tuple[nn.Module, int]:
    channels, height, width = shape
    if channels < 1 or min(height, width) < min_size:
        raise ModelError(
            f"the images are {channels}x{height}x{width} (channels x height x width); the network"
            f" {name} takes 1x{min_size}x{min_size} or larger: images.size={max(32, min_size)}, for"
            " example, resizes them",
            key="small-images",
        )
    return build(shape, norm)


def checked(name: str, build: Build, min_size: int) -> Build:
    """A function of `NETS`, which refuses images smaller than `min_size` in height or width."""
    return partial(_build, name, build, min_size)


def _added(name: str, shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """The body and width of a network of the group `curvfed.image-networks`."""
    build: Build = plugins.addition(IMAGE_NETWORKS, name)
    return build(shape, norm)


NETS: dict[str, Build] = {
    "cnn": checked("cnn", cnn, 8),
    "convnet": checked("convnet", convnet, 8),
    **{name: partial(_added, name) for name in plugins.additions(IMAGE_NETWORKS)},
    FEATURES: checked(FEATURES, features, 1),
}
"""The functions by name; they raise ModelError, with the minimum size, for smaller images.
Extensions and other packages add some by the group `curvfed.image-networks`."""
