"""The format of cells, and the reader of their points in the disc."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from curvfed.extensions.cells.cell_files import (
    add_to_copy,
    cell_file,
    entry,
    num_cells,
    row_names,
)
from curvfed.tasks.errors import DataError, unreadable
from curvfed.tasks.format import Format, ends_in
from curvfed.tasks.points import RawPoints, raw_points
from curvfed.tasks.public_data import Located

if TYPE_CHECKING:  # pandas takes a second to import
    from pandas import DataFrame

COLUMNS = ("curvfed_label", "curvfed_probability", "curvfed_unknown")
"""The new columns in `obs` of a file with predictions."""

H5AD = Format(
    "AnnData's .h5ad of cells",
    ("points",),
    partial(ends_in, endings=(".h5ad",)),
    "curvfed.extensions.cells.format:locate",
    endings=(".h5ad",),
    writer="curvfed.extensions.cells.format:write_predictions",
)


def locate(path: Path, **settings: Any) -> Located[RawPoints]:
    """The file and its reader."""
    return Located((path,), partial(read, path, **settings))


def read(path: Path, embedding_key: str, label_key: str, bare: bool) -> RawPoints:
    """Read the coordinates in obsm and the classes in obs.

    Parameters
    ----------
    path : Path
    embedding_key, label_key : str
        The names of the coordinates and of the classes.
    bare : bool
        Whether the file may lack classes.

    Raises
    ------
    DataError
        If the file cannot be read or lacks an entry, or an entry is unfit.
    """
    try:
        return _read(path, embedding_key, label_key, bare)
    except (DataError, ImportError):
        raise
    except Exception as error:  # HDF5 has its own errors
        raise unreadable(path, error, ".h5ad file of numbers and strings") from error


def _read(path: Path, embedding_key: str, label_key: str, bare: bool) -> RawPoints:
    # The expression matrix may be larger than the memory, so it is not read.
    with cell_file(path) as stored:
        if embedding_key not in stored.get("obsm", {}):
            raise _lacks(path, "obsm", embedding_key, stored.get("obsm", {}))
        has_classes = label_key in stored["obs"]
        if not bare and not has_classes:
            columns = stored["obs"].attrs.get("column-order", [])
            raise _lacks(path, "obs", label_key, columns)
        coordinates = entry(stored, f"obsm/{embedding_key}")
        classes = entry(stored, f"obs/{label_key}") if has_classes else None
        names = row_names(stored, "obs")
    fields = (f'obsm["{embedding_key}"]', f'obs["{label_key}"]')
    if list(map(str, getattr(coordinates, "index", names))) != names:
        raise DataError(
            f"{path}: {fields[0]} and obs have other names of cells; allowed are the same, in the"
            " same order",
            key="other-cells",
        )
    return raw_points(str(path), coordinates, classes, fields, names)


def _lacks(path: Path, group: str, key: str, present: Any) -> DataError:
    names = ", ".join(map(str, present)) or "none"
    option = "points.embedding-key" if group == "obsm" else "points.label-key"
    hint = (
        "; cells with gene expression get coordinates by curvfed embed" if group == "obsm" else ""
    )
    return DataError(
        f'{path} has no {group}["{key}"]; {option} names it, and there are {names}{hint}',
        names,
        key="no-column",
    )


def write_predictions(path: Path, table: "DataFrame", out: Path) -> None:
    """Write a copy of a file with three more columns in `obs`: the class, its probability, and
    whether the cell belongs to none of the classes.

    Raises
    ------
    DataError
        If the file has other cells than the prediction.
    """
    count = num_cells(path)
    if count != len(table):
        raise DataError(
            f"DATA has {count} cells, and {len(table)} were predicted, its test part alone; allowed"
            " for an .h5ad is a file that is predicted whole, and not the data set of the run",
            key="other-cells",
        )
    columns = zip(COLUMNS, ("class", "probability", "unknown"), strict=False)
    add_to_copy(
        path,
        out,
        {f"obs/{name}": table[column].to_numpy() for name, column in columns if column in table},
    )
