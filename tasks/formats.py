"""Formats of other tools: how a file or folder is recognised by its content, and what reads it or
why it is refused."""

import json
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from curvfed.tasks.errors import DataError
from curvfed.tasks.link_tables import FOREIGN_FOLDERS, LINKS, ending, is_folder, is_table
from curvfed.tasks.public_data import Located
from curvfed.tasks.sources import EDGES, ENDINGS, STORED

IMAGE_COLUMNS = ("Image", "Array2D", "Array3D")
"""The types of columns of images in Hugging Face's datasets."""


@dataclass(frozen=True)
class Format:
    """A format of another tool.

    Attributes
    ----------
    title : str
        The name in lists and error texts.
    task : str
        "nodes", "graphs", "images", "points" or "links".
    reader : str
        The function of a path, below `curvfed.tasks`, that returns the data's `Located`.
    recognises : callable
        Whether an existing path has this format; reads little, and imports no large library.
    has_users : bool
        Whether the data belong to users, whom the clients share by default.
    """

    title: str
    task: str
    reader: str
    recognises: Callable[[Path], bool]
    has_users: bool = False

    def locate(self, path: Path, **options: Any) -> "Located[Any]":
        """The files of the data and their reader, which knows the options.

        Raises
        ------
        DataError
            If the files are incomplete.
        """
        located: Located[Any] = resolve_name(f"curvfed.tasks.{self.reader}")(path, **options)
        return replace(located, title=self.title)


def format_of(path: Path) -> Format | None:
    """The format of a file or folder; None for the formats of curvfed itself, and absent paths."""
    if not path.exists():
        return None
    return next((form for form in FORMATS if form.recognises(path)), None)


def _array_names(path: Path) -> list[str]:
    """The names of the arrays in an `.npz`, with .npy; none in other or damaged files."""
    if path.suffix.lower() != ".npz" or not path.is_file():
        return []
    try:
        with zipfile.ZipFile(path) as stored:
            return stored.namelist()
    except (OSError, zipfile.BadZipFile):
        return []


def _is_medmnist(path: Path) -> bool:
    return "train_images.npy" in _array_names(path)


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


def _is_leaf(path: Path) -> bool:
    if path.is_file() and path.suffix.lower() != ".json":
        return False
    first = next(iter(leaf_files(path).values()), [])
    try:
        with first[0].open("rb") as file:
            return bool(_LEAF.match(file.read(100)))
    except (OSError, IndexError):
        return False


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


def _is_cifar(path: Path) -> bool:
    names, train, _ = cifar_files(path)
    return names.is_file() and bool(train)


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


def _is_saved(path: Path, holds_points: bool) -> bool:
    """Whether `save_to_disk` wrote a folder; the first split stands for all."""
    folder = path
    try:
        if (path / "dataset_dict.json").is_file():
            folder = min(state.parent for state in path.glob("*/state.json"))
        text = (folder / "dataset_info.json").read_text(encoding="utf-8")
        has_points = point_column(json.loads(text)["features"]) is not None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False
    return (folder / "state.json").is_file() and has_points == holds_points


def _is_ogb(path: Path, labels: str) -> bool:
    return all((path / "raw" / f"{name}.csv.gz").is_file() for name in ("edge", labels))


def is_links(path: Path) -> bool:
    """Whether a path holds links: a folder of a split, an `.obo` file, an `.npz` of `EDGES`, or a
    table."""
    if path.is_dir():
        return is_folder(path)
    kind = ending(path)
    if kind == ".npz":
        return f"{EDGES[0]}.npy" in _array_names(path)
    return kind == ".obo" or (kind in (".tsv", ".csv") and is_table(path))


_LEAF = re.compile(rb'\s*\{\s*"(users|num_samples|user_data|hierarchies)"')
"""The beginning of a file of LEAF."""

_NODE_LINK = re.compile(rb'\s*\{\s*"(directed|multigraph|graph|nodes|links)"')
"""The beginning of a file of nodes and links."""

OGB = "a folder of the Open Graph Benchmark"
SAVED = "a folder saved by Hugging Face's datasets"

FILE_ENDINGS = (*STORED, ".json", ".obo", *ENDINGS, ".obo.gz", ".csv.gz", ".tsv.gz")
"""What the names of data sets that are files end in."""

