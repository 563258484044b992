"""Small data sets in the formats of other tools."""

import gzip
import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from graph_fixtures import PLANTED_NODES, planted
from image_fixtures import made, write_tiny
from numpy.typing import NDArray
from PIL import Image
from saved_datasets import ANIMALS, IMAGE, PAIR, dataset, save

from curvfed.tasks.images.clients import ImageSpec
from curvfed.tasks.images.dataset import ImageDataset
from curvfed.tasks.images.raw import RawImages

SIZES = {"train": 60, "val": 15, "test": 21}


def medmnist_arrays(shape: tuple[int, ...] = (8, 8), num_classes: int = 3) -> dict[str, np.ndarray]:
    """The arrays of a MedMNIST archive: labels (n, 1) of uint8."""
    arrays = {}
    for seed, (split, size) in enumerate(SIZES.items()):
        images, labels = made(size, shape, num_classes, seed)
        arrays |= {f"{split}_images": images, f"{split}_labels": labels[:, None].astype(np.uint8)}
    return arrays


def write_medmnist(folder: Path) -> Path:
    """An archive of colour images."""
    path = folder / "pathmnist.npz"
    np.savez_compressed(path, **medmnist_arrays((8, 8, 3)))
    return path


def leaf_users(
    sizes: dict[str, int], shape: tuple[int, ...] = (8, 8), seed: int = 0
) -> dict[str, dict[str, list]]:
    """The "user_data" of a file of LEAF: flat images of 0 to 1, and labels."""
    data = {}
    for number, (user, size) in enumerate(sizes.items()):
        images, labels = made(size, shape, 3, seed + number)
        rows = images.reshape(size, math.prod(shape)) / 255
        data[user] = {"x": rows.tolist(), "y": labels.tolist()}
    return data


def write_leaf_file(path: Path, data: dict[str, dict[str, list]]) -> Path:
    """A file of LEAF."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sizes = [len(examples["y"]) for examples in data.values()]
    path.write_text(json.dumps({"users": list(data), "num_samples": sizes, "user_data": data}))
    return path


def write_leaf(folder: Path) -> Path:
    """A folder of LEAF: five users in two files, whose training and test images are apart."""
    path = folder / "femnist"
    write_leaf_file(path / "train/all_data_0.json", leaf_users({"a": 20, "b": 10, "c": 15}))
    write_leaf_file(path / "train/all_data_1.json", leaf_users({"d": 10, "e": 20}, seed=9))
    write_leaf_file(
        path / "test/all_data_0.json", leaf_users({"a": 5, "b": 3, "c": 4, "d": 3, "e": 6}, seed=20)
    )
    return path


def write_batch(path: Path, entries: dict[str, object]) -> Path:
    """A batch of CIFAR."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps(entries, 2))
    return path


def cifar_batch(size: int, field: str, num_classes: int = 10, seed: int = 0) -> dict[str, object]:
    """The entries of a batch of CIFAR."""
    images, labels = made(size, (3, 32, 32), num_classes, seed)
    return {"data": images.reshape(size, -1), field: labels.tolist()}


def write_cifar100(folder: Path) -> Path:
    """The folder of CIFAR-100, with three classes."""
    path = folder / "cifar-100-python"
    names = {"fine_label_names": ["apple", "bee", "cup"], "coarse_label_names": ["a", "b"]}
    write_batch(path / "meta", names)
    for split, size in (("train", 75), ("test", 21)):
        coarse = {"coarse_labels": [0] * size, "filenames": ["a.png"] * size}
        write_batch(path / split, cifar_batch(size, "fine_labels", 3, size) | coarse)
    return path


def write_tiny_folder(folder: Path) -> Path:
    """The folder of TinyImageNet, with three classes."""
    write_tiny(folder, 3, 25, 7)
    return folder / "tiny-imagenet-200"


