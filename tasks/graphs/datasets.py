"""The data sets by name: where their raw files lie, how they are read, what is measured on them."""

import difflib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from tasks.errors import DataError
from tasks.graphs import download
from tasks.graphs.raw import RawGraph, raw_graph
from tasks.graphs.user_file import read_user_graph

_PLANETOID_PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")


@dataclass(frozen=True)
class Source:
    """A public data set: a row of `SOURCES`.

    Attributes
    ----------
    collection, name : str
        The class in `torch_geometric.datasets` and its `name` argument.
    root : str
        Where below the data folder that class is rooted.
    folder : str
        The data set's folder below `root`; the raw files lie in its `raw`.
    files : tuple of str
        The raw files.
    read : callable
        (source, raw folder) -> RawGraph
    metric : str
        "accuracy" or "roc_auc".
    own_splits : bool
        Whether the data set's own splits are used rather than a random one.
    """

    collection: str
    name: str
    root: str
    folder: str
    files: tuple[str, ...]
    read: "Callable[[Source, Path], RawGraph]"
    metric: str
    own_splits: bool


@dataclass(frozen=True)
class Located:
    """Raw files that are there, and how to read them."""

    files: tuple[Path, ...]
    read: Callable[[], RawGraph]


def locate(dataset: str, data_dir: Path) -> Located:
    """Find the raw files of a named data set, in any case, or of a user's `.pt` path.

    Absent files of a named data set are downloaded. A relative path is looked up in the working folder, then in
    `data_dir`.

    Raises
    ------
    DataError
        An unknown name, an absent file, or files that are absent and cannot be fetched; names the folders looked in and
        the command to fetch them.
    """
    source = SOURCES.get(dataset.lower())
    if source is not None:
        folder = _raw_folder(source, data_dir)
        return Located(tuple(folder / name for name in source.files), partial(source.read, source, folder))
    if not dataset.lower().endswith(".pt"):
        near = difflib.get_close_matches(dataset.lower(), [*SOURCES, "trees"], n=1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise DataError(
            f'unknown graph data set "{dataset}"{hint} Known: trees, {", ".join(SOURCES)}, or the path of a .pt file'
        )
    given = Path(dataset).expanduser()
    path = next((path for path in (given, data_dir.expanduser() / given) if path.is_file()), None)
    if path is None:
        raise DataError(f"no file {given}, nor {data_dir / given}")
    return Located((path,), partial(read_user_graph, path))


def raw_folders(source: Source, data_dir: Path) -> list[Path]:
    """The folders that are looked in for the raw files of a data set; a download goes to the first."""
    base = data_dir.expanduser()
    return [parent / source.folder / "raw" for parent in (base / source.root, base)]


def complete(source: Source, data_dir: Path) -> Path | None:
    """The first of these folders that holds all raw files, or None."""
    folders = raw_folders(source, data_dir)
    return next((folder for folder in folders if all((folder / name).is_file() for name in source.files)), None)


def _raw_folder(source: Source, data_dir: Path) -> Path:
    if (found := complete(source, data_dir)) is not None:
        return found
    candidates, root = raw_folders(source, data_dir), data_dir.expanduser() / source.root
    try:
        download.fetch(source.collection, source.name, root, source.folder)
    except OSError as error:
        raise DataError(
            f"the raw files of {source.name} ({', '.join(source.files)}) are neither in {candidates[0]} nor in "
            f"{candidates[1]}, and they cannot be downloaded: {error}. On a machine with a network run:\n"
            f"{download.command(source.collection, source.name, root)}\nand copy {root} here."
        ) from error
    return candidates[0]


def _read_planetoid(source: Source, folder: Path) -> RawGraph:
    """Read by PyTorch Geometric's own reader. The raw files are Python pickles: read them from a source you trust."""
    from torch_geometric.io import planetoid

    def unreadable(part: str) -> bool:
        try:
            planetoid.read_file(str(folder), source.name, part)
        except Exception:
            return True
        return False

    with warnings.catch_warnings():  # the reader changes the filters; pickles of old SciPy and NumPy warn
        warnings.simplefilter("ignore")
        try:
            data = planetoid.read_planetoid_data(str(folder), source.name)
            # The reader takes a cut list of test nodes as it is, and gives the others wrong rows.
            if len(planetoid.read_file(str(folder), source.name, "tx")) != int(data.test_mask.sum()):
                raise ValueError("tx and test.index differ in length")
        except Exception as error:  # a damaged pickle may raise anything
            names = [name for name, part in zip(source.files, _PLANETOID_PARTS, strict=True) if unreadable(part)]
            fault = f"{folder / names[0]} cannot be read" if names else f"the files in {folder} do not fit together"
            raise DataError(
                f"{fault} ({type(error).__name__}); remove the folder and fetch {source.name} again"
            ) from error
    masks = (data.train_mask, data.val_mask, data.test_mask) if source.own_splits else None
    return raw_graph(folder, data.x, data.edge_index, data.y, masks=masks, metric=source.metric)


def _read_heterophilous(source: Source, folder: Path) -> RawGraph:
    path = folder / source.files[0]
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = {name: torch.from_numpy(stored[name]) for name in stored.files}
        masks = arrays["train_masks"].T, arrays["val_masks"].T, arrays["test_masks"].T
        fields = arrays["node_features"], arrays["edges"].T, arrays["node_labels"]
    except Exception as error:  # a damaged archive may raise anything
        raise DataError(
            f"{path} cannot be read ({type(error).__name__}); remove it and fetch {source.name} again"
        ) from error
    return raw_graph(path, *fields, masks=masks if source.own_splits else None, metric=source.metric)


def _planetoid(name: str) -> Source:
    files = tuple(f"ind.{name.lower()}.{part}" for part in _PLANETOID_PARTS)
    return Source("Planetoid", name, "planetoid", name, files, _read_planetoid, metric="accuracy", own_splits=False)


def _heterophilous(name: str, metric: str) -> Source:
    folder = name.lower().replace("-", "_")
    files = (f"{folder}.npz",)
    return Source(
        "HeterophilousGraphDataset", name, "heterophilous", folder, files, _read_heterophilous, metric, own_splits=True
    )


SOURCES = {
    "cora": _planetoid("Cora"),
    "citeseer": _planetoid("CiteSeer"),
    "pubmed": _planetoid("PubMed"),
    "minesweeper": _heterophilous("Minesweeper", metric="roc_auc"),
}
