"""Pages of runs on cells, for the tests with a browser."""

from pathlib import Path

import numpy as np

import curvfed
from curvfed.server_app.report.run_page import write_report

TYPES = ("CD14+ monocyte of a rather long name", "CD8+ cytotoxic T", "dendritic")
CENTRES = ((0.4, 0.0), (-0.3, 0.4), (-0.2, -0.5))


def of_cells(folder: Path) -> Path:
    """The page of hulls of three files of points with names of types."""
    rng = np.random.default_rng(0)
    sites = []
    for client in range(3):
        rows = ["x,y,label"]
        for name, centre in zip(TYPES, CENTRES, strict=True):
            rows += [f"{x:.4f},{y:.4f},{name}" for x, y in rng.normal(centre, 0.1, (30, 2))]
        sites.append(folder / f"site{client}.csv")
        sites[-1].write_text("\n".join(rows) + "\n")
    run = curvfed.simulate(
        "discriminant", data=sites, results_dir=str(folder / "runs"), report=False, quiet=True
    )
    return write_report(run.path)


PAGES = {"cells": of_cells}