def animals(size: int, seed: int = 0) -> Any:
    """A `Dataset` of colour images."""
    images, labels = made(size, (8, 8, 3), 3, seed)
    columns = {"img": list(map(Image.fromarray, images)), "label": labels.tolist()}
    return dataset(columns, {"img": IMAGE, "label": ANIMALS})


def write_saved_images(folder: Path) -> Path:
    """A `DatasetDict` of images, saved."""
    sizes = {"train": 60, "validation": 15, "test": 21}
    return save(folder / "animals", {split: animals(size, size) for split, size in sizes.items()})


def write_saved_points(folder: Path) -> Path:
    """A `DatasetDict` of points, saved."""
    splits = {}
    for split, size in (("train", 75), ("test", 21)):
        angles = np.linspace(0, 6, size)
        points = 0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        columns = {"emb": points.tolist(), "label": (angles > 3).astype(int).tolist()}
        types = {"emb": PAIR, "label": {"dtype": "int64", "_type": "Value"}}
        splits[split] = dataset(columns, types)
    return save(folder / "points", splits)


def write_ogb(root: Path, seed: int = 0, folder: str = "ogb") -> dict[str, NDArray]:
    """Write `planted(seed)` as the zipped tables of root/folder/ogbn_arxiv; returns the tables by
    file name.

    As in the original: an edge stands in one direction, features are real numbers of six decimals,
    one split of all nodes. To be coped with: a self-loop.
    """
    graph = planted(seed)
    rng = np.random.default_rng(seed + 1)
    edges = rng.permuted(np.array([*sorted(graph.edges), (3, 3)]), axis=1)
    train, valid, test = np.split(rng.permutation(PLANTED_NODES), [340, 460])
    tables = {
        "raw/edge": edges,
        "raw/node-feat": rng.normal(size=(PLANTED_NODES, 12)).round(6),
        "raw/node-label": graph.labels,
        "raw/node_year": rng.integers(1990, 2021, size=PLANTED_NODES),
        "raw/num-node-list": np.array([PLANTED_NODES]),
        "raw/num-edge-list": np.array([len(edges)]),
        "split/time/train": np.sort(train),
        "split/time/valid": np.sort(valid),
        "split/time/test": np.sort(test),
    }
    write_tables(root / folder / "ogbn_arxiv", tables)
    return tables


def write_tables(folder: Path, tables: dict[str, Any]) -> None:
    """Zipped tables as of OGB, by name."""
    for name, table in tables.items():
        rows = np.asarray(table)
        lines = [",".join(map(str, row)) for row in rows.reshape(len(rows), -1).tolist()]
        path = folder / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))


def molecule_tables() -> dict[str, Any]:
    """The tables of 96 rings of 4 to 6 atoms in OGB's layout; rings of 6 have class 1."""
    rng = np.random.default_rng(0)
    sizes = 4 + np.arange(96) % 3
    edges = [(node, (node + 1) % size) for size in sizes for node in range(size)]
    atoms = np.zeros((sum(sizes), 9), dtype=int)
    atoms[:, 0] = rng.integers(0, 119, len(atoms))
    order = rng.permutation(96)
    return {
        "raw/num-node-list": sizes,
        "raw/num-edge-list": sizes,
        "raw/edge": edges,
        "raw/edge-feat": np.zeros((len(edges), 3), dtype=int),
        "raw/node-feat": atoms,
        "raw/graph-label": (sizes == 6).astype(int),
        "split/scaffold/train": order[:60],
        "split/scaffold/valid": order[60:75],
        "split/scaffold/test": order[75:],
    }


def write_molecules(folder: Path) -> Path:
    """A folder of OGB with graphs."""
    write_tables(folder / "ogbg_molhiv", molecule_tables())
    return folder / "ogbg_molhiv"


def write_citations(folder: Path) -> Path:
    """A folder of OGB with one graph of 640 nodes."""
    write_ogb(folder, folder=".")
    return folder / "ogbn_arxiv"


def read_images(path: Path) -> RawImages:
    """The images of a folder or file as a node's own."""
    return ImageDataset(ImageSpec("", path)).locate_own(path).read()
