"""The expression of the cells of an `.h5ad`, and such files read and written whole."""

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.tasks.errors import DataError, unreadable
from curvfed.tasks.stored_files import replacing

LARGEST = 30.0
"""A logarithm of normalised counts lies far below it."""


@dataclass(frozen=True, eq=False)
class Expression:
    """Log-normalised expression.

    Attributes
    ----------
    values : array or sparse matrix, (n, g)
    genes : list of str
        Their g names, each once.
    """

    values: Any
    genes: list[str]

    def dense(self, genes: list[str]) -> "np.ndarray[Any, np.dtype[np.float64]]":
        """The columns of these genes, all of which there must be, (n, len(genes))."""
        places = {gene: place for place, gene in enumerate(self.genes)}
        chosen = self.values[:, [places[gene] for gene in genes]]
        return np.asarray(chosen.toarray() if hasattr(chosen, "toarray") else chosen, dtype=np.float64, order="C")


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


def write_cells(cells: Any, path: Path) -> None:
    """Write an AnnData object, all or nothing."""
    with replacing(path) as new, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cells.write_h5ad(new, compression="gzip")


def expression(cells: Any, path: Path, layer: str = "") -> Expression:
    """The expression in `layers[layer]`; without a layer's name that in `.raw`, or in X if there is no `.raw`.

    Raises
    ------
    DataError
        No such layer, doubled names of genes, or values that are no logarithms of normalised counts.
    """
    if layer and layer not in cells.layers:
        raise DataError(f"{path} has no layer {layer}; there are {', '.join(cells.layers) or 'none'} (--layer)")
    where = f'layers["{layer}"]' if layer else "X" if cells.raw is None else "raw.X"
    source = cells if layer or cells.raw is None else cells.raw
    values, genes = cells.layers[layer] if layer else source.X, [str(gene) for gene in source.var_names]
    if values is None or not cells.n_obs or not genes:
        raise DataError(f"{path}: {where} holds no expression; allowed are cells × genes")
    if len(set(genes)) < len(genes):
        raise DataError(f"{path}: {len(genes) - len(set(genes))} genes have the name of another; allowed is each once")
    stored = values.data if hasattr(values, "toarray") else np.asarray(values)
    finite = bool(np.isfinite(stored).all())
    if not finite or stored.min(initial=0) < 0 or stored.max(initial=0) > LARGEST or not (stored % 1).any():
        found = f"from {stored.min(initial=0):.4g} to {stored.max(initial=0):.4g}" if finite else "not finite"
        raise DataError(
            f"{path}: the values in {where} are {found}{'' if (stored % 1).any() else ', whole numbers'}; allowed are "
            "logarithms of normalised counts (scanpy.pp.normalize_total with target_sum=1e4, then scanpy.pp.log1p), in "
            ".raw, in X, or where --layer says"
        )
    return Expression(values, genes)
