"""Folders of the Open Graph Benchmark (Hu et al., 2020): zipped tables of one graph or of many,
with a split."""

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data import Source
from curvfed.tasks.graphs.data import checked_parts as parts
from curvfed.tasks.graphs.data.graph_spec import ROLES, own_split
from curvfed.tasks.graphs.data.partition import clean_edges
from curvfed.tasks.graphs.data.raw import (
    ATOMS,
    MAX_DEGREE,
    RawGraph,
    RawGraphs,
    degree_codes,
    raw_graph,
    unused,
)
from curvfed.tasks.public_data import Located

USED = ("edge", "node-feat", "node-label", "graph-label", "num-node-list", "num-edge-list")
"""The tables of raw/ that are read."""

FILES = {"train": "train.csv.gz", "val": "valid.csv.gz", "test": "test.csv.gz"}
"""The files of a split, with the numbers of nodes or graphs."""


def locate(path: Path) -> Located[RawGraph | RawGraphs]:
    """The tables and their reader."""
    tables = [path / "raw" / f"{name}.csv.gz" for name in USED]
    files = [file for file in (*tables, *_splits(path).values()) if file.is_file()]
    return Located(tuple(files), partial(read, path))


def read(path: Path) -> RawGraph | RawGraphs:
    """Read a graph with classes of nodes, or graphs with a class each, with their own split.

    Raises
    ------
    DataError
        If a table is absent or damaged, tables do not fit together, or an example has several
        labels.
    """
    if (path / "raw" / "node-label.csv.gz").is_file():
        return _read_nodes(path / "raw", _splits(path))
    return _read_graphs(path)


def _read_nodes(folder: Path, splits: Mapping[str, Path], hint: str = "") -> RawGraph:
    """Read one graph with classified nodes.

    Parameters
    ----------
    folder : Path
        The folder with the tables of edges, features and labels.
    splits : mapping of str to Path
        The files with the numbers of the nodes of each role.
    hint : str
        The end of an error about a damaged file.
    """
    labels = _table(folder / "node-label.csv.gz", np.int64, hint)
    _check_single_label(folder / "node-label.csv.gz", labels)
    return raw_graph(
        folder,
        _table(folder / "node-feat.csv.gz", np.float32, hint),
        _table(folder / "edge.csv.gz", np.int64, hint).T,
        labels.squeeze(1),
        _masks(splits, len(labels), hint),
    )


def read_public(source: Source, folder: Path) -> RawGraph:
    """Read a published graph without the package of its authors."""
    splits = {role: folder / name for role, name in zip(ROLES, source.files[-3:], strict=True)}
    return _read_nodes(folder, splits, f"; remove it and download {source.title} again")


def _read_graphs(path: Path) -> RawGraphs:
    folder = path / "raw"
    sizes = _table(folder / "num-node-list.csv.gz", np.int64).flatten()
    num_edges = _table(folder / "num-edge-list.csv.gz", np.int64).flatten()
    labels = _table(folder / "graph-label.csv.gz", np.float64)
    _check_single_label(folder / "graph-label.csv.gz", labels)
    edges = _table(folder / "edge.csv.gz", np.int64)
    if not len(sizes) == len(num_edges) == len(labels) or int(num_edges.sum()) != len(edges):
        raise DataError(
            f"{folder}: {len(sizes)} numbers of nodes, {len(num_edges)} numbers of edges with the"
            f" sum {int(num_edges.sum())}, {len(labels)} labels and {len(edges)} edges do not fit"
            " together; each graph has one of each, and its edges",
            key="unequal-lengths",
        )
    edge_index = _joined_edges(folder / "edge.csv.gz", edges, sizes, num_edges)
    num_nodes = int(sizes.sum())
    numbers, class_names = parts.number_classes(
        folder, parts.labels(folder, labels.squeeze(1), len(labels)), None
    )
    split = own_split(folder, _masks(_splits(path), len(labels)), numbers)
    attributes, codes, num_codes = _features(folder / "node-feat.csv.gz", edge_index, num_nodes)
    unread = sorted(file.name for file in folder.glob("edge-*.csv.gz"))
    return RawGraphs(
        attributes=attributes,
        codes=codes,
        num_codes=num_codes,
        measured=True,
        edge_index=edge_index,
        graph_of_node=torch.arange(len(sizes)).repeat_interleave(sizes),
        labels=numbers,
        class_names=class_names,
        notes=unused(unread),
        split=split,
        # OGB scores its sets of two classes so.
        metric="roc_auc" if len(class_names) == 2 else "accuracy",
    )


