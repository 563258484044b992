"""The format of a path: each format recognises its files and folders by their content and says why;
the first match decides."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from curvfed.tasks.class_names import names_listed
from curvfed.tasks.foreign import kind_of_file, refuse_foreign
from curvfed.tasks.format import Format, holds_array
from curvfed.tasks.images import first_image
from curvfed.tasks.kinds import ADDED, KINDS, added_by
from curvfed.tasks.public_data import Located
from curvfed.tasks.sources import ENDINGS, STORED
from curvfed.tasks.stored_files import LastRead
from curvfed.tasks.tables import ending

IMAGE_COLUMNS = ("Image", "Array2D", "Array3D")
"""The types of columns of images in Hugging Face's datasets."""


@dataclass(frozen=True)
class Decision:
    """The format of a path, and the reason.

    Attributes
    ----------
    path : Path
    form : Format
    reason : str
        In words.
    """

    path: Path
    form: Format
    reason: str

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of `curvfed.tasks.kinds.KINDS` that the path may be read as."""
        return self.form.tasks

    @property
    def text(self) -> str:
        """The decision in words, such as "links.tsv: links (two columns of names)"."""
        return f"{self.path.name}: {' or '.join(self.tasks)} ({self.reason})"

    def locate(self, **options: Any) -> "Located[Any]":
        """The files of the data of another tool, and their reader, which knows the options.

        Raises
        ------
        DataError
            If the files are incomplete.
        """
        locate = resolve_name(self.form.reader)
        located: Located[Any] = locate(self.path, **options)
        return replace(located, title=self.form.title)


_DECISION: LastRead[Decision] = LastRead()
"""A run asks several times about each path."""


def decide(path: Path) -> Decision:
    """The format of a path; for an absent one by the end of its name.

    Raises
    ------
    DataError
        If it is of a kind that is not read.
    """
    return _DECISION.get(os.path.abspath(path), partial(_decide, path))


def _decide(path: Path) -> tuple[Decision, list[str | Path]]:
    """The decision, and the files and folders that determine it."""
    if not path.exists():
        form = Format("an absent path", ABSENT.get(ending(path), ANY_FOLDER), str)
        return Decision(path, form, "by its name, as it is absent"), [path]
    inner = islice(path.iterdir(), PEEK_FOLDERS) if path.is_dir() else ()
    watched: list[str | Path] = [path, *inner]
    for form in (*UNCLEAR, *FORMATS):
        reason = form.recognise(path)
        if reason:
            return Decision(path, form, reason), watched
    refuse_foreign(path)
    return Decision(path, UNKNOWN, _why_unknown(path)), watched


def _why_unknown(path: Path) -> str:
    if path.is_file():
        return f'files that end in "{path.suffix}" are not supported; allowed is {PATHS}'
    files = sorted(path.glob("*"))
    parts = [file.name for file in files if "train" in file.name and file.is_file()]
    if parts:
        return f"the folder holds {names_listed(parts)}; {READ_AS}"
    if not files:
        return f"the folder is empty, or cannot be read; allowed is {PATHS}"
    return (
        "the folder holds no files of the TU collection, NAME_A.txt, and no image in a folder of"
        f" its class; a folder is looked through for these in this order; allowed is {PATHS}"
    )


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


def _is_tu_folder(path: Path) -> str:
    """The reason for a folder with a file of the TU collection, as published or as stored by
    PyTorch Geometric."""
    names = [file.name for file in (*path.glob("*_A.txt"), *path.glob("raw/*_A.txt"))]
    return f"it holds {names[0]}" if names else ""


def _is_image_folder(path: Path) -> str:
    image = first_image(path)
    return f"it holds the image {image.name}" if image else ""


def _is_points(path: Path) -> str:
    if kind_of_file(path):
        return ""
    end = _ends_in(path, ENDINGS)
    is_table = bool(_ends_in(path, TABLES))
    tables = " or ".join(added_by(TABLES[0]))
    return f"{end}, and its columns are not those of {tables}" if is_table and tables else end


def _ends_in(path: Path, endings: tuple[str, ...]) -> str:
    is_one = path.is_file() and path.name.lower().endswith(endings)
    return f"it ends in {path.suffix.lower()}" if is_one else ""


TABLES = (".csv", ".tsv")

_LEAF = re.compile(rb'\s*\{\s*"(users|num_samples|user_data|hierarchies)"')
"""The beginning of a file of LEAF."""

OGB = "a folder of the Open Graph Benchmark"
SAVED = "a folder saved by Hugging Face's datasets"

FORMATS = (
    *(form for kind in ADDED.values() for form in kind.formats),
    Format(
        "MedMNIST's .npz",
        ("images",),
        partial(holds_array, name="train_images"),
        "curvfed.tasks.images.array_files:locate_medmnist",
    ),
    Format(
        "CIFAR's pickled batches",
        ("images",),
        _is_cifar,
        "curvfed.tasks.images.array_files:locate_cifar",
    ),
    Format(
        "LEAF's JSON", ("images",), _is_leaf, "curvfed.tasks.images.leaf:locate", has_users=True
    ),
    Format(
        OGB,
        ("nodes",),
        partial(_is_ogb, labels="node-label"),
        "curvfed.tasks.graphs.data.ogb:locate",
    ),
    Format(
        OGB,
        ("graphs",),
        partial(_is_ogb, labels="graph-label"),
        "curvfed.tasks.graphs.data.ogb:locate",
    ),
    Format(
        SAVED, ("images",), partial(_is_saved, holds_points=False), "curvfed.tasks.in_memory:locate"
    ),
    Format(
        SAVED, ("points",), partial(_is_saved, holds_points=True), "curvfed.tasks.in_memory:locate"
    ),
    Format(
        "a .pt file of graphs (PyTorch Geometric's, by torch.save)",
        ("nodes", "graphs", *added_by(STORED[0])),
        partial(_ends_in, endings=STORED),
    ),
    # A folder of graphs may also hold a picture.
    Format("a folder in the TU collection's layout", ("graphs",), _is_tu_folder),
    Format("a folder with a folder of images per class", ("images",), _is_image_folder),
    Format(
        f"a file of points with a class for each, {', '.join(ENDINGS)}", ("points",), _is_points
    ),
)
"""In the order in which they decide."""

UNCLEAR = tuple(form for kind in ADDED.values() for form in kind.unclear)
"""The formats of paths that may hold several kinds of data. They decide first."""

UNKNOWN = Format("of no known kind", tuple(KINDS), str)
"""The format of all other paths; the reader of each task refuses them in its own words."""

_ABSENT = {
    **dict.fromkeys(STORED, ("nodes", "graphs")),
    **dict.fromkeys(TABLES, ("points",)),
    ".npz": ("points", "images"),
    ".h5ad": ("points",),
    ".json": ("images",),
}
_ENDINGS = dict.fromkeys(
    (*_ABSENT, *(ending for kind in ADDED.values() for ending in kind.endings if ending))
)

ABSENT = {ending: (*_ABSENT.get(ending, ()), *added_by(ending)) for ending in _ENDINGS}
"""The possible kinds of data of an absent path, by the end of its name."""

FILE_ENDINGS = (*ABSENT, *(f"{ending}.gz" for ending in TABLES))
"""Ends of the names of data sets that are files."""

ANY_FOLDER = ("graphs", "images", *added_by(""))
"""The possible kinds of data of an absent folder."""

PEEK_FOLDERS = 1000
"""Maximum number of entries of a folder that are watched for a change of its contents."""

PATHS = ", ".join(dict.fromkeys(form.title for form in FORMATS))
"""The kinds of paths that are data sets."""

_HINTS = "".join(f", and {kind.files_hint}" for kind in ADDED.values())

READ_AS = (
    "graphs are .pt files and folders in the TU collection's layout, points .npz, .csv, .tsv or"
    f" .h5ad files of two coordinates and a class{_HINTS}"
)
"""The kinds of data in files, for error texts."""
