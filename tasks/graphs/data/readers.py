"""The raw files of public data sets, read: a function for every layout."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.raw import RawGraph, raw_graph
from curvfed.tasks.graphs.data.sources import PLANETOID_PARTS

if TYPE_CHECKING:
    from numpy.typing import DTypeLike
    from scipy.sparse import csr_array

    from curvfed.tasks.graphs.data.sources import Source


def read_planetoid(source: "Source", folder: Path) -> RawGraph:
    """Read by PyTorch Geometric's own reader. The raw files are Python pickles: read them from a source you trust."""
    with warnings.catch_warnings():  # it compiles functions by what newer versions of torch call deprecated
        warnings.simplefilter("ignore")
        from torch_geometric.io import planetoid

    def unreadable(part: str) -> bool:
        try:
            planetoid.read_file(str(folder), source.title, part)
        except Exception:
            return True
        return False

    with warnings.catch_warnings():  # the reader changes the filters; pickles of old SciPy and NumPy warn
        warnings.simplefilter("ignore")
        try:
            data = planetoid.read_planetoid_data(str(folder), source.title)
            # The reader takes a cut list of test nodes as it is, and gives the others wrong rows.
            if len(planetoid.read_file(str(folder), source.title, "tx")) != int(data.test_mask.sum()):
                raise ValueError("tx and test.index differ in length")
        except Exception as error:  # a damaged pickle may raise anything
            names = [name for name, part in zip(source.files, PLANETOID_PARTS, strict=True) if unreadable(part)]
            fault = f"{folder / names[0]} cannot be read" if names else f"the files in {folder} do not fit together"
            raise DataError(
                f"{fault} ({type(error).__name__}); remove the folder and fetch {source.title} again"
            ) from error
    return _graph(source, folder, data.x, data.edge_index, data.y, (data.train_mask, data.val_mask, data.test_mask))


def read_heterophilous(source: "Source", folder: Path) -> RawGraph:
    """Read an archive of Platonov et al. (2023): arrays (nodes, ...), edges in one direction, masks (splits, nodes)."""
    path = folder / source.files[0]
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = {name: torch.from_numpy(stored[name]) for name in stored.files}
        masks = arrays["train_masks"].T, arrays["val_masks"].T, arrays["test_masks"].T
        fields = arrays["node_features"], arrays["edges"].T, arrays["node_labels"]
    except Exception as error:  # a damaged archive may raise anything
        raise _damaged(source, path, error) from error
    return _graph(source, path, *fields, masks)


def read_amazon(source: "Source", folder: Path) -> RawGraph:
    """Read an archive of Shchur et al. (2018): labels, and the parts of two CSR matrices, of edges and of word counts.

    As in PyTorch Geometric a feature is 1 where the word occurs, and every stored entry is an edge, whatever its value.
    """
    path = folder / source.files[0]
    try:
        # Entry by entry: others, such as names, may be pickled, and are not wanted.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            edges, words = _csr(stored, "adj").tocoo(), _csr(stored, "attr").toarray() > 0
            labels = torch.from_numpy(stored["labels"])
    except Exception as error:  # a damaged archive may raise anything
        raise _damaged(source, path, error) from error
    edge_index = torch.from_numpy(np.stack([edges.row, edges.col]))
    return _graph(source, path, torch.from_numpy(words), edge_index, labels)


def read_ogb(source: "Source", folder: Path) -> RawGraph:
    """Read the zipped tables of the Open Graph Benchmark (Hu et al. 2020), without its package.

    A line of `edge` is an edge, of the other tables a node, of the splits a node's number.
    """

    def table(name: str, dtype: "DTypeLike") -> Tensor:
        path = folder / name
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # an empty table, or a whole number with a fraction, is but a warning
                return torch.from_numpy(np.loadtxt(path, dtype=dtype, delimiter=",", ndmin=2))
        except Exception as error:  # a damaged archive may raise anything
            raise _damaged(source, path, error) from error

    edge, node_feat, node_label, *splits = source.files
    labels = table(node_label, np.int64).squeeze(1)

    def mask(name: str) -> Tensor:
        chosen = table(name, np.int64)
        if int(chosen.min()) < 0 or int(chosen.max()) >= len(labels):
            raise DataError(f"{folder / name}: nodes leave the graph; node numbers 0..{len(labels) - 1} are allowed")
        members = torch.zeros(len(labels), dtype=torch.bool)
        members[chosen] = True
        return members

    train, val, test = map(mask, splits)
    return _graph(source, folder, table(node_feat, np.float32), table(edge, np.int64).T, labels, (train, val, test))


def _csr(stored: Mapping[str, np.ndarray], name: str) -> "csr_array":
    from scipy.sparse import csr_array

    data, indices, indptr, shape = (stored[f"{name}_{part}"] for part in ("data", "indices", "indptr", "shape"))
    matrix = csr_array((data, indices, indptr), shape=tuple(shape))
    matrix.check_format(full_check=True)  # SciPy would write outside of the dense array at an index out of range
    return matrix


def _graph(
    source: "Source",
    where: Path,
    x: Tensor,
    edges: Tensor,
    y: Tensor,
    masks: tuple[Tensor, Tensor, Tensor] | None = None,
) -> RawGraph:
    return raw_graph(where, x, edges, y, masks=masks if source.own_splits else None, metric=source.metric)


def _damaged(source: "Source", path: Path, error: Exception) -> DataError:
    return DataError(f"{path} cannot be read ({type(error).__name__}); remove it and fetch {source.title} again")
