"""Readers of the public graphs."""

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from curvfed.extensions.public_data.rows import PLANETOID_ENDINGS
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data import Source
from curvfed.tasks.graphs.data.graph_spec import ROLES
from curvfed.tasks.graphs.data.raw import RawGraph, raw_graph


@contextlib.contextmanager
def _reading(source: Source, path: Path) -> Iterator[None]:
    """Turn any error of a reader into a DataError: a damaged archive may raise anything."""
    try:
        yield
    except Exception as error:
        raise DataError(
            f"{path} cannot be read ({type(error).__name__}: {error}); remove it and download"
            f" {source.title} again",
            str(error),
            key="unreadable",
        ) from error


def read_planetoid(source: Source, folder: Path) -> RawGraph:
    """Read by PyTorch Geometric's own reader. The raw files are Python pickles: read them only from
    a source you trust."""
    # The import calls functions that newer versions of torch deprecate.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch_geometric.io import planetoid

    def is_damaged(ending: str) -> bool:
        try:
            planetoid.read_file(str(folder), source.title, ending)
        except Exception:
            return True
        return False

    # The reader changes the filters, and unpickling old SciPy and NumPy objects warns.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            data = planetoid.read_planetoid_data(str(folder), source.title)
            # The reader accepts a list of test nodes that is cut short, and gives the other nodes
            # wrong rows.
            test_rows = planetoid.read_file(str(folder), source.title, "tx")
            if len(test_rows) != int(data.test_mask.sum()):
                raise ValueError("tx and test.index differ in length")
        except Exception as error:  # a damaged pickle may raise anything
            endings = dict(zip(source.files, PLANETOID_ENDINGS, strict=True))
            damaged = [name for name, ending in endings.items() if is_damaged(ending)]
            fault = f"the files in {folder} do not fit together"
            if damaged:
                fault = f"{folder / damaged[0]} cannot be read"
            raise DataError(
                f"{fault} ({type(error).__name__}); remove the folder and download {source.title}"
                " again",
                key="unreadable",
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
        masks = {f"{role}_mask": arrays[f"{role}_masks"].T for role in ROLES}
        fields = arrays["node_features"], arrays["edges"].T, arrays["node_labels"]
    return raw_graph(path, *fields, masks, metric=source.metric)


def read_amazon(source: Source, folder: Path) -> RawGraph:
    """Read an archive of Shchur et al. (2018): labels, and CSR matrices of edges and word counts.

    As in PyTorch Geometric a feature is 1 if the word occurs, and every stored entry is an edge,
    whatever its value.
    """
    path = folder / source.files[0]
    # Only the needed entries are read: others, such as names, may be pickled.
    with (
        _reading(source, path),
        path.open("rb") as stream,
        np.load(stream, allow_pickle=False) as stored,
    ):
        edges = _csr(stored, "adj").tocoo()
        words = _csr(stored, "attr").toarray() > 0
        labels = torch.from_numpy(stored["labels"])
    edge_index = np.stack([edges.row, edges.col])
    return raw_graph(path, torch.from_numpy(words), torch.from_numpy(edge_index), labels)


def _csr(stored: Mapping[str, np.ndarray], name: str) -> Any:
    from scipy.sparse import csr_array

    data, indices, indptr, shape = (
        stored[f"{name}_{array}"] for array in ("data", "indices", "indptr", "shape")
    )
    matrix = csr_array((data, indices, indptr), shape=tuple(shape))
    # With an index out of range SciPy would write outside of the dense array.
    matrix.check_format(full_check=True)
    return matrix
