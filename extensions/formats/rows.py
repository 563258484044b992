"""The formats of other tools, and how they are recognised."""

import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from curvfed.tasks.format import Format, ends_in, holds_array
from curvfed.tasks.graphs.data import Source, in_collection
from curvfed.tasks.kinds import added_by
from curvfed.tasks.tables import TABLES, first_lines

IMAGE_COLUMNS = ("Image", "Array2D", "Array3D")
"""The types of columns of images in Hugging Face's datasets."""

_LEAF = re.compile(rb'\s*\{\s*"(users|num_samples|user_data|hierarchies)"')
"""The beginning of a file of LEAF."""

OGB_TABLES = ("edge", "node-feat", "node-label")
OGB_SPLITS = ("train", "valid", "test")


def leaf_files(path: Path) -> dict[str, list[Path]]:
    """The files of JSON by part, "train" and "test", in `path` or `path/data`; those in the folder
    itself, or a single file, by ""."""
    if path.is_file():
        return {"": [path]}
    for folder in (path, path / "data"):
        splits = {name: sorted((folder / name).glob("*.json")) for name in ("train", "test")}
        if splits["train"]:
            return {name: files for name, files in splits.items() if files}
    files = sorted(path.glob("*.json"))
    return {"": files} if files else {}


def _is_leaf(path: Path) -> str:
    if path.is_file() and path.suffix.lower() != ".json":
        return ""
    first = next(iter(leaf_files(path).values()), [])
    try:
        with first[0].open("rb") as file:
            key = _LEAF.match(file.read(100))
    except (OSError, IndexError):
        return ""
    return f"{first[0].name} begins with {key[1].decode()}" if key else ""


def cifar_files(path: Path) -> tuple[Path, list[Path], list[Path]]:
    """The file with the class names, and the training and test batches, of CIFAR-100 or
    CIFAR-10."""
    if (path / "meta").is_file():
        batches = [[path / name] for name in ("train", "test")]
        names = path / "meta"
    else:
        batches = [sorted(path.glob("data_batch_*")), [path / "test_batch"]]
        names = path / "batches.meta"
    train, test = ([file for file in files if file.is_file()] for files in batches)
    return names, train, test


def _is_cifar(path: Path) -> str:
    names, train, _ = cifar_files(path)
    return f"it holds {names.name} and {train[0].name}" if names.is_file() and train else ""


def saved_files(path: Path) -> tuple[Path, ...]:
    """The files of a data set that Hugging Face's datasets saved: descriptions and arrow files."""
    files = [*path.glob("*.json"), *path.glob("*/*.json")]
    return tuple(sorted([*files, *path.glob("*.arrow"), *path.glob("*/*.arrow")]))


def column_type(feature: Any) -> str:
    """The type of a column of Hugging Face's datasets; "" for nested columns."""
    return str(feature.get("_type", "")) if isinstance(feature, dict) else ""


def point_column(features: Mapping[str, Any]) -> str | None:
    """The column of points by the types of all columns: the single list of floats, if no column
    holds images."""
    columns = []
    for name, feature in features.items():
        kind = column_type(feature)
        if kind in IMAGE_COLUMNS:
            return None
        is_list = kind in ("List", "LargeList", "Sequence") and isinstance(feature["feature"], dict)
        if is_list and str(feature["feature"].get("dtype")).startswith("float"):
            columns.append(name)
    return columns[0] if len(columns) == 1 else None


