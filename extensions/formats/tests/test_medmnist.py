"""MedMNIST's archives: their parts, shapes and labels, and what is refused."""

import numpy as np
import pytest
import torch
from errors import refuses
from format_fixtures import SIZES, medmnist_arrays, read_images

from curvfed.tasks.images.layout import TEST, TRAIN, VAL


def read(folder, arrays):
    path = folder / "own.npz"
    np.savez(path, **arrays)
    return read_images(path)


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 3)])
def test_images_labels_and_parts(tmp_path, shape):
    arrays = medmnist_arrays(shape)
    raw = read(tmp_path, arrays)
    assert raw.class_names == ("0", "1", "2")
    for role, split in ((TRAIN, "train"), (VAL, "val"), (TEST, "test")):
        numbers = np.flatnonzero(raw.roles == role)
        assert len(numbers) == SIZES[split]
        assert raw.labels[numbers].tolist() == arrays[f"{split}_labels"][:, 0].tolist()
        images = torch.from_numpy(arrays[f"{split}_images"].reshape(SIZES[split], 8, 8, -1))
        assert torch.equal(raw.read(numbers, 0, 0), images.permute(0, 3, 1, 2))


def test_absent_parts(tmp_path):
    arrays = medmnist_arrays()
    del arrays["test_images"], arrays["test_labels"]
    raw = read(tmp_path, arrays)
    assert (raw.roles == TEST).sum() == SIZES["val"]
    del arrays["val_images"], arrays["val_labels"]
    raw = read(tmp_path, arrays)
    assert raw.roles is None
    assert (raw.with_test() == TEST).sum() == 12


REFUSED = {
    "several-labels": ({"train_labels": np.zeros((60, 14), np.uint8)}, "train_labels", "14 labels"),
    "unequal-lengths": (
        {"val_labels": np.zeros((9, 1), np.uint8)},
        "val_images has 15",
        "9 labels",
    ),
    "images": ({"train_images": np.zeros((60, 8, 8, 8), np.uint8)}, "train_images", "volumes"),
    "image-sizes": ({"test_images": np.zeros((21, 9, 9), np.uint8)}, "test_images 1x9x9"),
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_is_refused(tmp_path, key):
    changes, *fragments = REFUSED[key]
    with refuses(key, "own.npz", *fragments):
        read(tmp_path, medmnist_arrays() | changes)


def test_a_damaged_archive(tmp_path):
    path = tmp_path / "own.npz"
    np.savez_compressed(path, **medmnist_arrays())
    content = path.read_bytes()
    path.write_bytes(content[:200] + bytes(2000) + content[2200:])
    with refuses("unreadable", "own.npz"):
        read_images(path)
