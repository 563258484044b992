"""The layers of the image networks: a convolution with its normalisation and initialisation."""

from typing import Literal

from torch import nn

NORMS = ("group", "batch", "none")

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


def tin_stride(height: int, width: int) -> int:
    """TIN_S of the tables in SphereFed, appendix F.1: 2 from 64x64 on (TinyImageNet), else 1."""
    return 2 if min(height, width) >= 64 else 1