FORMATS = (
    Format("a table, OBO file or folder of links", "links", "links.readers:locate", is_links),
    Format("MedMNIST's .npz", "images", "images.array_files:locate_medmnist", _is_medmnist),
    Format("CIFAR's pickled batches", "images", "images.array_files:locate_cifar", _is_cifar),
    Format("LEAF's JSON", "images", "images.leaf:locate", _is_leaf, has_users=True),
    Format(OGB, "nodes", "graphs.data.ogb:locate", partial(_is_ogb, labels="node-label")),
    Format(OGB, "graphs", "graphs.data.ogb:locate", partial(_is_ogb, labels="graph-label")),
    Format(SAVED, "images", "in_memory:locate", partial(_is_saved, holds_points=False)),
    Format(SAVED, "points", "in_memory:locate", partial(_is_saved, holds_points=True)),
)

AS_IMAGES = (
    "give its images as a folder with a folder of images per class, or in Python as data=[(images,"
    " labels), …]"
)
AS_POINTS = (
    "give coordinates and classes as .npz, .csv, .tsv or .h5ad, or in Python as data=[(points,"
    " labels), …]"
)
AS_TABLES = f"its content is unknown; {AS_IMAGES}; or {AS_POINTS}"
READ_AS = (
    "graphs are .pt files and folders in the TU collection's layout, points .npz, .csv, .tsv or"
    f" .h5ad files of two coordinates and a class, and {LINKS}"
)
UNPACK = "unpack it, and give the folder"

_LEAF_SETS = ("femnist", "celeba")
_MEDMNIST_SETS = (
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
)
_FOLDERS = ("svhn", "stl10", "kmnist", "qmnist", "imagenet", "imagenette", "food101", "gtsrb")

BY_PATH = {
    **dict.fromkeys(_LEAF_SETS, "LEAF's data are read by path, a folder with train/*.json"),
    **dict.fromkeys(_MEDMNIST_SETS, "MedMNIST's data are read by path, such as ./pathmnist.npz"),
    **dict.fromkeys(_FOLDERS, AS_IMAGES),
}
"""How to give data sets that have no name here, by their usual name."""

PFLLIB = (
    "PFLlib's pickled arrays, not opened as a pickle could run code",
    "in Python give each client as data=[(x, y), …] with stored = numpy.load(PATH,"
    ' allow_pickle=True)["data"].item(), y = stored["y"] and x = stored["x"] as images of uint8',
)

_TABLES = {
    ".h5": "an HDF5 file",
    ".hdf5": "an HDF5 file",
    ".mat": "a MATLAB file",
    ".parquet": "a Parquet file",
    ".arrow": "an Arrow file",
    ".feather": "a Feather file",
    ".pkl": "a pickle, which is not opened, as it could run code",
    ".pickle": "a pickle, which is not opened, as it could run code",
    ".npy": "one NumPy array without classes",
    ".json": "a JSON file other than LEAF's",
    ".jsonl": "a file of JSON lines",
}
_POINTS = {".xlsx": "an Excel file", ".rds": "an R object", ".loom": "a loom file of cells"}
_IMAGES = {
    ".tfrecord": "a TFRecord file",
    ".dcm": "a DICOM image",
    ".nii": "a NIfTI volume",
    ".nii.gz": "a NIfTI volume",
}
_GRAPHS = {".gpickle": "a pickled graph, which is not opened, as it could run code"}
_NETWORKS = {
    ".graphml": ("a GraphML file", "read_graphml(PATH)"),
    ".gml": ("a GML file", "read_gml(PATH)"),
    ".gexf": ("a GEXF file", "read_gexf(PATH)"),
    ".net": ("a Pajek file", "read_pajek(PATH)"),
    ".edgelist": ("an edge list", "read_edgelist(PATH, create_using=networkx.DiGraph)"),
    ".json": (
        "a node-link JSON file",
        "node_link_graph(json.loads(pathlib.Path(PATH).read_text()))",
    ),
}
NETWORKS = {
    ending: (
        f"{kind} of networkx or Gephi",
        f"write its edges as a table of links: graph = networkx.{reader}, then"
        ' networkx.write_edgelist(graph, "links.tsv", delimiter="\\t", data=False)',
    )
    for ending, (kind, reader) in _NETWORKS.items()
}
"""Kinds of graphs by the end of their names, with the lines that make links of them."""

