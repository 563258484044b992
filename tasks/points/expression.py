"""The expression of the cells of an `.h5ad`, and such files read and written whole."""

import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.tasks.errors import DataError, unreadable
from curvfed.tasks.points.client_points import Floats
from curvfed.tasks.stored_files import replacing

LARGEST = 30.0
"""A logarithm of normalised counts lies far below it."""

SAMPLE = 200
SAME = 0.005
"""The most cells that are looked at for their scale, and the variation below which their sums are
the same."""

WORDS = {"raw": "raw.X", "X": "X"}
"""The places beside the layers."""


@dataclass(frozen=True, eq=False)
class Expression:
    """Log-normalised expression.

    Attributes
    ----------
    values : array or sparse matrix, (n, g)
    genes : list of str
        Their g names, each once.
    place : str
        Where in the file it is.
    """

    values: Any
    genes: list[str]
    place: str

    @property
    def num_empty(self) -> int:
        """The cells in which no gene is expressed."""
        return int((np.asarray(self.values.sum(axis=1)) == 0).sum())

    def dense(self, genes: list[str]) -> Floats:
        """The columns of these genes, all of which there must be, (n, len(genes))."""
        places = {gene: place for place, gene in enumerate(self.genes)}
        chosen = self.values[:, [places[gene] for gene in genes]]
        return np.asarray(
            chosen.toarray() if hasattr(chosen, "toarray") else chosen, dtype=np.float64, order="C"
        )


def read(path: Path) -> Any:
    """The AnnData object of a file.

    Raises
    ------
    DataError
        No file, or one that is no `.h5ad`.
    """
    import anndata

    if path.suffix.lower() != ".h5ad" or not path.is_file():
        raise DataError(f"no file {path}; allowed is an .h5ad file of cells with their expression")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # files of earlier versions are read as well
            return anndata.read_h5ad(path)
    except Exception as error:  # HDF5 and AnnData have errors of their own
        raise unreadable(path, error, ".h5ad file") from error


def num_cells(path: Path) -> int:
    """The number of cells in an `.h5ad`."""
    import anndata

    stored = anndata.read_h5ad(path, backed="r")
    try:
        return int(stored.n_obs)
    finally:
        stored.file.close()


def add_to_copy(source: Path, out: Path, added: Mapping[str, Any]) -> None:
    """Write a copy of an `.h5ad` with more in it, all or nothing.

    Everything else stays as it is in the file, also what AnnData reads and does not write.

    Parameters
    ----------
    source, out : Path
    added : mapping
        What is added or replaced, by its place, such as "obsm/X_poincare". A column of obs that
        holds text becomes a categorical one.
    """
    import h5py
    from anndata.io import write_elem
    from pandas import Categorical

    with replacing(out) as new:
        shutil.copyfile(source, new)
        with h5py.File(source, "r") as file:
            is_old = not isinstance(file["obs"], h5py.Group)
        if is_old:  # its tables are arrays of records
            read(source).write_h5ad(new)
        with h5py.File(new, "r+") as file:
            for place, value in added.items():
                part, _, name = place.partition("/")
                if part not in file:
                    write_elem(file, part, {})
                is_text = part == "obs" and value.dtype == object
                write_elem(file[part], name, Categorical(value) if is_text else value)
                if part == "obs":
                    order = [*map(str, file[part].attrs["column-order"]), name]
                    file[part].attrs["column-order"] = list(dict.fromkeys(order))


def expression(cells: Any, path: Path, layer: str = "") -> Expression:
    """The expression in a layer, or in "raw" or "X".

    Without a layer's name it is that in `.raw`, in X or in the only layer, whichever is the first
    to have logarithms of normalised counts. Of genes of one name the first keeps it, and the others
    get a number, as in scanpy.

    Raises
    ------
    DataError
        No such layer, or values that are no logarithms of normalised counts.
    """
    from anndata.utils import make_index_unique

    places = {"X": cells.X, **cells.layers}
    if cells.raw is not None:
        places = {"raw": cells.raw.X} | places
    if layer and layer not in places:
        raise DataError(f"{path} has no layer {layer}; there are {', '.join(places)} (--layer)")
    faults: dict[str, str] = {}
    fitting: list[str] = []
    for name in [layer] if layer else places:
        if fitting and fitting[0] in ("raw", "X"):
            break
        faults[name] = _fault(places[name])
        fitting += [] if faults[name] else [name]
    if len(fitting) > 1:
        raise DataError(
            f"{path} has logarithms of normalised counts in {', '.join(fitting)}; --layer names one"
            " of them"
        )
    if not fitting:
        told = ", ".join(
            f"those in {WORDS.get(name, name)} are {fault}" for name, fault in faults.items()
        )
        raise DataError(
            f"{path}: the values {told.removeprefix('those ')}; allowed are logarithms of"
            " normalised counts (scanpy.pp.normalize_total with target_sum=1e4, then"
            " scanpy.pp.log1p), in .raw, in X, or in a layer"
        )
    source = cells.raw if fitting == ["raw"] and "raw" not in cells.layers else cells
    place = WORDS.get(fitting[0], f'layers["{fitting[0]}"]')
    if doubled := int(source.var_names.duplicated().sum()):
        place += (
            f"; {doubled} genes have the name of another before them, to which a number is added"
        )
    genes = make_index_unique(source.var_names) if doubled else source.var_names
    return Expression(places[fitting[0]], [str(gene) for gene in genes], place)


def _fault(values: Any) -> str:
    """What values are that are no logarithms of normalised counts; "" if nothing says so."""
    if values is None or 0 in values.shape:
        return "absent"
    stored = values.data if hasattr(values, "toarray") else np.asarray(values)
    if not np.isfinite(stored).all():
        return "not finite"
    low = stored.min(initial=0)
    high = stored.max(initial=0)
    extent = f"from {low:.4g} to {high:.4g}"
    if not (stored % 1).any():
        return f"{extent}, whole numbers"
    if low < 0 or high > LARGEST:
        return extent
    if high <= 1:
        return f"{extent}, which is too small for logarithms: perhaps fractions"
    sample = values[:: -(-values.shape[0] // SAMPLE)]
    return _other_scale(
        np.asarray(sample.toarray() if hasattr(sample, "toarray") else sample, dtype=np.float64)
    )


def _other_scale(values: Floats) -> str:
    """The scale of values (n, g) on which cells have equal sums, or counts are whole, if that is
    not the usual one."""
    natural = _variation(np.expm1(values))
    scales = {
        "natural logarithms": np.expm1(values),
        "logarithms of base 2": np.exp2(values) - 1,
        "logarithms of base 10": 10.0**values - 1,
    }
    for scale, back in scales.items():
        small = back[back < 100]
        if small.any() and np.abs(small - np.rint(small)).max() < 1e-3:
            return (
                f"{scale} of counts that are not normalised: in each cell they are of whole numbers"
            )
    for scale, back in (scales | {"normalised, but no logarithms": values}).items():
        if _variation(back) < min(SAME, natural / 10):
            return f"{scale}: so every cell has the sum {back.sum(axis=1).mean():.4g}"
    return ""


def _variation(values: Floats) -> float:
    """Standard deviation over mean of the sums of cells that have any."""
    sums = values.sum(axis=1)
    return float(sums[sums > 0].std() / sums.mean()) if sums.any() else np.inf
