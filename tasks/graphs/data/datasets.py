"""The raw files of a data set by name or path: where they lie, and what reads them."""

from functools import partial
from pathlib import Path

from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError, did_you_mean
from curvfed.tasks.graphs.data import readers
from curvfed.tasks.graphs.data.raw import RawGraph, RawGraphs
from curvfed.tasks.graphs.data.sources import SOURCES
from curvfed.tasks.graphs.data.user_file import read_user_file
from curvfed.tasks.public_data import Located, find_path


def locate(dataset: str, data_dir: Path) -> Located[RawGraph | RawGraphs]:
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
        folder = source.fetched(data_dir, source.folder)
        files = tuple(folder / name for name in source.files)
        return Located(files, partial(getattr(readers, source.read), source, folder))
    if (own := plugins.located(dataset, data_dir, RawGraph, RawGraphs)) is not None:
        return own
    if not dataset.lower().endswith(".pt"):
        raise DataError(
            f'unknown graph data set "{dataset}"{did_you_mean(dataset, (*SOURCES, "trees"))} Known: trees, '
            f"{', '.join(SOURCES)}, or the path of a .pt file"
        )
    path = find_path(dataset, data_dir)
    return Located((path,), partial(read_user_file, path))
