"""Read the objects in a `.pt` file without running code from it.

torch's unpickler for weights makes tensors and containers. Objects of all other classes become
stand-ins that hold only their state. A graph is thus readable whatever else the file holds, without
PyTorch Geometric, which takes seconds to import.
"""

import re
import threading
import warnings
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.sparse import csr

STORE_AGAIN = (
    "where it is readable, store it again as a dict: data = torch.load(path, weights_only=False); "
    "torch.save(data.to_dict(), path)"
)

MAX_CLASSES = 100
"""Classes of the objects in a file; each new one restarts the reading."""

MAX_NAMED = 10
"""Classes that an error names."""

_LOCK = threading.Lock()
"""Reading changes torch's list of allowed classes, which all threads share."""

_NOT_ALLOWED = re.compile(r"GLOBAL ([^\s\0]+) was not an allowed global")
_CONTAINER = re.compile(
    r"Can only (append|extend|SETITEMS?)\b.* got <class '" + re.escape(__name__) + r"\.(\S+)'>"
)


class StandIn:
    """An object of a class that is not imported. The stand-in class has the original's name, and
    the entries of the object's state are attributes."""

    def __new__(cls, *arguments: object) -> Any:
        """Ignore the arguments of the original."""
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        if isinstance(state, dict):
            vars(self).update(state)


def _stand_in(name: str) -> type[StandIn]:
    return type(name, (StandIn,), {})


class _Dtype(StandIn):
    """A dtype of NumPy. NumPy's own class takes flags from its state, which a file could set to do
    harm."""

    order = "="

    def __init__(self, code: str, *flags: object) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        self.order = state[1]

    def array(self, data: bytes | str) -> np.ndarray:
        """Bytes, or the text that Python 3 makes of those of Python 2, as a flat array."""
        data = data.encode("latin1") if isinstance(data, str) else data
        return np.frombuffer(data, self.order + self.code)


class StoredArray(StandIn):
    """An array of NumPy; `value` is the array, or a list of objects."""

    value: Any

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, is_fortran, data = state
        if isinstance(data, list):
            self.value = data
        else:
            self.value = dtype.array(data).reshape(shape, order="F" if is_fortran else "C")


class _Wrapper(Tensor):
    """A tensor of PyTorch Geometric with further properties; `_data` is the plain tensor.

    Torch makes an object of such a class from a pickle only if the class defines
    `__torch_dispatch__`. The object itself lacks values, so every operation on it is refused.
    """

    @classmethod
    def __torch_dispatch__(cls, *arguments: Any, **keywords: Any) -> Any:
        """Refuse any operation; callers read `_data`.

        Raises
        ------
        TypeError
        """
        raise TypeError(f"{cls.__name__} has no values of its own; `_data` is the tensor")


class _BatchMaker:
    def __new__(cls, *arguments: object) -> Any:
        """Return the function that the pickle calls next."""
        return _empty_object


def _empty_object(kind: Any, *arguments: object) -> Any:
    return kind()


class _BufferArray(StoredArray):
    """An array by protocol 5 of pickle, of a buffer."""

    def __init__(self, data: bytes, dtype: _Dtype, shape: Sequence[int], order: Any) -> None:
        self.value = dtype.array(bytes(data)).reshape(shape, order=order)


def _scalar(dtype: _Dtype, data: bytes) -> Any:
    return dtype.array(data).item()


def _plain_dict(*arguments: object) -> dict[Any, Any]:
    return {}


_COMMON = (
    "torch_geometric.data.data.Data",
    "torch_geometric.data.data.DataEdgeAttr",
    "torch_geometric.data.data.DataTensorAttr",
    "torch_geometric.data.storage.GlobalStorage",
)
"""Classes of the objects in most files of graphs; any other class restarts the reading."""

READABLE: dict[str, Any] = {
    **{name: _stand_in(name) for name in _COMMON},
    "collections.defaultdict": _plain_dict,
    "numpy.ndarray": StoredArray,
    "numpy.dtype": _Dtype,
    "numpy.core.multiarray._reconstruct": _empty_object,
    "numpy._core.multiarray._reconstruct": _empty_object,
    "numpy.core.numeric._frombuffer": _BufferArray,
    "numpy._core.numeric._frombuffer": _BufferArray,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy._core.multiarray.scalar": _scalar,
    "torch_geometric.edge_index.EdgeIndex": _Wrapper,
    "torch_geometric.index.Index": _Wrapper,
    "torch_geometric.data.batch.DynamicInheritanceGetter": _BatchMaker,
}


def read_objects(path: Path, expected: str) -> object:
    """The object in a file.

    Parameters
    ----------
    path : Path
    expected : str
        The expected contents of the file, for the error texts.

    Raises
    ------
    DataError
        If the file is absent or unreadable.
    """
    # Reading a pipe would wait forever.
    if not path.is_file():
        raise DataError(f"no file {path}; expected {expected}", key="no-file")
    if not path.stat().st_size:
        raise DataError(
            f"{path} cannot be read: it is empty, 0 bytes; expected {expected}", key="unreadable"
        )
    stand_ins: dict[str, Any] = {}
    while True:
        try:
            with _LOCK:
                return _load(path, READABLE | stand_ins)
        # The file is a program for the unpickler, which may raise anything.
        except Exception as error:
            unknown = _unknown_class(str(error), stand_ins)
            if not unknown or len(stand_ins) == MAX_CLASSES:
                cause = str(error).rpartition("WeightsUnpickler error:")[2].strip()
                cause = cause.partition("\n")[0]
                if stand_ins:
                    classes = ", ".join(list(stand_ins)[:MAX_NAMED])
                    cause = f"{cause}; it has objects of {classes}"
                raise DataError(
                    f"{path} cannot be read ({type(error).__name__}: {cause}); expected {expected},"
                    f" stored by torch.save; {STORE_AGAIN}",
                    cause,
                    key="unreadable",
                ) from error
            stand_ins |= unknown


def _load(path: Path, classes: Mapping[str, Any]) -> object:
    """Read a file with only these classes, without those that PyTorch Geometric adds to torch's
    list."""
    safe_globals = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    torch.serialization.add_safe_globals([(kind, name) for name, kind in classes.items()])
    checked_sparse = torch.sparse.check_sparse_tensor_invariants()  # type: ignore[no-untyped-call]
    try:
        with checked_sparse, warnings.catch_warnings():
            # Sparse layouts are in beta, and some files have other protocols of pickle.
            warnings.simplefilter("ignore", UserWarning)
            return torch.load(path, map_location="cpu", weights_only=True)
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(safe_globals)
        # A failed attempt leaves its sparse tensors in this list, and torch would then refuse the
        # next file.
        state = getattr(torch.serialization, "_serialization_tls", None)
        getattr(state, "sparse_tensors_to_validate", []).clear()


def _unknown_class(message: str, stand_ins: Mapping[str, Any]) -> dict[str, Any]:
    """A stand-in, by name, for the class that the unpickler does not know or cannot fill; none for
    any other error."""
    if match := _CONTAINER.search(message):
        return {match[2]: OrderedDict if match[1].startswith("SET") else list}
    if match := _NOT_ALLOWED.search(message):
        name = match[1] if "." in match[1] else f"builtins.{match[1]}"
        return {} if name in stand_ins else {name: _stand_in(name)}
    return {}


def plain(value: object) -> object:
    """Arrays of numbers as tensors on the CPU, other arrays as lists, scalars as Python's; any
    other value unchanged."""
    if isinstance(value, StoredArray):
        value = value.value
    # Sparse matrices of SciPy have this method.
    if hasattr(value, "tocsr") and not isinstance(value, StandIn):
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
