"""The 700 cells of pbmc68k_reduced, which scanpy brings, as a reference and three sites."""

import importlib.metadata
import warnings
from pathlib import Path

import anndata
import numpy as np

SITES = ("one", "two", "three")


def cells():
    """All cells; nothing of the package is imported."""
    files = importlib.metadata.files("scanpy") or []
    (path,) = [file.locate() for file in files if file.name == "10x_pbmc68k_reduced.h5ad"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the file is of an earlier version of AnnData
        return anndata.read_h5ad(path)


def write_parts(folder: Path):
    """Write atlas.h5ad (250 cells) and 150 cells for each of `SITES`; all cells are returned."""
    all_cells = cells()
    order = np.random.default_rng(0).permutation(700)
    parts = zip(("atlas", *SITES), np.split(order, [250, 400, 550]), strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, chosen in parts:
            all_cells[np.sort(chosen)].copy().write_h5ad(folder / f"{name}.h5ad")
    return all_cells
