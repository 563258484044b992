"""The expression of the cells of an `.h5ad`, and the cells of a client that lack coordinates in the
disc."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from curvfed.extensions.cells.cell_files import entry, opened, row_names
from curvfed.geometry.arrays import Floats
from curvfed.tasks.errors import DataError
from curvfed.tasks.points import ClientPoints, client_points

MAX_LOGARITHM = 30.0
"""Logarithms of normalised counts are far smaller."""

SAMPLE = 200
MAX_VARIATION = 0.005
"""The maximum number of cells to find the scale, and the variation of equal sums."""

PLACES = {"raw": "raw.X", "X": "X"}
"""The places besides the layers."""


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
        """The columns of these genes, all of them present, (n, len(genes))."""
        places = {gene: place for place, gene in enumerate(self.genes)}
        columns = _dense(self.values[:, [places[gene] for gene in genes]])
        return np.asarray(columns, dtype=np.float64, order="C")


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of an `.h5ad` with their expression, under the names that AnnData gives them.

    Attributes
    ----------
    X : array or sparse matrix, (n, g), or None
    layers : dict of str to such a matrix
    var_names : pandas.Index, (g,)
    n_obs : int
    raw : object with X and var_names, or None
    """

    X: Any
    layers: dict[str, Any]
    var_names: Any
    n_obs: int
    raw: Any


def read(path: Path) -> Cells:
    """The cells of a file.

    Raises
    ------
    DataError
        If the file is absent or not an `.h5ad`, or the expression cannot be read.
    """
    from pandas import Index

    with opened(path) as file:
        raw = None
        if "raw/X" in file:
            genes = Index(row_names(file, "raw/var"))
            raw = SimpleNamespace(X=entry(file, "raw/X"), var_names=genes)
        return Cells(
            X=entry(file, "X") if "X" in file else None,
            layers=entry(file, "layers") if "layers" in file else {},
            var_names=Index(row_names(file, "var")),
            n_obs=len(row_names(file, "obs")),
            raw=raw,
        )


def expression(cells: Any, path: Path, layer: str = "") -> Expression:
    """The expression in a layer, or in "raw" or "X".

    Without a layer's name it is the first of `.raw`, X and the only layer that has logarithms of
    normalised counts. The first of several genes with one name keeps it, and the others get a
    number, as in scanpy.

    Raises
    ------
    DataError
        An unknown layer, or values that are not logarithms of normalised counts.
    """
    from anndata.utils import make_index_unique

    places = {"X": cells.X, **cells.layers}
    if cells.raw is not None:
        places = {"raw": cells.raw.X} | places
    if layer and layer not in places:
        raise DataError(
            f"{path} has no layer {layer}; there are {', '.join(places)} (--layer)", key="no-layer"
        )
    faults: dict[str, str] = {}
    fitting: list[str] = []
    for name in [layer] if layer else places:
        if fitting and fitting[0] in ("raw", "X"):
            break
        faults[name] = _fault(places[name])
        fitting += [] if faults[name] else [name]
    if len(fitting) > 1:
        raise DataError(
            f"{path} has logarithms of normalised counts in {', '.join(fitting)}; choose one by"
            " --layer",
            key="several-layers",
        )
    if not fitting:
        values = ", ".join(
            f"in {PLACES.get(name, name)} are {fault}" for name, fault in faults.items()
        )
        raise DataError(
            f"{path}: the values {values}; allowed are logarithms of normalised counts"
            " (scanpy.pp.normalize_total with target_sum=1e4, then scanpy.pp.log1p), in .raw, in X,"
            " or in a layer",
            key="expression",
        )
    source = cells.raw if fitting == ["raw"] and "raw" not in cells.layers else cells
    place = PLACES.get(fitting[0], f'layers["{fitting[0]}"]')
    genes = source.var_names
    num_doubled = int(genes.duplicated().sum())
    if num_doubled:
        place += f"; {num_doubled} genes repeat a name and get a number"
        genes = make_index_unique(genes)
    return Expression(places[fitting[0]], [str(gene) for gene in genes], place)


def _fault(values: Any) -> str:
    """Why values are not logarithms of normalised counts; "" if they may be."""
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
    if low < 0 or high > MAX_LOGARITHM:
        return extent
    if high <= 1:
        return f"{extent}, which is too small for logarithms: perhaps fractions"
    sample = _dense(values[:: -(-values.shape[0] // SAMPLE)])
    return _other_scale(np.asarray(sample, dtype=np.float64))


def _dense(values: Any) -> Any:
    return values.toarray() if hasattr(values, "toarray") else values


def _other_scale(values: Floats) -> str:
    """The unusual scale of values (n, g) on which cells have equal sums or whole counts; "" for the
    usual scale."""
    natural = _variation(np.expm1(values))
    scales = {
        "natural logarithms": np.expm1(values),
        "logarithms of base 2": np.exp2(values) - 1,
        "logarithms of base 10": 10.0**values - 1,
    }
    for scale, back in scales.items():
        small = back[back < 100]
        if small.any() and np.abs(small - np.rint(small)).max() < 1e-3:
            return f"{scale} of counts that are not normalised, as they are whole numbers"
    for scale, back in (scales | {"normalised, but no logarithms": values}).items():
        if _variation(back) < min(MAX_VARIATION, natural / 10):
            return f"{scale}, as every cell then has the sum {back.sum(axis=1).mean():.4g}"
    return ""


def _variation(values: Floats) -> float:
    """Standard deviation over mean of the sums of nonempty cells."""
    sums = values.sum(axis=1)
    return float(sums[sums > 0].std() / sums.mean()) if sums.any() else np.inf


@dataclass(frozen=True, eq=False)
class ClientCells(ClientPoints):
    """Cells without classes, all for training, at the origin of the disc.

    Attributes
    ----------
    values : array (n, g)
        Log-normalised expression.
    """

    values: Floats

    def statistics(self) -> dict[str, Any]:
        """The number of cells: "num_train", "num_test"."""
        return {"num_train": len(self.values), "num_test": 0}


def client_cells(path: Path, genes: Sequence[str]) -> ClientCells:
    """The expression of these genes in an `.h5ad`.

    Raises
    ------
    DataError
        If the file lacks log-normalised expression, or a gene.
    """
    stored = expression(read(path), path)
    missing = sorted(set(genes) - set(stored.genes))
    if missing:
        raise DataError(
            f"{path} lacks {len(missing)} of the {len(genes)} genes of pca.genes:"
            f" {', '.join(missing[:10])}",
            key="no-gene",
        )
    values = stored.dense(list(genes))
    labels = np.zeros(len(values), dtype=np.int64)
    test = np.zeros(len(values), dtype=np.bool_)
    cells = client_points(np.zeros((len(values), 2)), labels, test, (), -1.0)
    fields = vars(cells) | {"digest": hashlib.sha256(values.data).hexdigest()}
    return ClientCells(**fields, values=values)
