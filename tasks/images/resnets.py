"""The residual networks, made of torchvision's blocks."""

from collections import OrderedDict
from functools import partial
from typing import Any

import torch
from torch import nn

from curvfed.tasks.images.layers import convolution, normalisation, start, tin_stride
from curvfed.tasks.images.torchvision_modules import torchvision_module

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
    return _residual(
        convolution(shape[0], WIDTHS[0], 3, 1, norm), tin_stride(*shape[1:]), norm, squeezes=False
    )


def resnet18_7x7(shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """torchvision's ResNet-18, whose stem is a 7x7 convolution and a max pooling, as HyperFed's
    authors use it."""
    stem = convolution(shape[0], WIDTHS[0], 7, 2, norm).append(nn.MaxPool2d(3, 2, 1))
    return _residual(stem, 1, norm, squeezes=False)


def senet18(shape: tuple[int, int, int], norm: str) -> tuple[nn.Module, int]:
    """SphereFed, Table 13: `resnet18` with squeeze and excitation of the channels before the sum of
    each block.

    The module is two 1x1 convolutions with biases on the means of the channels, with a 16th as many
    in between.
    """
    return _residual(
        convolution(shape[0], WIDTHS[0], 3, 1, norm), tin_stride(*shape[1:]), norm, squeezes=True
    )


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
