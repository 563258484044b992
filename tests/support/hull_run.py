"""Run directories of one-shot runs, of invented points, as the server writes them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import ConvexHull

from curvfed.server_app.directory.npz import write_npz
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.directory.summary import failed_summary
from curvfed.strategies.config.parse import parse
from curvfed.strategies.hull.classifier import Classifier

EPSILONS = (0.01, 0.1, 1.0, 10.0)


def make_hull_run(
    root: Path,
    *,
    clients: int = 3,
    classes: Sequence[str] = ("ant", "bee", "cat"),
    curvature: float = -1.0,
    reach: float = 0.8,
    per_hull: int = 20,
    simulated: bool = True,
    tested: bool = True,
    model: bool = True,
    settings: Mapping[str, Any] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Path:
    """A run directory.

    Parameters
    ----------
    reach : float
        Where the classes lie, as a share of the disc's radius.
    changes : mapping
        Entries of `hulls.npz` to set otherwise; None leaves one out.
    """
    config = parse(
        {"run-name": "invented", "results-dir": str(root), "method": "hull", "dataset": "uniform"}
        | dict(settings or {})
    )
    directory, rng, count = RunDirectory.open(config), np.random.default_rng(0), len(classes)
    radius = 1 / np.sqrt(-curvature)
    turns = 2 * np.pi * np.arange(count) / count
    centres = reach * radius * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    spread = 0.5 * reach * radius / max(count, 2)

    def draw(label: int, number: int) -> np.ndarray:
        turn, far = 2 * np.pi * rng.random(number), spread * np.sqrt(rng.random(number))
        drawn: np.ndarray = centres[label] + far[:, None] * np.stack(
            [np.cos(turn), np.sin(turn)], axis=1
        )
        return drawn

    points, labels, corners = [], [], []
    rows: list[tuple[int, int, int]] = []
    for client in range(clients):
        for label in range(count):
            points.append(draw(label, per_hull))
            labels.append(np.full(per_hull, label))
            corners.append(extreme(points[-1], curvature))
            # groups are not numbered as the classes are
            rows.append((client, len(rows), (label + 1) % count))
    moved = [one * (1 + 0.02 * rng.uniform(-1, 0, (len(one), 1))) for one in corners]
    # In the order of their bins, which is not that around the hull.
    hulls = [rng.permutation(extreme(one, curvature)) for one in moved]
    sizes, quantised = [len(one) for one in hulls], np.concatenate(hulls)
    client, hull, group = np.repeat(rows, sizes, axis=0).T
    true = np.repeat(np.arange(len(rows)), [len(one) for one in corners])
    classifier = Classifier.train(quantised, group, curvature, 1.0, False, 0)
    arrays: dict[str, Any] = {
        "bins": np.arange(1, 1 + sum(sizes), dtype=np.uint64),
        "points": quantised,
        "client": client,
        "hull": hull,
        "group": group,
        "references": classifier.references,
        "normals": classifier.normals,
        "curvature": np.array(curvature),
        "epsilon": np.array(0.01),
        "radius": np.array(0.999 * radius),
        "names": np.array(np.roll(classes, 1) if tested else [""] * count),
    }
    if tested:
        test, truth = (
            np.concatenate([draw(label, 30) for label in range(count)]),
            np.repeat(np.arange(count), 30),
        )
        predicted = np.where(np.arange(len(test)) % 15, truth, (truth + 1) % count)
        arrays |= {
            "class_names": np.array(classes),
            "test_points": test,
            "test_labels": truth,
            "test_predicted": predicted,
        }
    if simulated:
        arrays |= {
            "class_names": np.array(classes),
            "sample_points": np.concatenate(points),
            "sample_labels": np.concatenate(labels),
            "true_points": np.concatenate(corners),
            "true_hull": true,
            "true_class": true % count,
        }
    arrays = {
        name: array for name, array in (arrays | dict(changes or {})).items() if array is not None
    }
    write_npz(directory.path / "hulls.npz", arrays)
    if model:
        directory.write_model(classifier.arrays(), {"method": "hull"})
    directory.write_clients(
        {
            "clients": [
                {
                    "partition": one,
                    "task": "points",
                    "space": "",
                    "metric": "accuracy",
                    "class_names": classes,
                    "partition_digest": "ab12",
                    "statistics": {"num_train": per_hull * count, "num_test": 0},
                }
                for one in range(clients)
            ],
            "refused": {},
            "facts": {"class_names": classes, "own_ends": False},
        }
    )
    directory.write_summary(_summary(clients, sizes, clients * count * per_hull))
    return directory.path


def extreme(points: np.ndarray, curvature: float) -> np.ndarray:
    """Corners of the hull in order, found where geodesics are straight."""
    klein = 2 * points / (1 - curvature * np.square(points).sum(axis=1, keepdims=True))
    corners: np.ndarray = points[ConvexHull(klein / np.abs(klein).max()).vertices]
    return corners


def _summary(clients: int, sizes: Sequence[int], points: int) -> dict[str, Any]:
    metrics = {
        "hull_points": points,
        "hull_points_shared": sum(sizes),
        "hull_share_revealed": sum(sizes) / points,
        "hull_points_moved": 0,
        "hull_vertices_thinned": 3,
        "hull_vertices_mean": float(np.mean(sizes)),
        "hull_vertices_max": max(sizes),
        "hull_count": len(sizes),
        "hull_bins": 4_215_309_872,
        "hull_prime": 4_215_309_883,
        "hull_symbols": 1156,
        "hull_epsilon": 0.01,
        "svm_c": 0.1,
        "dropouts": 2,
        "hulls_exact": True,
        "grouping_accuracy": 0.875,
        "seconds_measure": 0.4,
        "bytes_up_measure": 40.0,
        "bytes_down_measure": 64.0,
        "seconds_hulls": 1.25,
        "bytes_up_hulls": 9248.0,
        "bytes_down_hulls": 8.0,
        "majority_accuracy": 0.4,
    }
    return failed_summary("", "", parse({"method": "hull"})) | {
        "status": "completed",
        "num_clients": clients,
        "rounds": 0,
        "global_accuracy": 0.8604,
        "metrics": metrics,
        "personal_accuracy_mean": None,
        "personal_accuracy_std": None,
        "bytes_up": 9288.0,
        "bytes_down": 72.0,
        "seconds": 3.2,
    }
