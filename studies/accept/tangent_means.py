"""Whether the mean and the median of curved shared parameters change if they are taken in the
tangent space at the old model instead of in coordinates.

    python -m studies.accept.tangent_means

The curved shared parameters are the trained prototypes of `hyperfed-shared`, stored as tangent
vectors at the origin of the ball, and the points of FlatLand's readout, stored as space coordinates
and lifted onto the hyperboloid of each client; here onto that of curvature -1. Prints, per round,
how far both kinds of means and medians lie apart, over the length of the coordinates' change, and
the accuracy of runs with either median. Needs no data.
"""

import logging
import tempfile
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from curvfed.deployments.inprocess import simulate
from curvfed.extensions.robust.rules import Median, trimmed_mean
from curvfed.geometry import poincare
from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.aggregation import Replies
from studies.accept.false_updates import CLIENTS, METHODS, global_accuracy

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "hyperfed-shared": ("head.weight", METHODS["hyperfed"]),
    "flatland": ("head.weight", METHODS["flatland"]),
}
"""By method: its curved shared parameter, and the settings of its runs."""

SEEDS = (0, 1)


def _points(method: str, coordinates: Floats) -> Tensor:
    """Points of the ball."""
    tensor = torch.from_numpy(coordinates)
    if method == "flatland":  # space coordinates on the hyperboloid
        return tensor / (1 + (1 + tensor.square().sum(-1, keepdim=True)).sqrt())
    return poincare.exp0(tensor, -1.0)


def _coordinates(method: str, points: Tensor) -> Floats:
    """Inverse of `_points`."""
    if method == "flatland":
        coordinates: Floats = (2 * points / (1 - points.square().sum(-1, keepdim=True))).numpy()
    else:
        coordinates = poincare.log0(points, -1.0).numpy()
    return coordinates


def _at_old(method: str, old: Floats, rows: Floats, weights: Floats, trim: float) -> Floats:
    """The trimmed mean of coordinates (K, n, d) in the tangent space at the old ones (n, d)."""
    base = _points(method, old)
    tangents = poincare.log(base.expand(len(rows), *base.shape), _points(method, rows), -1.0)
    flat = trimmed_mean(tangents.numpy().reshape(len(rows), -1), weights, trim)
    moved = poincare.exp(base, torch.from_numpy(flat).reshape(base.shape), -1.0)
    return _coordinates(method, moved)


def _run(method: str, seed: int, in_tangents: bool) -> tuple[float, list[list[float]]]:
    """Accuracy in percent of a run with medians, and per round the distance between the two means
    and the two medians, over the change."""
    parameter, settings = RUNS[method]
    distances: list[list[float]] = []
    combine = Median.combine

    def compare(self: Median, updates: Replies, weights: Floats) -> None:
        old = self._arrays[parameter].astype(np.float64)
        rows = np.stack([update.arrays[parameter] for update in updates.values()])
        rows = rows.astype(np.float64)
        combine(self, updates, weights)
        distances.append([])
        for trim in (0.0, weights.sum() / 2 - 0.25):
            flat = trimmed_mean(rows.reshape(len(rows), -1), weights, trim).reshape(old.shape)
            curved = _at_old(method, old, rows, weights, trim)
            apart = np.linalg.norm(curved - flat) / np.linalg.norm(flat - old)
            distances[-1].append(float(apart))
        if in_tangents:
            self._arrays[parameter] = curved.astype(np.float32)

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(Median, "combine", compare):
        keys = {"method": method, "seed": seed, "aggregation": "median", "results-dir": folder}
        path = simulate(settings | keys | {"report": False}, CLIENTS)
        return global_accuracy(path), distances


def main() -> None:
    """Print one line per run."""
    logging.getLogger("curvfed").setLevel(logging.ERROR)
    for method in RUNS:
        for seed in SEEDS:
            for in_tangents in (False, True):
                accuracy, distances = _run(method, seed, in_tangents)
                mean, median = np.median(distances, axis=0)
                print(
                    f"{method}, seed {seed}, median in {'tangents' if in_tangents else 'coordinates'}:"
                    f" accuracy {accuracy:.1f}; apart: means {mean:.2%}, medians {median:.2%} of the"
                    f" change, at most {np.max(distances):.2%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
