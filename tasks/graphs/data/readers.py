"""Readers of the raw files of public data sets, one function for each layout."""

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.own_split import PARTS
from curvfed.tasks.graphs.data.raw import RawGraph, raw_graph
from curvfed.tasks.graphs.data.sources import PLANETOID_PARTS, Source


@contextlib.contextmanager
def _reading(source: Source, path: Path) -> Iterator[None]:
    """Any error of a reader is raised as a DataError: a damaged archive may raise anything."""
    try:
        yield
    except Exception as error:
        raise DataError(
            f"{path} cannot be read ({type(error).__name__}: {error}); remove it and fetch"
            f" {source.title} again",
            str(error),
            key="unreadable",
        ) from error


def read_planetoid(source: Source, folder: Path) -> RawGraph:
    """Read by PyTorch Geometric's own reader. The raw files are Python pickles: read them only from
    a source you trust."""
    # its import calls functions that newer versions of torch call deprecated
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch_geometric.io import planetoid

    def unreadable(part: str) -> bool:
        try:
            planetoid.read_file(str(folder), source.title, part)
        except Exception:
            return True
        return False

    # the reader changes the filters, and unpickling old SciPy and NumPy objects warns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            data = planetoid.read_planetoid_data(str(folder), source.title)
            # Where the list of test nodes is cut short, the reader raises no error and gives the
            # other nodes wrong rows.
            if len(planetoid.read_file(str(folder), source.title, "tx")) != int(
                data.test_mask.sum()
            ):
                raise ValueError("tx and test.index differ in length")
        except Exception as error:  # a damaged pickle may raise anything
            names = [
                name
                for name, part in zip(source.files, PLANETOID_PARTS, strict=True)
                if unreadable(part)
            ]
            fault = (
                f"{folder / names[0]} cannot be read"
                if names
                else f"the files in {folder} do not fit together"
            )
            raise DataError(
                f"{fault} ({type(error).__name__}); remove the folder and fetch {source.title}"
                " again"
            ) from error
    return raw_graph(folder, data.x, data.edge_index, data.y)


def read_heterophilous(source: Source, folder: Path) -> RawGraph:
    """Read an archive of Platonov et al. (2023): arrays (nodes, ...), edges in one direction, masks
    (splits, nodes)."""
    path = folder / source.files[0]
    with (
        _reading(source, path),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as stored,
    ):
        arrays = {name: torch.from_numpy(stored[name]) for name in stored.files}
        masks = {f"{part}_mask": arrays[f"{part}_masks"].T for part in PARTS}
        fields = arrays["node_features"], arrays["edges"].T, arrays["node_labels"]
    return raw_graph(path, *fields, masks, metric=source.metric)


def read_amazon(source: Source, folder: Path) -> RawGraph:
    """Read an archive of Shchur et al. (2018): labels, and the parts of two CSR matrices, of edges
    and of word counts.

    As in PyTorch Geometric a feature is 1 where the word occurs, and every stored entry is an edge,
    whatever its value.
    """
    path = folder / source.files[0]
    # Entry by entry: others, such as names, may be pickled, and are not needed.
    with (
        _reading(source, path),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as stored,
    ):
        edges = _csr(stored, "adj").tocoo()
        words = _csr(stored, "attr").toarray() > 0
        labels = torch.from_numpy(stored["labels"])
    return raw_graph(
        path, torch.from_numpy(words), torch.from_numpy(np.stack([edges.row, edges.col])), labels
    )


def _csr(stored: Mapping[str, np.ndarray], name: str) -> Any:
    from scipy.sparse import csr_array

    data, indices, indptr, shape = (
        stored[f"{name}_{part}"] for part in ("data", "indices", "indptr", "shape")
    )
    matrix = csr_array((data, indices, indptr), shape=tuple(shape))
    # SciPy would write outside of the dense array at an index out of range
    matrix.check_format(full_check=True)
    return matrix


def read_ogb(source: Source, folder: Path) -> RawGraph:
    """Read the zipped tables of the Open Graph Benchmark (Hu et al. 2020), without its package.

    A row of `edge` is an edge, a row of the other tables a node, a row of a split the number of a
    node.
    """

    def table(name: str, dtype: DTypeLike) -> Tensor:
        with _reading(source, folder / name), warnings.catch_warnings():
            # NumPy only warns of an empty table, or of a fraction among integers
            warnings.simplefilter("error")
            rows = np.loadtxt(folder / name, dtype=dtype, delimiter=",", ndmin=2)
        return torch.from_numpy(rows)

    edge, node_feat, node_label, *splits = source.files
    labels = table(node_label, np.int64).squeeze(1)

    def mask(name: str) -> Tensor:
        chosen = table(name, np.int64)
        if int(chosen.min()) < 0 or int(chosen.max()) >= len(labels):
            raise DataError(
                f"{folder / name}: nodes leave the graph; node numbers 0..{len(labels) - 1} are"
                " allowed"
            )
        members = torch.zeros(len(labels), dtype=torch.bool)
        members[chosen] = True
        return members

    masks = {f"{part}_mask": mask(name) for part, name in zip(PARTS, splits, strict=True)}
    return raw_graph(folder, table(node_feat, np.float32), table(edge, np.int64).T, labels, masks)
