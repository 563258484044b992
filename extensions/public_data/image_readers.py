"""Readers of the public data sets of images: by torchvision, or as folders of image files."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from curvfed.extensions.public_data.rows import TINY
from curvfed.geometry.arrays import Integers
from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError
from curvfed.tasks.images import class_folders
from curvfed.tasks.images.dataset import DIGITS
from curvfed.tasks.images.folder import located_folder
from curvfed.tasks.images.layout import TABLE, TEST, TRAIN, part_classes
from curvfed.tasks.images.nets import torchvision_module
from curvfed.tasks.images.raw import RawImages, raw_images
from curvfed.tasks.public_data import Located, PublicData

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


COLLECTIONS = {
    "MNIST": "MNIST",
    "Fashion-MNIST": "FashionMNIST",
    "CIFAR-10": "CIFAR10",
    "CIFAR-100": "CIFAR100",
}
"""torchvision's class by the title of a data set."""


def find(source: PublicData, data_dir: Path) -> Located[RawImages] | None:
    """The files of a public data set, or None if they are absent."""
    located = _find(source, data_dir.expanduser())
    if located is None:
        return None

    def read() -> RawImages:
        try:
            return located.read()
        except (DataError, ImportError):
            raise
        except Exception as error:  # the loaders may raise anything
            folders = " or ".join(map(str, source.search_folders(data_dir)))
            raise DataError(
                f"the files of {source.title} in {folders} cannot be read ({type(error).__name__}:"
                f" {error}): they are damaged, or not the original ones. Remove them, and on a"
                f" machine with a network run:\n{source.command(data_dir)}",
                str(error),
                key="unreadable",
            ) from error

    return replace(located, read=read)


def _find(source: PublicData, data_dir: Path) -> Located[RawImages] | None:
    folder = source.folder(data_dir)
    if folder is not None and source.files:
        files = tuple(folder / name for name in source.files)
        return Located(files, partial(plugins.imported(source.read), source, data_dir))
    if source.title == "CIFAR-10":
        return _find_cifar10(data_dir)
    return _find_tiny(data_dir) if source.title == "TinyImageNet" else None


def _find_cifar10(data_dir: Path) -> Located[RawImages] | None:
    """CIFAR-10 as image files, CLASS/* in train/ and test/."""
    parts = {TRAIN: data_dir / "train", TEST: data_dir / "test"}
    if any(class_folders(folder) != CIFAR10 for folder in parts.values()):
        return None
    return located_folder(data_dir, parts)


def _find_tiny(data_dir: Path) -> Located[RawImages] | None:
    """TinyImageNet; its test part val/ is one folder with a table, as published, or has a folder
    per class."""
    folder = data_dir / TINY
    parts = {TRAIN: folder / "train", TEST: folder / "val"}
    train, val = map(part_classes, parts.values())
    is_published = val == ("images",) and (parts[TEST] / TABLE).is_file()
    if not train or not val or not (is_published or set(val) <= set(train)):
        return None
    return located_folder(folder, parts)


def _read_both(
    collection: str, root: Path, **arguments: Any
) -> tuple[Tensor, Integers, Integers, list[str]]:
    """Images (n, c, h, w), labels, roles and class names of training and test images, read by a
    class of torchvision."""
    read = getattr(torchvision_module("datasets"), collection)
    train = read(root, train=True, **arguments)
    test = read(root, train=False, **arguments)
    images = torch.cat([torch.as_tensor(train.data), torch.as_tensor(test.data)])
    if images.ndim == 4:
        images = images.permute(0, 3, 1, 2)
    else:
        images = images[:, None]
    labels = np.concatenate([train.targets, test.targets]).astype(np.int64)
    roles = np.repeat([TRAIN, TEST], [len(train.data), len(test.data)])
    return images, labels, roles, train.classes


def read_named(source: PublicData, root: Path) -> RawImages:
    """Read a data set by a class of torchvision."""
    images, labels, roles, names = _read_both(COLLECTIONS[source.title], root)
    # torchvision's names of MNIST's classes are "0 - zero" and so on.
    return raw_images(images, labels, DIGITS if source.title == "MNIST" else names, roles)


def read_letters(source: PublicData, root: Path) -> RawImages:
    """Read EMNIST letters. In the files the images are transposed and the labels count from 1."""
    images, labels, roles, names = _read_both("EMNIST", root, split="letters")
    return raw_images(images.transpose(2, 3), labels - 1, names[1:], roles)
