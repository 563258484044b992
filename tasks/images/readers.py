"""Read the public data sets of images, by torchvision and scikit-learn."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks.images.label_partition import Integers
from curvfed.tasks.images.layout import TEST, TRAIN
from curvfed.tasks.images.raw import RawImages, raw_images
from curvfed.tasks.images.torchvision_modules import torchvision_module

DIGITS = tuple("0123456789")


def _read_both(
    collection: str, root: Path, **arguments: Any
) -> tuple[Tensor, Integers, Integers, list[str]]:
    """Images (n, c, h, w), labels, roles and class names of training and test images, read by a
    class of torchvision."""
    read = getattr(torchvision_module("datasets"), collection)
    train = read(root, train=True, **arguments)
    test = read(root, train=False, **arguments)
    images = torch.cat([torch.as_tensor(train.data), torch.as_tensor(test.data)])
    images = images.permute(0, 3, 1, 2) if images.ndim == 4 else images[:, None]
    labels = np.concatenate([train.targets, test.targets]).astype(np.int64)
    roles = np.repeat([TRAIN, TEST], [len(train.data), len(test.data)])
    return images, labels, roles, train.classes


def read_named(collection: str, root: Path) -> RawImages:
    """Read a data set by a class of torchvision."""
    images, labels, roles, names = _read_both(collection, root)
    # torchvision's names of MNIST's classes are "0 - zero" and so on.
    return raw_images(images, labels, DIGITS if collection == "MNIST" else names, roles)


def read_letters(root: Path) -> RawImages:
    """Read EMNIST letters. In the files the images are transposed and the labels count from 1."""
    images, labels, roles, names = _read_both("EMNIST", root, split="letters")
    return raw_images(images.transpose(2, 3), labels - 1, names[1:], roles)


def read_digits() -> RawImages:
    """Read the digits of scikit-learn, 8x8, with pixels in 0..16."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = torch.from_numpy(np.rint(digits.images * (255 / 16)).astype(np.uint8))
    return raw_images(pixels[:, None], digits.target.astype(np.int64), DIGITS)
