"""Small data sets in the formats of other tools."""

from pathlib import Path

import numpy as np
from image_fixtures import made

SIZES = {"train": 60, "val": 15, "test": 21}


def medmnist_arrays(shape: tuple[int, ...] = (8, 8), num_classes: int = 3) -> dict[str, np.ndarray]:
    """The arrays of a MedMNIST archive: labels (n, 1) of uint8."""
    arrays = {}
    for seed, (part, size) in enumerate(SIZES.items()):
        images, labels = made(size, shape, num_classes, seed)
        arrays |= {f"{part}_images": images, f"{part}_labels": labels[:, None].astype(np.uint8)}
    return arrays


def write_medmnist(folder: Path) -> Path:
    """An archive of colour images."""
    path = folder / "pathmnist.npz"
    np.savez_compressed(path, **medmnist_arrays((8, 8, 3)))
    return path
