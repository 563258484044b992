"""The data sets by name: where their raw files lie, how they are read, what is measured on them."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs import download, readers
from curvfed.tasks.graphs.raw import RawGraph, RawGraphs
from curvfed.tasks.graphs.user_file import read_user_file


@dataclass(frozen=True)
class Source:
    """A public data set: a row of `SOURCES`.

    Attributes
    ----------
    collection, name : str
        The class that fetches it and its `name` argument.
    root : str
        Where below the data folder that class is rooted.
    folder : str
        The data set's folder below `root`; the raw files lie in its `raw`.
    files : tuple of str
        The raw files, by their paths from `raw`.
    read : callable
        (source, raw folder) -> RawGraph
    metric : str
        "accuracy" or "roc_auc".
    own_splits : bool
        Whether the data set's own splits are used rather than a random one.
    package : str
        Where that class is imported from.
    """

    collection: str
    name: str
    root: str
    folder: str
    files: tuple[str, ...]
    read: "Callable[[Source, Path], RawGraph]"
    metric: str
    own_splits: bool
    package: str = download.PYG


@dataclass(frozen=True)
class Located:
    """Raw files that are there, and how to read them."""

    files: tuple[Path, ...]
    read: Callable[[], RawGraph | RawGraphs]


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
    if (own := plugins.located(dataset, data_dir, RawGraph, RawGraphs)) is not None:
        return Located(*own)
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
    return Located((path,), partial(read_user_file, path))


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
        download.fetch(source.collection, source.name, root, source.folder, source.package)
    except OSError as error:
        raise DataError(
            f"the raw files of {source.name} ({', '.join(source.files)}) are neither in {candidates[0]} nor in "
            f"{candidates[1]}{download.absent(data_dir.expanduser())}, and they cannot be downloaded: {error}. On a "
            "machine with a network run:\n"
            f"{download.command(source.collection, source.name, root, source.package)}\nand copy {root} here."
        ) from error
    return candidates[0]


def _planetoid(name: str) -> Source:
    files = tuple(f"ind.{name.lower()}.{part}" for part in readers.PLANETOID_PARTS)
    return Source("Planetoid", name, "planetoid", name, files, readers.read_planetoid, "accuracy", own_splits=False)


def _amazon(name: str) -> Source:
    files = (f"amazon_electronics_{name.lower()}.npz",)
    return Source("Amazon", name, "amazon", name, files, readers.read_amazon, "accuracy", own_splits=False)


def _heterophilous(name: str, metric: str) -> Source:
    folder = name.lower().replace("-", "_")
    return Source(
        "HeterophilousGraphDataset",
        name,
        "heterophilous",
        folder,
        (f"{folder}.npz",),
        readers.read_heterophilous,
        metric,
        own_splits=True,
    )


def _ogb(name: str, split: str) -> Source:
    tables = [f"{table}.csv.gz" for table in readers.OGB_TABLES]
    splits = [f"../split/{split}/{part}.csv.gz" for part in readers.OGB_SPLITS]
    return Source(
        # Not the class for PyTorch Geometric: it reads its own output by torch.load, which newer versions refuse.
        "NodePropPredDataset",
        name,
        "ogb",
        name.replace("-", "_"),
        (*tables, *splits),
        readers.read_ogb,
        metric="accuracy",
        own_splits=True,
        package="ogb.nodeproppred",
    )


SOURCES = {
    "cora": _planetoid("Cora"),
    "citeseer": _planetoid("CiteSeer"),
    "pubmed": _planetoid("PubMed"),
    "amazon-photo": _amazon("Photo"),
    "amazon-computers": _amazon("Computers"),
    "roman-empire": _heterophilous("Roman-empire", "accuracy"),
    "amazon-ratings": _heterophilous("Amazon-ratings", "accuracy"),
    "minesweeper": _heterophilous("Minesweeper", "roc_auc"),
    "tolokers": _heterophilous("Tolokers", "roc_auc"),
    "questions": _heterophilous("Questions", "roc_auc"),
    "ogbn-arxiv": _ogb("ogbn-arxiv", "time"),
}
