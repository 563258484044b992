"""The objects in a `.pt` file, read without running code from it.

torch's unpickler for weights makes tensors and containers. Objects of all other classes become
stand-ins that hold their state alone, so that a graph is read whatever lies beside it, and PyTorch
Geometric, whose import takes seconds, is not needed.
"""

import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.sparse import csr

STORE_AGAIN = (
    "where it can be read, store it again as a dict: data = torch.load(path, weights_only=False); "
    "torch.save(data.to_dict(), path)"
)

MOST_CLASSES = 100
"""Classes that a file may have objects of: for each the reading begins again."""

MOST_NAMED = 10
"""Classes that an error names."""

_LOCK = threading.Lock()
"""Reading changes torch's list of allowed classes, which the whole process has."""

_NOT_ALLOWED = re.compile(r"GLOBAL ([^\s\0]+) was not an allowed global")
_CONTAINER = re.compile(
    r"Can only (append|extend|SETITEMS?)\b.* got <class '" + re.escape(__name__) + r"\.(\S+)'>"
)


class StandIn:
    """An object whose class is not imported: the entries of its state are attributes; the class has
    the original's name."""

    def __new__(cls, *arguments: object) -> Any:
        """Ignore what the original would be made from."""
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        if isinstance(state, dict):
            vars(self).update(state)


def _stand_in(name: str) -> type[StandIn]:
    return type(name, (StandIn,), {})


class _Dtype(StandIn):
    """A dtype of NumPy: NumPy's own takes flags from its state, which a file could set to do
    harm.
    """

    order = "="

    def __init__(self, code: str, *others: object) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        self.order = state[1]

    def array(self, data: bytes) -> np.ndarray:
        """Bytes as a flat array."""
        return np.frombuffer(data, self.order + self.code)


class StoredArray(StandIn):
    """An array of NumPy: `value` is the array, or a list of objects."""

    value: Any

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, is_fortran, data = state
        if isinstance(data, list):
            self.value = data
        else:
            self.value = dtype.array(data).reshape(shape, order="F" if is_fortran else "C")


class _Wrapped(Tensor):
    """A tensor of PyTorch Geometric with further properties, as the attribute `_data`."""

    @classmethod
    def __torch_dispatch__(cls, *arguments: Any, **keywords: Any) -> Any:
        raise NotImplementedError


class _BatchMaker:
    def __new__(cls, *arguments: object) -> Any:
        """What it is called for."""
        return _first_kind


def _first_kind(kind: Any, *others: object) -> Any:
    return kind()


def _scalar(dtype: _Dtype, data: bytes) -> Any:
    return dtype.array(data).item()


def _plain_dict(*arguments: object) -> dict[Any, Any]:
    return {}


_USUAL = (
    "torch_geometric.data.data.Data",
    "torch_geometric.data.data.DataEdgeAttr",
    "torch_geometric.data.data.DataTensorAttr",
    "torch_geometric.data.storage.GlobalStorage",
)
"""Classes of which a file of graphs has objects; others are met in reading, which then begins
again."""

_READABLE: dict[str, Any] = {
    **{name: _stand_in(name) for name in _USUAL},
    "collections.defaultdict": _plain_dict,
    "numpy.ndarray": StoredArray,
    "numpy.dtype": _Dtype,
    "numpy.core.multiarray._reconstruct": _first_kind,
    "numpy._core.multiarray._reconstruct": _first_kind,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy._core.multiarray.scalar": _scalar,
    "torch_geometric.edge_index.EdgeIndex": _Wrapped,
    "torch_geometric.index.Index": _Wrapped,
    "torch_geometric.data.batch.DynamicInheritanceGetter": _BatchMaker,
}


def read_objects(path: Path, expected: str) -> object:
    """What a file holds.

    Parameters
    ----------
    path : Path
    expected : str
        What it should hold, for the error texts.

    Raises
    ------
    DataError
        If the file is absent or cannot be read.
    """
    if not path.is_file():  # a pipe would be waited for
        raise DataError(f"no file {path}; expected {expected}")
    if not path.stat().st_size:
        raise DataError(f"{path} cannot be read: it is empty, 0 bytes; expected {expected}")
    stand_ins: dict[str, Any] = {}
    while True:
        try:
            with _LOCK:
                return _load(path, _READABLE | stand_ins)
        # the file is a program for the unpickler, which may raise anything
        except Exception as error:
            unknown = _unknown_class(str(error), stand_ins)
            if not unknown or len(stand_ins) == MOST_CLASSES:
                words = (
                    str(error).rpartition("WeightsUnpickler error:")[2].strip().partition("\n")[0]
                )
                classes = ", ".join(list(stand_ins)[:MOST_NAMED])
                cause = f"{words}; it has objects of {classes}" if stand_ins else words
                raise DataError(
                    f"{path} cannot be read ({type(error).__name__}: {cause}); expected {expected},"
                    f" stored by torch.save; {STORE_AGAIN}",
                    cause,
                ) from error
            stand_ins |= unknown


def _load(path: Path, classes: Mapping[str, Any]) -> object:
    """Read a file with these classes and no others, such as those that PyTorch Geometric allows
    torch to read."""
    others = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    torch.serialization.add_safe_globals([(kind, name) for name, kind in classes.items()])
    whole_sparse = torch.sparse.check_sparse_tensor_invariants()  # type: ignore[no-untyped-call]
    try:
        with whole_sparse, warnings.catch_warnings():
            # sparse layouts in beta, other protocols of pickle
            warnings.simplefilter("ignore", UserWarning)
            return torch.load(path, map_location="cpu", weights_only=True)
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(others)
        # An attempt that fails leaves its sparse tensors there, and torch would refuse the next
        # file for them.
        state = getattr(torch.serialization, "_serialization_tls", None)
        getattr(state, "sparse_tensors_to_validate", []).clear()


def _unknown_class(words: str, stand_ins: Mapping[str, Any]) -> dict[str, Any]:
    """A stand-in for the class that the unpickler met and does not know, or cannot fill; none if it
    is another error."""
    if match := _CONTAINER.search(words):
        return {match[2]: OrderedDict if match[1].startswith("SET") else list}
    if match := _NOT_ALLOWED.search(words):
        name = match[1] if "." in match[1] else f"builtins.{match[1]}"
        return {} if name in stand_ins else {name: _stand_in(name)}
    return {}


def plain(value: object) -> object:
    """Arrays of numbers as tensors on the CPU, other arrays as lists, scalars as Python's; all else
    as it is."""
    if isinstance(value, StoredArray):
        value = value.value
    if hasattr(value, "tocsr") and not isinstance(value, StandIn):  # a sparse matrix of SciPy
        matrix = value.tocsr()
        crow, columns, entries = map(torch.from_numpy, (matrix.indptr, matrix.indices, matrix.data))
        return csr(crow, columns, entries, matrix.shape[1])
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "biuf":
            return value.tolist()
        wide = np.int64 if value.dtype.kind == "u" else value.dtype.newbyteorder("=")
        return torch.from_numpy(value.astype(wide, order="C"))
    if isinstance(value, Tensor):
        return getattr(value, "_data", value).detach().cpu()
    return value
