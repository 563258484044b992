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


def _both_parts(
    collection: str, root: Path, **arguments: Any
) -> tuple[Tensor, Integers, Integers, list[str]]:
    """Images (n, c, h, w), labels, roles and class names, as a class of torchvision reads them."""
    read = getattr(torchvision_module("datasets"), collection)
    parts = [read(root, train=train, **arguments) for train in (True, False)]
    images = torch.cat([torch.as_tensor(part.data) for part in parts])
    labels = np.concatenate([np.asarray(part.targets, dtype=np.int64) for part in parts])
    roles = np.repeat([TRAIN, TEST], [len(part.data) for part in parts])
    return (
        images.permute(0, 3, 1, 2) if images.ndim == 4 else images[:, None],
        labels,
        roles,
        parts[0].classes,
    )


def read_named(collection: str, root: Path) -> RawImages:
    """A data set as a class of torchvision reads it."""
    images, labels, roles, names = _both_parts(collection, root)
    # torchvision's names of MNIST's classes are "0 - zero" and so on.
    return raw_images(images, labels, DIGITS if collection == "MNIST" else names, roles)


def read_letters(root: Path) -> RawImages:
    """EMNIST letters. In the files, the images are transposed and the labels count from 1."""
    images, labels, roles, names = _both_parts("EMNIST", root, split="letters")
    return raw_images(images.transpose(2, 3), labels - 1, names[1:], roles)


def read_digits() -> RawImages:
    """The digits of scikit-learn, 8x8, with pixels in 0..16."""
    from sklearn.datasets import load_digits

    found = load_digits()
    pixels = torch.from_numpy(np.rint(found.images * (255 / 16)).astype(np.uint8))
    return raw_images(pixels[:, None], found.target.astype(np.int64), DIGITS)
