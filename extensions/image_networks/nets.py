"""Bodies of image networks, as those of `curvfed.tasks.images.nets`, some made of torchvision's
blocks."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from curvfed.tasks.images.nets import (
    checked,
    convolution,
    normalisation,
    start,
    torchvision_module,
)

REDUCTION = 16
"""Reduction of the channels within a squeeze-and-excitation module (Hu et al., 2018)."""

_VGG13 = ((64, 64), (128, 128), (256, 256), (512, 512), (512, 512))
"""Channels of the convolutions of VGG13, in stages that end with a pooling layer."""

_MOBILENETV2 = (
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


def tin_stride(height: int, width: int) -> int:
    """TIN_S of the tables in SphereFed, appendix F.1: 2 from 64x64 on (TinyImageNet), else 1."""
    return 2 if min(height, width) >= 64 else 1


WIDTHS = (64, 128, 256, 512)


def resnet18(shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """SphereFed, Table 15: ResNet-18 for small images, with a 3x3 stem and no pooling before the
    blocks.

    The table's NormLayer(256) after a convolution to 512 channels is a misprint. It lists neither
    the shortcuts, a 1x1 convolution with normalisation where the number of channels or pixels
    changes, nor that the second ReLU of a block follows the sum. From 64x64 on the first block
    halves height and width.
    """
    stem = convolution(shape[0], WIDTHS[0], 3, 1, norm)
    return residual(stem, tin_stride(*shape[1:]), norm)


def residual(
    stem: nn.Module,
    first_stride: int,
    norm: str,
    finish: Callable[[nn.Module, int], nn.Module] | None = None,
) -> tuple[nn.Module, int]:
    """The blocks of ResNet-18 after a stem, and the means of their channels.

    Parameters
    ----------
    stem : Module
        To 64 channels.
    first_stride : int
        The stride of the first block.
    norm : str
    finish : callable, optional
        From the last normalisation of a block and its number of channels to what follows in its
        place.
    """
    basic_block = torchvision_module("models.resnet").BasicBlock

    def block(channels: int, out: int, stride: int) -> Any:
        same = channels == out and stride == 1
        shortcut = None if same else convolution(channels, out, 1, stride, norm, relu=False)
        layer = basic_block(
            channels, out, stride, shortcut, norm_layer=partial(normalisation, norm=norm)
        )
        if finish:
            layer.bn2 = finish(layer.bn2, out)
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


def resnet18_7x7(shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """torchvision's ResNet-18 with a 7x7 convolution and a max pooling as stem, as HyperFed's
    authors use it."""
    stem = convolution(shape[0], WIDTHS[0], 7, 2, norm).append(nn.MaxPool2d(3, 2, 1))
    return residual(stem, 1, norm)


def senet18(shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """SphereFed, Table 13: `resnet18` with squeeze and excitation of the channels before the sum of
    each block.

    The module is two 1x1 convolutions with biases on the means of the channels, with a 16th as many
    in between.
    """
    stem = convolution(shape[0], WIDTHS[0], 3, 1, norm)
    return residual(stem, tin_stride(*shape[1:]), norm, _squeezed)


def _squeezed(norm: nn.Module, channels: int) -> nn.Module:
    """A normalisation, and the squeeze and excitation of its channels."""
    squeeze_excitation = torchvision_module("ops").SqueezeExcitation
    return nn.Sequential(norm, squeeze_excitation(channels, channels // REDUCTION))


def vgg13(shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """SphereFed, Table 12: ten 3x3 convolutions with 2x2 max pooling between them; 512 features.

    The last pooling is over the whole map: 2x2 for images of 32x32, 4x4 for 64x64. The table's
    TIN_S by TIN_S, half of that, would leave 2,048 features where its last layer takes 512. Its
    NormLayer(256) after convolutions to 512 channels are misprints.
    """
    channels, height, width = shape
    layers: list[nn.Module] = []
    for number, stage in enumerate(_VGG13, 1):
        for out in stage:
            layers.append(convolution(channels, out, 3, 1, norm))
            channels = out
        window = 2 if number < len(_VGG13) else (height // 16, width // 16)
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
    for expansion, out, blocks, stride in _MOBILENETV2:
        for number in range(blocks):
            step = 1 if number else stride or tin_stride(*shape[1:])
            layers.append(InvertedResidual(channels, out, expansion, step, norm))
            channels = out
    layers.append(convolution(channels, 1280, 1, 1, norm))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), 1280


RESNET18 = checked("resnet18", resnet18, 8)
RESNET18_7X7 = checked("resnet18-7x7", resnet18_7x7, 8)
VGG13 = checked("vgg13", vgg13, 16)
MOBILENETV2 = checked("mobilenetv2", mobilenetv2, 8)
SENET18 = checked("senet18", senet18, 8)
