"""The text files of the TU collection (Morris et al., 2020): many graphs, each with a class."""

import re
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from curvfed.extensions.graph_sets.rows import REQUIRED
from curvfed.geometry.arrays import Array, Integers
from curvfed.tasks.amounts import amount
from curvfed.tasks.errors import DataError, naming, unreadable
from curvfed.tasks.graphs.data.checked_parts import MAX_CLASSES
from curvfed.tasks.graphs.data.partition import clean_edges
from curvfed.tasks.graphs.data.raw import MAX_DEGREE, RawGraphs, degree_codes, unused
from curvfed.tasks.public_data import Located, PublicData

OPTIONAL = ("node_labels", "node_attributes")
NOT_READ = ("edge_labels", "edge_attributes", "graph_attributes", "node_coordinates")
"""Further files of the collection, which no model here uses."""

MAX_CODES = 100_000
"""No set of the collection has more columns of one-hot node labels; a wider range is a mistake."""


def locate(path: Path) -> Located[RawGraphs]:
    """The files of a user's set, in `path` or `path/raw`, and their reader.

    Raises
    ------
    DataError
        If a file is absent.
    """
    folder, name = find_files(path)
    return Located(raw_files(folder, name), partial(read_tu, folder, name, is_own=True))


def find_set(source: PublicData, data_dir: Path) -> Located[RawGraphs] | None:
    """The files of a set of the TU collection, or None if they are absent."""
    folder = source.folder(data_dir)
    if folder is None:
        return None
    return Located(raw_files(folder, source.title), partial(read_tu, folder, source.title))


def raw_files(folder: Path, name: str) -> tuple[Path, ...]:
    """The files that `read_tu` reads: the required files, and the optional files that are present.

    Raises
    ------
    DataError
        If a required file is absent.
    """
    required = [f"{name}_{kind}.txt" for kind in REQUIRED]
    absent = [file for file in required if not (folder / file).is_file()]
    if absent:
        raise DataError(
            f"{folder} lacks {', '.join(absent)}; required are {', '.join(required)}",
            f"{name}_",
            key="no-file",
        )
    files = [folder / f"{name}_{kind}.txt" for kind in (*REQUIRED, *OPTIONAL)]
    return tuple(file for file in files if file.is_file())


def find_files(path: Path) -> tuple[Path, str]:
    """The folder with a NAME_A.txt, `path` or `path/raw`, and the name of the data set.

    Raises
    ------
    DataError
        If neither folder has such a file, or one has several.
    """
    for folder in (path, path / "raw"):
        names = sorted(file.name.removesuffix("_A.txt") for file in folder.glob("*_A.txt"))
        if len(names) > 1:
            several = ", ".join(names)
            raise DataError(
                f"{folder} holds the data sets {several}; it must hold the files of one",
                several,
                key="several-data-sets",
            )
        if names:
            return folder, names[0]
    required = ", ".join(f"NAME_{kind}.txt" for kind in REQUIRED)
    raise DataError(
        f"neither {path} nor {path / 'raw'} holds a data set in the layout of the TU collection:"
        f" {required}",
        key="no-file",
    )


def read_tu(folder: Path, name: str, is_own: bool = False) -> RawGraphs:
    """Read a data set, `name`_A.txt and the other files in `folder`, without edge labels and edge
    attributes.

    The features are the node attributes, then the one-hot node labels, with a column for each
    number from the smallest label to the largest. In a client's own data the columns begin at 0, so
    that equal columns of two clients mean equal labels. Without attributes and labels the
    features are the one-hot degrees (see `degree_codes`). Classes are the distinct graph labels,
    ascending; a class has its label as its name.

    Raises
    ------
    DataError
        If a file is absent or breaks the layout; names the file, the fault and the requirement.
    """
    paths = {kind: folder / f"{name}_{kind}.txt" for kind in (*REQUIRED, *OPTIONAL)}
    with naming(f"{name}_" if is_own else ""):
        graph_of_node = _graph_of_node(paths["graph_indicator"])
        num_nodes = len(graph_of_node)
        num_graphs = int(graph_of_node[-1]) + 1
        edge_index = torch.from_numpy(_edges(paths["A"], graph_of_node))
        labels, class_names = _classes(paths["graph_labels"], num_graphs)
        attributes = torch.empty(num_nodes, 0)
        codes = torch.empty(num_nodes, 0, dtype=torch.int64)
        num_codes = 0
        if paths["node_attributes"].is_file():
            attributes = _attributes(paths["node_attributes"], num_nodes)
        if paths["node_labels"].is_file():
            codes, num_codes = _label_codes(paths["node_labels"], num_nodes, from_zero=is_own)
    if not attributes.shape[1] + num_codes:
        codes, num_codes = degree_codes(edge_index, num_nodes, MAX_DEGREE if is_own else None)
    unread = [f"{name}_{kind}.txt" for kind in NOT_READ]
    present = [file for file in unread if (folder / file).is_file()]
    return RawGraphs(
        attributes=attributes,
        codes=codes,
        num_codes=num_codes,
        measured=True,
        edge_index=edge_index,
        graph_of_node=torch.from_numpy(graph_of_node),
        labels=labels,
        class_names=class_names,
        notes=unused(present),
    )


