"""What the noise of differentially private sums costs in accuracy.

    python -m studies.private_sums --data FOLDER > docs/measured/private-sums.md

writes the page; about ten minutes. The settings stood before the first run.
"""

import argparse
import contextlib
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import torch

import curvfed
from curvfed.geometry import poincare

SEEDS = (20, 21, 22, 23, 24)
EPSILONS = (None, 1.0, 3.0, 8.0)
"""None: without noise."""

CALIBRATION: dict[str, Any] = {
    "method": "spherefed",
    "dataset": "mnist",
    "num-supernodes": 10,
    "num-rounds": 0,
    "fine-tune-epochs": 0,
    "secure-sum": True,
}
"""The features are those of the random network that the run starts with."""

DISCRIMINANT: dict[str, Any] = {
    "method": "discriminant",
    "discriminant.kind": "lda",
    "num-supernodes": 10,
    "secure-sum": True,
}
HULL: dict[str, Any] = {"method": "hull", "num-supernodes": 10, "secure-sum": True}
COPIES = 10
JITTER = 0.1

ABOUT = """\
# Accuracy of differentially private sums

    python -m studies.private_sums --data FOLDER > docs/measured/private-sums.md

writes this page. Accuracy in percent on the server's test data, mean ± standard deviation over the
seeds 20 to 24, with delta = 1e-5 for a training example that is there or not, and ten clients. Of
each sum 7 clients are needed and one may collude, so that the noise of all ten is 10/6 of the
variance that privacy needs. `spherefed` calibrates the features of the random network with which a
run starts (`num-rounds = 0`), in 20 dimensions; three quarters of the images named train.
`discriminant` is LDA of points in the disc. `hull` is without noise the sum of exact hulls, and with
it the histogram of 256 cells for each class (`dp.cell = 0.5`). "Olsson × 10" is made: ten copies of each of its cells,
each moved by normal numbers of standard deviation .1 in the tangent space at the origin.
pbmc68k_reduced has its 700 cells at the two coordinates of its UMAP, shifted and scaled into a disc
of radius 3 around the origin.

| run | no noise | ε = 1 | ε = 3 | ε = 8 |
| --- | --- | --- | --- | --- |"""


def main() -> None:
    """Make the runs and print the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = {
            f"spherefed, {size:,} images in all": _images(data, size) for size in (800, 8000, 60000)
        }
        for label, points in (("Olsson × 10", _olsson(data)), ("pbmc68k_reduced", _pbmc())):
            path = folder / f"{label[0]}.npz"
            np.savez(path, data=points["data"], label=points["label"])
            for keys in (DISCRIMINANT, HULL):
                name_of_row = f"{keys['method']}, {label}, {len(points['label']):,} cells"
                rows[name_of_row] = keys | {"dataset": str(path)}
        print(ABOUT)
        for label, keys in rows.items():
            cells = [_accuracy(keys, epsilon, folder) for epsilon in EPSILONS]
            print(f"| {label} | {' | '.join(cells)} |", flush=True)


def _images(data: Path, size: int) -> dict[str, Any]:
    return CALIBRATION | {"data-dir": str(data), "images.train-subset": size}


def _accuracy(keys: dict[str, Any], epsilon: float | None, folder: Path) -> str:
    privacy = {} if epsilon is None else {"dp.unit": "record", "dp.epsilon": epsilon}
    values = []
    for seed in SEEDS:
        print(keys["dataset"], epsilon, seed, file=sys.stderr)
        whole = keys | privacy | {"seed": seed, "results-dir": str(folder), "quiet": True}
        with contextlib.redirect_stdout(sys.stderr):  # what clients warn of
            run = curvfed.simulate(**{key.replace("-", "_"): value for key, value in whole.items()})
        values.append(100 * run.summary["global_accuracy"])
    return f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"


def _olsson(data: Path) -> dict[str, np.ndarray]:
    """Cells by copies of those of Olsson."""
    with np.load(data / "poincare" / "olsson.npz", allow_pickle=False) as stored:
        points = np.concatenate([stored["x_train"], stored["x_test"]]).astype(float)
        labels = np.concatenate([stored["y_train"], stored["y_test"]])
    noise = np.random.default_rng(0).normal(scale=JITTER, size=(COPIES * len(points), 2))
    tangents = np.tile(poincare.log0(torch.from_numpy(points), -1.0).numpy(), (COPIES, 1))
    return {"data": _in_disc(tangents + noise), "label": np.tile(labels, COPIES)}


def _pbmc() -> dict[str, np.ndarray]:
    """The cells that scanpy's package brings."""
    import importlib.metadata

    files = importlib.metadata.files("scanpy") or []
    (path,) = [file.locate() for file in files if file.name == "10x_pbmc68k_reduced.h5ad"]
    cells = anndata.read_h5ad(str(path))
    flat = np.asarray(cells.obsm["X_umap"], float)
    flat -= flat.mean(axis=0)
    flat *= 3 / np.linalg.norm(flat, axis=1).max()
    return {"data": _in_disc(flat), "label": np.asarray(cells.obs["bulk_labels"], str)}


def _in_disc(tangents: np.ndarray) -> np.ndarray:
    exp0: Callable[..., torch.Tensor] = poincare.exp0
    return exp0(torch.from_numpy(tangents), -1.0).numpy()


if __name__ == "__main__":
    main()
