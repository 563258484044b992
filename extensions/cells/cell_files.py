"""An `.h5ad` of AnnData, read and written entry by entry: unused entries need not be readable, and
unchanged entries stay as they are."""

import contextlib
import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from curvfed.tasks.errors import DataError, unreadable
from curvfed.tasks.stored_files import replacing
from curvfed.tasks.tables import ending


@contextlib.contextmanager
def cell_file(path: Path) -> Iterator[Any]:
    """The open HDF5 file; one of AnnData before 0.7 in the layout of later versions.

    Raises
    ------
    OSError, KeyError
        If it is not an `.h5ad`.
    """
    import h5py

    with contextlib.suppress(ImportError):
        import_module("hdf5plugin")  # makes the compressions of zstd, Blosc and others known
    with h5py.File(path, "r") as file, TemporaryDirectory() as folder:
        # In old files tables are arrays of records.
        if isinstance(file["obs"], h5py.Group):
            yield file
            return
        new = Path(folder) / "new.h5ad"
        write_new(path, new)
        with h5py.File(new, "r") as converted:
            yield converted


def write_new(path: Path, new: Path) -> None:
    """Write a file of AnnData before 0.7 in the layout of later versions."""
    import anndata

    with _earlier_versions():
        anndata.read_h5ad(path).write_h5ad(new)


@contextlib.contextmanager
def _earlier_versions() -> Iterator[None]:
    """AnnData warns of files of earlier versions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def entry(file: Any, place: str) -> Any:
    """The value of an entry, such as "obsm/X_poincare".

    Raises
    ------
    DataError
        If AnnData cannot read it; names the entry.
    """
    from anndata.io import read_elem
    from pandas import Categorical

    group, _, name = place.partition("/")
    old = f"{group}/__categories/{name}"
    try:
        with _earlier_versions():
            value = read_elem(file[place])
            # Before 0.8, and in files of SeuratDisk, the names of categories stand apart.
            return Categorical.from_codes(value, read_elem(file[old])) if old in file else value
    except Exception as error:  # HDF5 and AnnData have their own errors
        raise DataError(
            f"{file.filename}: AnnData cannot read {place} ({type(error).__name__}: {error}). If it"
            " is compressed by zstd or Blosc: pip install hdf5plugin; otherwise write the file"
            " again by AnnData (anndata.read_h5ad, write_h5ad)",
            place,
            str(error),
            key="unreadable-entry",
        ) from error


def row_names(file: Any, group: str) -> list[str]:
    """The names of the cells, "obs", or of the genes, "var" or "raw/var"."""
    table = file[group]
    index = table.attrs.get("_index", "index" if "index" in table else "_index")
    return list(map(str, entry(file, f"{group}/{index}")))


READERS = {
    ".csv": "read_csv({name}, first_column_names=True)",
    ".tsv": r'read_csv({name}, "\t", first_column_names=True)',
    ".txt": "read_csv({name}, None, first_column_names=True)",
    ".mtx": "read_mtx({name})",
}
"""The functions of `anndata.io` that read other files, by the ends of their names without that of a
compression."""


def _recipe(path: Path) -> str:
    """How to write an `.h5ad` of another file, in words."""
    end = ending(path)
    if end not in READERS or path.is_dir():
        return "read the cells by anndata.io (read_csv, read_mtx), then cells.write_h5ad"
    call = READERS[end].format(name=json.dumps(str(path), ensure_ascii=False))
    out = json.dumps(f"{path.name.partition('.')[0]}.h5ad", ensure_ascii=False)
    names = ""
    turned = " (.T if its rows are genes)"
    if end == ".mtx":
        names = " cells.var_names = the names of the genes;"
    return f"cells = anndata.io.{call}{turned};{names} cells.write_h5ad({out})"


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The open file of cells, by `cell_file`.

    Raises
    ------
    DataError
        If it is absent or not an `.h5ad`.
    """
    if not path.exists():
        raise DataError(
            f"no file {path}; allowed is an .h5ad file of cells with their expression",
            key="no-file",
        )
    if path.suffix.lower() != ".h5ad" or not path.is_file():
        raise DataError(
            f"{path} is not an .h5ad file, and cells with their expression are read from .h5ad"
            f" alone. Make one in Python: {_recipe(path)}",
            key="file-format",
        )
    try:
        with cell_file(path) as file:
            yield file
    except (OSError, KeyError) as error:
        raise unreadable(path, error, ".h5ad file") from error


def num_cells(path: Path) -> int:
    """The number of cells in an `.h5ad`."""
    with opened(path) as file:
        return len(row_names(file, "obs"))


def add_to_copy(source: Path, out: Path, added: Mapping[str, Any]) -> None:
    """Write a copy of an `.h5ad` with added entries, atomically.

    All other entries stay unchanged, also those that AnnData reads and does not write.

    Parameters
    ----------
    source, out : Path
    added : mapping
        The new or replaced entries by their places, such as "obsm/X_poincare". A text column of obs
        becomes categorical.
    """
    import h5py
    from anndata.io import write_elem
    from pandas import Categorical

    with replacing(out) as new:
        shutil.copyfile(source, new)
        with h5py.File(source, "r") as file:
            is_old = not isinstance(file["obs"], h5py.Group)
        if is_old:
            write_new(source, new)
        with h5py.File(new, "r+") as file:
            for place, value in added.items():
                group, _, name = place.partition("/")
                if group not in file:
                    write_elem(file, group, {})
                is_text = group == "obs" and value.dtype == object
                write_elem(file[group], name, Categorical(value) if is_text else value)
                if group == "obs":
                    order = [*map(str, file[group].attrs["column-order"]), name]
                    file[group].attrs["column-order"] = list(dict.fromkeys(order))
