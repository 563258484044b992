"""The raw files of a data set by name or path: where they lie, and what reads them."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs import download, readers
from curvfed.tasks.graphs.raw import RawGraph, RawGraphs
from curvfed.tasks.graphs.sources import SOURCES, Source
from curvfed.tasks.graphs.user_file import read_user_file


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
        return Located(
            tuple(folder / name for name in source.files), partial(getattr(readers, source.read), source, folder)
        )
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