def _table(path: Path, dtype: type, rows: int | None = None, columns: int | None = None) -> Array:
    """The numbers of a file, (rows, columns)."""
    kind = "whole numbers" if np.issubdtype(dtype, np.integer) else "numbers"
    try:
        with warnings.catch_warnings():
            # Older versions of NumPy warn of a fraction among integers.
            warnings.simplefilter("error", DeprecationWarning)
            warnings.filterwarnings("ignore", "loadtxt: input contained no data", UserWarning)
            table: Array = np.loadtxt(
                path, dtype=dtype, delimiter=",", comments=None, ndmin=2, encoding="utf-8-sig"
            )
    except OSError as error:
        raise unreadable(path, error, "file of a TU collection") from error
    except (ValueError, OverflowError, DeprecationWarning) as error:
        # NumPy's text quotes a value of the data, so only the row is taken from it; one of its two
        # texts counts rows from 0.
        match = re.search(r"at row (\d+)(, column)?", str(error))
        where = f" at row {int(match[1]) + bool(match[2])}" if match else ""
        raise DataError(
            f"{path}: unreadable{where}; each row must hold the same number of {kind}, separated by"
            " commas",
            key="unreadable",
        ) from None
    if columns is not None and not table.size:
        table = table.reshape(0, columns)
    if columns not in (None, table.shape[1]):
        raise DataError(
            f"{path}: has {table.shape[1]} columns; {columns} of {kind} are needed",
            key="table-shape",
        )
    if rows not in (None, len(table)):
        raise DataError(f"{path}: has {len(table)} rows; {rows} are needed", key="table-shape")
    return table


def _graph_of_node(path: Path) -> Integers:
    graphs: Integers = _table(path, np.int64, columns=1)[:, 0]
    if not len(graphs):
        raise DataError(
            f"{path}: has no rows; it must have a row per node, at least one", key="table-shape"
        )
    steps = np.diff(graphs, prepend=0)
    wrong = np.flatnonzero((steps < 0) | (steps > 1))
    if graphs[0] != 1 or len(wrong):
        row = wrong[0] + 1 if graphs[0] == 1 else 1
        raise DataError(
            f"{path}: row {row} breaks the order; nodes must be sorted by graph, graphs counted"
            " from 1, and each graph must have a node",
            key="node-order",
        )
    return graphs - 1


def _edges(path: Path, graph_of_node: Integers) -> Integers:
    edges = _table(path, np.int64, columns=2).T - 1
    num_nodes = len(graph_of_node)
    outside = ((edges < 0) | (edges >= num_nodes)).any(axis=0)
    if outside.any():
        raise DataError(
            f"{path}: unknown nodes in {amount(int(outside.sum()), 'edge')}, the first in row"
            f" {outside.argmax() + 1}; node numbers 1..{num_nodes} are allowed",
            key="node-range",
        )
    source, target = graph_of_node[edges]
    crossing = source != target
    if crossing.any():
        raise DataError(
            f"{path}: nodes of different graphs in {amount(int(crossing.sum()), 'edge')}, the"
            f" first in row {crossing.argmax() + 1}; an edge must stay in its graph",
            key="crossing-edges",
        )
    return clean_edges(edges, num_nodes)


def _classes(path: Path, num_graphs: int) -> tuple[Tensor, tuple[str, ...]]:
    values, labels = np.unique(
        _table(path, np.int64, rows=num_graphs, columns=1)[:, 0], return_inverse=True
    )
    if len(values) > MAX_CLASSES:
        raise DataError(
            f"{path}: has {len(values)} different labels; up to {MAX_CLASSES} classes are allowed",
            key="too-many-classes",
        )
    return torch.from_numpy(labels), tuple(map(str, values.tolist()))


def _attributes(path: Path, num_nodes: int) -> Tensor:
    table = _table(path, np.float32, rows=num_nodes)
    num_bad = int((~np.isfinite(table)).any(axis=1).sum())
    if num_bad:
        raise DataError(
            f"{path}: has NaN or infinite values in {num_bad} of {num_nodes} rows; only finite"
            " float32 is allowed",
            key="not-finite",
        )
    return torch.from_numpy(table)


def _label_codes(path: Path, num_nodes: int, from_zero: bool) -> tuple[Tensor, int]:
    """The one-hot codes of all columns of labels, side by side."""
    table = _table(path, np.int64, rows=num_nodes)
    low = table.min(axis=0)
    if from_zero:
        low = np.minimum(low, 0)
    ranges = zip(low.tolist(), table.max(axis=0).tolist(), strict=True)
    widths = [last - first + 1 for first, last in ranges]
    if sum(widths) > MAX_CODES:
        raise DataError(
            f"{path}: the range of the labels is too wide; up to {MAX_CODES} numbers from smallest"
            " to largest are allowed",
            key="label-range",
        )
    return torch.from_numpy(table - low + (np.cumsum(widths) - widths)), sum(widths)
