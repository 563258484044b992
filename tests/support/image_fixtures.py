"""Small data sets of images in the loaders' own layouts, with the truth about them."""

import hashlib
import pickle
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from curvfed.tasks.images.client_images import ClientImages
from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset

Pixels = NDArray[np.uint8]
Truth = dict[str, tuple[Pixels, NDArray[np.int64]]]
"""Of "train" and "test": images (n, h, w), or (n, h, w, 3), all unlike, and labels (n,)."""

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

IDX_PARTS = {
    "MNIST": ("train", "t10k"),
    "FashionMNIST": ("train", "t10k"),
    "EMNIST": ("emnist-letters-train", "emnist-letters-test"),
}


def made(
    num: int, shape: tuple[int, ...], num_classes: int, seed: int
) -> tuple[Pixels, NDArray[np.int64]]:
    """Noise around a level that tells the class."""
    rng = np.random.default_rng(seed)
    labels = np.arange(num) % num_classes
    rng.shuffle(labels)
    level = (40 + 160 * labels / num_classes).reshape(-1, *(1 for _ in shape))
    return (level + rng.integers(0, 40, size=(num, *shape))).astype(np.uint8), labels


def write_idx(
    root: Path,
    collection: str = "MNIST",
    num_train: int = 120,
    num_test: int = 40,
    num_classes: int = 10,
    seed: int = 0,
) -> Truth:
    """MNIST's layout. Letters are as published: labels from 1, images on their side."""
    folder = root / collection / "raw"
    folder.mkdir(parents=True)
    truth = {}
    for number, (part, num) in enumerate((("train", num_train), ("test", num_test))):
        images, labels = truth[part] = made(num, (28, 28), num_classes, 2 * seed + number)
        name = IDX_PARTS[collection][number]
        if collection == "EMNIST":
            images, labels = images.transpose(0, 2, 1), labels + 1
        for kind, array in (("images-idx3", images), ("labels-idx1", labels.astype(np.uint8))):
            header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">i4").tobytes()
            (folder / f"{name}-{kind}-ubyte").write_bytes(header + array.tobytes())
    return truth


def write_cifar(
    root: Path, monkeypatch: pytest.MonkeyPatch, collection: str = "CIFAR10", per_batch: int = 20
) -> Truth:
    """CIFAR's layout; torchvision is told the checksums of these files."""
    import torchvision.datasets

    loader = getattr(torchvision.datasets, collection)
    folder = root / loader.base_folder
    folder.mkdir(parents=True)
    key, names = {
        "CIFAR10": ("labels", CIFAR10),
        "CIFAR100": ("fine_labels", tuple(f"fine {number}" for number in range(100))),
    }[collection]

    def write(name: str, stored: Mapping[str, object]) -> str:
        content = pickle.dumps(stored, 2)
        (folder / name).write_bytes(content)
        return hashlib.md5(content).hexdigest()

    truth = {}
    for part, attribute in (("train", "train_list"), ("test", "test_list")):
        batches, sums = [], []
        for number, (name, _) in enumerate(getattr(loader, attribute)):
            images, labels = made(per_batch, (32, 32, 3), len(names), seed=10 * number + len(part))
            rows = images.transpose(0, 3, 1, 2).reshape(per_batch, -1)
            sums.append([name, write(name, {"data": rows, key: labels.tolist()})])
            batches.append((images, labels))
        monkeypatch.setattr(loader, attribute, sums)
        truth[part] = (
            np.concatenate([one for one, _ in batches]),
            np.concatenate([one for _, one in batches]),
        )
    meta = loader.meta
    monkeypatch.setattr(
        loader, "meta", meta | {"md5": write(meta["filename"], {meta["key"]: list(names)})}
    )
    return truth


def write_classes(
    folder: Path,
    counts: Mapping[str, int],
    shape: tuple[int, ...] = (8, 8),
    seed: int = 0,
    suffix: str = ".png",
) -> dict[str, Pixels]:
    """CLASS/*: so many images of each class, grey, or with a third number in `shape` in colour."""
    truth = {}
    for number, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True, exist_ok=True)
        truth[name], _ = made(count, shape, 1, 100 * seed + number)
        for place, image in enumerate(truth[name]):
            Image.fromarray(image).save(folder / name / f"{place:04d}{suffix}")
    return truth


def write_tiny(
    root: Path, num_classes: int = 3, per_class: int = 4, tested_per_class: int | None = None
) -> Truth:
    """TinyImageNet's layout, in files without loss under the names of JPEG."""
    sizes = {"train": per_class, "test": tested_per_class or per_class}
    folder = root / "tiny-imagenet-200"
    truth = {}
    for part in ("train", "test"):
        images, labels = truth[part] = made(
            num_classes * sizes[part], (64, 64, 3), num_classes, seed=len(part)
        )
        rows = []
        for number, (image, label) in enumerate(zip(images, labels, strict=True)):
            wnid = f"n{label:08d}"
            place = folder / ("val/images" if part == "test" else f"train/{wnid}/images")
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(place / f"{number}.JPEG", format="PNG")
            rows.append(f"{number}.JPEG\t{wnid}\t0\t0\t62\t62\n")
        if part == "test":
            (folder / "val/val_annotations.txt").write_text("".join(rows))
        else:
            for wnid in {row.split("\t")[1] for row in rows}:
                (folder / "train" / wnid / f"{wnid}_boxes.txt").write_text("")
    return truth


def load_all(spec: ImageSpec, cache: Path, num_clients: int) -> list[ClientImages]:
    return [ImageDataset(spec, cache).client(number, num_clients) for number in range(num_clients)]


def same(one: ClientImages, other: ClientImages) -> bool:
    """Whether everything is equal."""
    names = ("class_names", "mean", "std", "augments", "digest", "partition_digest")
    tensors, others = one.tensors(), other.tensors()
    return all(torch.equal(tensors[name], others[name]) for name in tensors) and all(
        getattr(one, name) == getattr(other, name) for name in names
    )


def rows_of(images: Pixels | torch.Tensor) -> list[bytes]:
    """Every image as bytes, channels first."""
    array = images.numpy() if isinstance(images, torch.Tensor) else images
    if array.ndim == 4 and not isinstance(images, torch.Tensor):
        array = array.transpose(0, 3, 1, 2)
    return [np.ascontiguousarray(image).tobytes() for image in array]