TRIPLES = (
    "a file of RDF",
    'write its triples as .tsv: triples = rdflib.Graph().parse(PATH), then csv.writer(open("links'
    '.tsv", "w"), delimiter="\\t").writerows((head, relation, tail) for head, relation, tail in'
    " triples)",
)

_ARCHIVES = {
    ".zip": "an archive",
    ".tar": "an archive",
    ".tgz": "an archive",
}

FOREIGN = {
    **NETWORKS,
    **dict.fromkeys((".nt", ".ttl", ".owl", ".rdf"), TRIPLES),
    **{ending: (kind, AS_TABLES) for ending, kind in _TABLES.items()},
    **{ending: (kind, AS_POINTS) for ending, kind in _POINTS.items()},
    **{ending: (kind, AS_IMAGES) for ending, kind in _IMAGES.items()},
    **{ending: (kind, "save it by torch.save as .pt") for ending, kind in _GRAPHS.items()},
    **{ending: (kind, UNPACK) for ending, kind in _ARCHIVES.items()},
    ".gz": ("a compressed file", "unpack it by gunzip, and give the file"),
}
"""Kinds of files by the end of their names, with alternatives."""

PEEK_FILES = 1000
"""The maximum number of files to check in a folder."""


def refuse_foreign(path: Path) -> None:
    """Refuse a file or folder of another tool; accept an absent path, or a possible data set.

    Raises
    ------
    DataError
        Names the kind and the alternative.
    """
    kind = None
    if path.is_dir():
        kind = _kind_of_folder(path)
    elif path.is_file():
        kind = _kind_of_file(path)
    if kind is not None:
        raise DataError(
            f"{path} is {kind[0]}, which is not supported; {kind[1]}", key="foreign-format"
        )


def is_tu_folder(path: Path) -> bool:
    """Whether a folder holds a file of the TU collection, as published or as stored by PyTorch
    Geometric."""
    return any(path.glob("*_A.txt")) or any(path.glob("raw/*_A.txt"))


def _kind_of_file(path: Path) -> tuple[str, str] | None:
    if path.suffix.lower() == ".npz":
        return _kind_of_arrays(path)
    if path.suffix.lower() == ".json" and _is_node_link(path):
        return NETWORKS[".json"]
    endings = ("".join(path.suffixes[-2:]).lower(), path.suffix.lower())
    return next((FOREIGN[ending] for ending in endings if ending in FOREIGN), None)


def _is_node_link(path: Path) -> bool:
    """Whether a JSON file begins as networkx and D3 write nodes and links."""
    try:
        with path.open("rb") as file:
            return bool(_NODE_LINK.match(file.read(100)))
    except OSError:
        return False


def _kind_of_arrays(path: Path) -> tuple[str, str] | None:
    from numpy.lib.format import read_array_header_1_0, read_magic

    try:
        with zipfile.ZipFile(path) as stored:
            names = stored.namelist()
            if names == ["data.npy"]:
                with stored.open("data.npy") as array:
                    read_magic(array)
                    return PFLLIB if read_array_header_1_0(array)[2].hasobject else None
            if "x_train.npy" in names:
                with stored.open("x_train.npy") as array:
                    read_magic(array)
                    shape = read_array_header_1_0(array)[0]
                if len(shape) > 2:
                    return "a file of images, as Keras's mnist.npz", AS_IMAGES
    # Reading a damaged file raises a better error later.
    except (OSError, ValueError, zipfile.BadZipFile):
        pass
    return None


def _kind_of_folder(path: Path) -> tuple[str, str] | None:
    """The kind of a folder without images, by files of certain names, or by the first file of a
    known kind."""
    if is_tu_folder(path):
        return None
    for pattern, kind in FOREIGN_FOLDERS.items():
        if any(path.glob(pattern)):
            return kind
    if (path / ".zgroup").is_file() or (path / "zarr.json").is_file():
        return "a zarr store", AS_POINTS
    for file in (*path.glob("0.npz"), *path.glob("train/0.npz")):
        if _kind_of_file(file) == PFLLIB:
            return f"a folder of {PFLLIB[0]}", PFLLIB[1]
    for file in islice(path.rglob("*"), PEEK_FILES):
        kind_of_file = _kind_of_file(file)
        if kind_of_file is not None:
            return f"a folder that holds {kind_of_file[0]}", kind_of_file[1]
    return None