def _is_saved(path: Path, holds_points: bool) -> str:
    """The reason for a folder that `save_to_disk` wrote; the first split stands for all."""
    folder = path
    try:
        if (path / "dataset_dict.json").is_file():
            folder = min(state.parent for state in path.glob("*/state.json"))
        text = (folder / "dataset_info.json").read_text(encoding="utf-8")
        column = point_column(json.loads(text)["features"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ""
    if not (folder / "state.json").is_file() or (column is not None) != holds_points:
        return ""
    points = f"{column} is the only column" if column else "no single column is"
    return f"it holds state.json, and {points} of lists of decimals"


def _is_ogb(path: Path, labels: str) -> str:
    files = [f"raw/{name}.csv.gz" for name in ("edge", labels)]
    return (
        f"it holds {' and '.join(files)}"
        if all(map(Path.is_file, map(path.joinpath, files)))
        else ""
    )


def _public_graph(name: str, split: str) -> Source:
    """A graph that OGB publishes."""
    tables = [f"{table}.csv.gz" for table in OGB_TABLES]
    splits = [f"../split/{split}/{split_part}.csv.gz" for split_part in OGB_SPLITS]
    # OGB's class for PyTorch Geometric loads its own output by a torch.load that newer versions
    # refuse.
    origin = "ogb.nodeproppred.NodePropPredDataset"
    files = in_collection(origin, name, "ogb", name.replace("-", "_"), *tables, *splits)
    return Source(**files, package="ogb", read="curvfed.extensions.formats.ogb:read_public")


MEDMNIST = Format(
    "MedMNIST's .npz",
    ("images",),
    partial(holds_array, name="train_images"),
    "curvfed.extensions.formats.array_files:locate_medmnist",
    endings=(".npz",),
    known=(
        "pathmnist",
        "chestmnist",
        "dermamnist",
        "octmnist",
        "pneumoniamnist",
        "retinamnist",
        "breastmnist",
        "bloodmnist",
        "tissuemnist",
        "organamnist",
        "organcmnist",
        "organsmnist",
    ),
    example="./pathmnist.npz",
)

CIFAR = Format(
    "CIFAR's pickled batches",
    ("images",),
    _is_cifar,
    "curvfed.extensions.formats.array_files:locate_cifar",
)

LEAF = Format(
    "LEAF's JSON",
    ("images",),
    _is_leaf,
    "curvfed.extensions.formats.leaf:locate",
    has_users=True,
    endings=(".json",),
    known=("femnist", "celeba"),
    example="./femnist/data, a folder with train/*.json",
)

_OGB = "a folder of the Open Graph Benchmark"

OGB_NODES = Format(
    _OGB,
    ("nodes",),
    partial(_is_ogb, labels="node-label"),
    "curvfed.extensions.formats.ogb:locate",
    sources={"ogbn-arxiv": _public_graph("ogbn-arxiv", "time")},
)

OGB_GRAPHS = Format(
    _OGB,
    ("graphs",),
    partial(_is_ogb, labels="graph-label"),
    "curvfed.extensions.formats.ogb:locate",
)

_SAVED = "a folder saved by Hugging Face's datasets"

SAVED_IMAGES = Format(
    _SAVED,
    ("images",),
    partial(_is_saved, holds_points=False),
    "curvfed.extensions.formats.saved:locate",
    objects="curvfed.extensions.formats.saved:read_object",
    objects_hint=(
        "a Dataset of Hugging Face's datasets with a column of images or points and one of classes"
    ),
)

SAVED_POINTS = Format(
    _SAVED,
    ("points",),
    partial(_is_saved, holds_points=True),
    "curvfed.extensions.formats.saved:locate",
)


def _is_point_table(path: Path) -> str:
    """The reason for a table that has three columns or more, and not those of other data."""
    from curvfed.tasks.formats import foreign  # which imports the rows of this file

    end = ends_in(path, TABLES)
    widths = {len(row) for _, row in first_lines(path)} if end else set()
    if not end or widths in ({1}, {2}) or foreign(path):
        return ""
    others = " or ".join(added_by(TABLES[0]))
    return f"{end}, and its columns are not those of {others}" if others else end


POINT_TABLES = Format(
    f"a table of points with a class for each, {', '.join(TABLES)}",
    ("points",),
    _is_point_table,
    "curvfed.extensions.formats.point_tables:locate",
    endings=TABLES,
    is_broad=True,
)
