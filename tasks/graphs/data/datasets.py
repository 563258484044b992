"""The raw files of a data set of graphs, by its name or by a path: where they are, and what reads
them."""

from functools import partial
from pathlib import Path

from curvfed.tasks.formats import format_of
from curvfed.tasks.graphs.data import readers
from curvfed.tasks.graphs.data.raw import RawGraph, RawGraphs
from curvfed.tasks.graphs.data.sources import SOURCES
from curvfed.tasks.graphs.data.tu import NAMES, tu_files
from curvfed.tasks.graphs.data.tu_files import find_files, raw_files, read_tu
from curvfed.tasks.graphs.data.user_file import read_user_file
from curvfed.tasks.public_data import Located, find_path, locate_plugin_data


def locate(dataset: str, data_dir: Path) -> Located[RawGraph | RawGraphs]:
    """Find the raw files of a data set: a name, a `.pt` file, or a folder in the TU collection's
    layout.

    Absent files of a named data set are downloaded. A relative path is looked up in the working
    folder, then in `data_dir`.

    Raises
    ------
    DataError
        An unknown name, an absent file, or a failed download; names the folders searched and the
        command to download the files.
    """
    source = SOURCES.get(dataset.lower())
    if source is not None:
        folder = source.find_or_download(data_dir, source.folder)
        files = tuple(folder / name for name in source.files)
        return Located(files, partial(getattr(readers, source.read), source, folder))
    if dataset in NAMES:
        public = tu_files(dataset)
        folder = public.find_or_download(data_dir, public.folder)
        return Located(raw_files(folder, dataset), partial(read_tu, folder, dataset))
    plugin_data = locate_plugin_data(dataset, data_dir, RawGraph, RawGraphs)
    if plugin_data is not None:
        return plugin_data
    if dataset.lower().endswith(".pt"):
        return locate_own(find_path(dataset, data_dir))
    return locate_own(find_path(dataset, data_dir, Path.is_dir))


def locate_own(path: Path) -> Located[RawGraph | RawGraphs]:
    """Locate a user's `.pt` file, or folder in the TU collection's layout or another tool's.

    Raises
    ------
    DataError
        If the folder does not hold exactly one data set in that layout.
    """
    other = format_of(path)
    if other is not None:
        return other.locate(path)
    if not path.is_dir():
        return Located((path,), partial(read_user_file, path))
    folder, name = find_files(path)
    return Located(raw_files(folder, name), partial(read_tu, folder, name, is_own=True))