def _table(path: Path, dtype: DTypeLike, hint: str = "") -> Tensor:
    """The numbers of a file, (rows, columns)."""
    import pandas

    try:
        with warnings.catch_warnings():
            # Pandas only warns of a row that is longer than the others.
            warnings.simplefilter("error")
            rows = pandas.read_csv(
                path, header=None, dtype=dtype, compression="gzip", float_precision="round_trip"
            ).to_numpy()
        # Pandas fills a row that is cut short.
        if dtype == np.float32 and np.isnan(rows).any():
            raise ValueError("there are rows without a number in every column")
    except Exception as error:  # a damaged archive may raise anything
        raise DataError(
            f"{path} cannot be read ({type(error).__name__}: {error}); allowed are rows of"
            f" {np.dtype(dtype).name}, zipped{hint}",
            str(error),
            key="unreadable",
        ) from error
    return torch.from_numpy(rows)


def _check_single_label(path: Path, labels: Tensor) -> None:
    if labels.shape[1] > 1:
        raise DataError(
            f"{path} has the shape {tuple(labels.shape)}, of several labels per example; allowed is"
            " one class each",
            key="labels",
        )


def _splits(path: Path) -> dict[str, Path]:
    """The files of the split by role; those of absent roles are left out.

    Raises
    ------
    DataError
        If there are several splits.
    """
    folders = [file.parent for file in sorted((path / "split").glob(f"*/{FILES['train']}"))]
    if len(folders) > 1:
        names = ", ".join(folder.name for folder in folders)
        raise DataError(
            f"{path / 'split'} has the splits {names}; allowed is one", names, key="several-parts"
        )
    files = {role: folder / name for folder in folders for role, name in FILES.items()}
    return {role: file for role, file in files.items() if file.is_file()}


def _masks(splits: Mapping[str, Path], count: int, hint: str = "") -> dict[str, Tensor]:
    """The masks (count,) of a split, by their names in a `.pt` file."""
    masks = {}
    for role, path in splits.items():
        numbers = _table(path, np.int64, hint)
        if not (int(numbers.min()) >= 0 and int(numbers.max()) < count):
            raise DataError(
                f"{path}: numbers must be in 0..{count - 1}; some are not", key="node-range"
            )
        masks[f"{role}_mask"] = torch.zeros(count, dtype=torch.bool)
        masks[f"{role}_mask"][numbers] = True
    return masks


def _joined_edges(path: Path, edges: Tensor, sizes: Tensor, num_edges: Tensor) -> Tensor:
    """The clean edges of all graphs side by side."""
    if int(sizes.min()) < 1 or int(num_edges.min()) < 0:
        raise DataError(f"{path}: each graph must have a node", key="num-nodes")
    sizes_of_edges = sizes.repeat_interleave(num_edges).unsqueeze(1)
    if edges.shape[1] != 2 or bool(((edges < 0) | (edges >= sizes_of_edges)).any()):
        raise DataError(
            f"{path} has {tuple(edges.shape)} numbers of nodes, some outside their graph; allowed"
            " are two columns, numbers from 0 in each graph",
            key="node-range",
        )
    starts = (sizes.cumsum(0) - sizes).repeat_interleave(num_edges).unsqueeze(1)
    return torch.from_numpy(clean_edges((edges + starts).T.numpy(), int(sizes.sum())))


def _features(path: Path, edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, int]:
    """Attributes, codes and number of codes of all nodes, as of `RawGraphs`.

    The features of atoms are one-hot, other numbers are attributes; without a table the one-hot
    degrees are the features.
    """
    attributes = torch.empty(num_nodes, 0)
    if not path.is_file():
        codes, num_codes = degree_codes(edge_index, num_nodes, MAX_DEGREE)
        return attributes, codes, num_codes
    table = parts.features(path, _table(path, np.float32))
    if len(table) != num_nodes:
        raise DataError(f"{path} has {len(table)} rows; {num_nodes} are needed", key="table-shape")
    if table.shape[1] == len(ATOMS):
        codes = table.to(torch.int64)
        if bool(((codes == table) & (codes >= 0) & (codes < torch.tensor(ATOMS))).all()):
            starts = torch.tensor((0, *ATOMS[:-1])).cumsum(0)
            return attributes, codes + starts, sum(ATOMS)
    return table, torch.empty(num_nodes, 0, dtype=torch.int64), 0
