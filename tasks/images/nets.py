"""The bodies of the image networks by name, some made of torchvision's blocks: they map images (n,
c, h, w) to features (n, width). Each function takes the shape (c, h, w) of an image and the
normalisation, an entry of `NORMS`, and returns the body and its width. All weights are drawn from
torch's default generator."""

import math
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any, Literal

import torch
from torch import Tensor, nn

from curvfed.tasks.kinds import FEATURES


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


WIDTHS = (64, 128, 256, 512)

REDUCTION = 16
"""Reduction of the channels within a squeeze-and-excitation module (Hu et al., 2018)."""


def resnet18(shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """SphereFed, Table 15: ResNet-18 for small images, with a 3x3 stem and no pooling before the
    blocks.

    The table's NormLayer(256) after a convolution to 512 channels is a misprint. It lists neither
    the shortcuts, a 1x1 convolution with normalisation where the number of channels or pixels
    changes, nor that the second ReLU of a block follows the sum. From 64x64 on the first block
    halves height and width.
    """
    stem = convolution(shape[0], WIDTHS[0], 3, 1, norm)
    return _residual(stem, tin_stride(*shape[1:]), norm, squeezes=False)


def resnet18_7x7(shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """torchvision's ResNet-18 with a 7x7 convolution and a max pooling as stem, as HyperFed's
    authors use it."""
    stem = convolution(shape[0], WIDTHS[0], 7, 2, norm).append(nn.MaxPool2d(3, 2, 1))
    return _residual(stem, 1, norm, squeezes=False)


def senet18(shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """SphereFed, Table 13: `resnet18` with squeeze and excitation of the channels before the sum of
    each block.

    The module is two 1x1 convolutions with biases on the means of the channels, with a 16th as many
    in between.
    """
    stem = convolution(shape[0], WIDTHS[0], 3, 1, norm)
    return _residual(stem, tin_stride(*shape[1:]), norm, squeezes=True)


def _residual(
    stem: nn.Module, first_stride: int, norm: str, squeezes: bool
) -> tuple[nn.Module, int]:
    basic_block = torchvision_module("models.resnet").BasicBlock
    squeeze_excitation = torchvision_module("ops").SqueezeExcitation

    def block(channels: int, out: int, stride: int) -> Any:
        same = channels == out and stride == 1
        shortcut = None if same else convolution(channels, out, 1, stride, norm, relu=False)
        layer = basic_block(
            channels, out, stride, shortcut, norm_layer=partial(normalisation, norm=norm)
        )
        if squeezes:
            layer.bn2 = nn.Sequential(layer.bn2, squeeze_excitation(out, out // REDUCTION))
        for module in layer.modules():
            if isinstance(module, nn.Conv2d):
                # torchvision's block takes its biases from the normalisation.
                if norm == "none" and module.bias is None:
                    module.bias = nn.Parameter(torch.zeros(out))
                start(module, "relu")
        return layer

    parts: OrderedDict[str, nn.Module] = OrderedDict(stem=stem)
    channels = WIDTHS[0]
    for number, out in enumerate(WIDTHS, 1):
        stride = first_stride if number == 1 else 2
        parts[f"layer{number}"] = nn.Sequential(block(channels, out, stride), block(out, out, 1))
        channels = out
    pooled = OrderedDict(pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten())
    return nn.Sequential(parts | pooled), channels


Build = Callable[[tuple[int, int, int], str], tuple[nn.Module, int]]

CONVNET = ((32, 1), (64, 2), (64, 2), (64, 1), (128, 2), (128, 1), (256, 2))
"""(channels, stride) of the convolutions of ConvNet."""

VGG13 = ((64, 64), (128, 128), (256, 256), (512, 512), (512, 512))
"""Channels of the convolutions of VGG13, in stages that end with a pooling layer."""

MOBILENETV2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 0),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""(expansion, channels, blocks, stride of the first block) of the stages of MobileNetV2; 0 stands
for TIN_S."""


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


def vgg13(shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """SphereFed, Table 12: ten 3x3 convolutions with 2x2 max pooling between them; 512 features.

    The last pooling is over the whole map: 2x2 for images of 32x32, 4x4 for 64x64. The table's
    TIN_S by TIN_S, half of that, would leave 2,048 features where its last layer takes 512. Its
    NormLayer(256) after convolutions to 512 channels are misprints.
    """
    channels, height, width = shape
    layers: list[nn.Module] = []
    for number, stage in enumerate(VGG13, 1):
        for out in stage:
            layers.append(convolution(channels, out, 3, 1, norm))
            channels = out
        window = 2 if number < len(VGG13) else (height // 16, width // 16)
        layers.append(nn.MaxPool2d(window))
    return nn.Sequential(*layers, nn.Flatten()), channels


class InvertedResidual(nn.Module):
    """Expansion, depthwise 3x3 convolution, projection (Sandler et al., 2018), added to the input
    if shapes agree.

    No activation follows the projection, the paper's linear bottleneck.
    """

    def __init__(self, channels: int, out: int, expansion: int, stride: int, norm: str) -> None:
        super().__init__()
        inner = expansion * channels
        self.layers = nn.Sequential(
            convolution(channels, inner, 1, 1, norm),
            convolution(inner, inner, 3, stride, norm, groups=inner),
            convolution(inner, out, 1, 1, norm, relu=False),
        )
        self._adds = channels == out and stride == 1

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, channels, h, w) to (n, out, ⌈h / stride⌉, ⌈w / stride⌉)."""
        output: Tensor = self.layers(x)
        return x + output if self._adds else output


def mobilenetv2(shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """SphereFed, Table 14: MobileNetV2 for small images; the means of 1,280 channels.

    As in the table, and unlike in torchvision's block, the activation is ReLU and the first block
    has an expansion, of factor 1. The table does not list the shortcuts, which lack weights here,
    and has a ReLU after the projections, unlike MobileNetV2. From 64x64 on the second stage halves
    height and width.
    """
    layers: list[nn.Module] = [convolution(shape[0], 32, 3, 1, norm)]
    channels = 32
    for expansion, out, blocks, stride in MOBILENETV2:
        for number in range(blocks):
            step = 1 if number else stride or tin_stride(*shape[1:])
            layers.append(InvertedResidual(channels, out, expansion, step, norm))
            channels = out
    layers.append(convolution(channels, 1280, 1, 1, norm))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), 1280


def features(shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """The values of an image as its features, with mean 0 and variance 1 over the values of an
    image: networks differ in the scale of their features, and rates suit this one. No weights."""
    width = math.prod(shape)
    return nn.Sequential(nn.Flatten(), nn.LayerNorm(width, elementwise_affine=False)), width


def has_batch_norm(model: nn.Module) -> bool:
    """Whether any layer of a model is a batch normalisation, with running statistics."""
    return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())


def _checked(
    name: str, build: Build, min_size: int, shape: tuple[int, int, int], norm: str
) -> tuple[nn.Module, int]:
    channels, height, width = shape
    if channels < 1 or min(height, width) < min_size:
        raise ValueError(
            f"{name} takes images of 1x{min_size}x{min_size} (channels x height x width) or larger,"
            f" not {channels}x{height}x{width}"
        )
    return build(shape, norm)


_ROWS: tuple[tuple[str, Build, int], ...] = (
    ("cnn", cnn, 8),
    ("convnet", convnet, 8),
    ("resnet18", resnet18, 8),
    ("resnet18-7x7", resnet18_7x7, 8),
    ("vgg13", vgg13, 16),
    ("mobilenetv2", mobilenetv2, 8),
    ("senet18", senet18, 8),
    (FEATURES, features, 1),
)

NETS: dict[str, Build] = {
    name: partial(_checked, name, build, min_size) for name, build, min_size in _ROWS
}
"""The functions by name; they raise ValueError, with the minimum size, for smaller images."""
