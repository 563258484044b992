"""Run directories of runs on images, of invented figures, as the server writes them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from curvfed.server_app.directory.npz import write_npz
from curvfed.server_app.directory.run_directory import RunDirectory
from curvfed.server_app.directory.summary import failed_summary
from curvfed.strategies.config.parse import parse


def make_image_run(
    root: Path,
    method: str = "hyperfed",
    *,
    clients: int = 20,
    rounds: int = 20,
    classes: Sequence[str] = tuple("0123456789"),
    dim: int = 20,
    space: str = "poincare",
    length: float = 8.0,
    images: int = 2000,
    settings: Mapping[str, Any] | None = None,
    weights: bool = True,
    fine_tuned: Sequence[int] = (),
    calibrated: bool = False,
    statistics: bool = True,
    global_test: bool = True,
    shown: int = 2000,
    notes: Mapping[int, str] | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Path:
    """A run directory.

    Parameters
    ----------
    length : float
        Norm of the features, more or less.
    fine_tuned : sequence of int
        The rounds after which the clients fine-tuned.
    notes : mapping of round to str
        Rounds in which aggregation fell back to the average, and why.
    changes : mapping
        Entries of the summary to set otherwise.
    """
    config = parse(
        {
            "run-name": "invented",
            "results-dir": str(root),
            "method": method,
            "dataset": "digits",
            **(settings or {}),
        }
    )
    directory, rng, count = RunDirectory.open(config), np.random.default_rng(0), len(classes)
    shares = rng.dirichlet(np.full(clients, 0.5), count).T
    counts = np.round(shares * 600).astype(int) + 1
    directory.write_clients(
        {
            "clients": [
                {
                    "partition": client,
                    "task": "images",
                    "space": "",
                    "metric": "accuracy",
                    "class_names": classes,
                    "partition_digest": "ab12",
                    "statistics": (
                        {
                            "class_counts": row.tolist(),
                            "num_train": int(row.sum()) * 3 // 4,
                            "num_val": 0,
                            "num_test": int(row.sum()) // 4,
                            "majority_accuracy": float(row.max() / row.sum()),
                        }
                        if statistics
                        else {}
                    ),
                }
                for client, row in enumerate(counts)
            ],
            "refused": {},
            "facts": {"class_names": classes, "own_ends": False},
        }
    )
    examples = counts.sum(axis=1) * 3 // 4
    data = examples / examples.sum()
    spread = rng.normal(0, 0.02, clients)

    def scores(level: float) -> np.ndarray:
        return np.clip(level + spread + rng.normal(0, 0.01, clients), 0, 1)

    for number in range(1, rounds + 1):
        level = 0.95 - 0.85 * np.exp(-number / 4)
        score, note = scores(level + 0.02), (notes or {}).get(number, "")
        pull = rng.uniform(-0.2, 0.2, clients) / clients
        weight = data if note else np.maximum(data + pull - pull.mean(), 0)
        row = {
            "round": number,
            "phase": "train",
            "seconds": 0.5,
            "personal_accuracy_mean": score.mean(),
            "personal_accuracy_std": score.std(),
            "global_accuracy": level + rng.normal(0, 0.02) if global_test else None,
        }
        if weights:
            row |= {
                "weights": " ".join(f"{k}:{w:.4f}" for k, w in enumerate(weight)),
                "aggregation_note": note,
            }
            row |= {
                "weights_l1": np.abs(weight - data).sum(),
                "norm_ratio": 1.0 if note else rng.uniform(0.85, 1),
            }
        told = [
            {
                "round": number,
                "phase": "train",
                "partition": client,
                "score": score[client],
                "score_before": score[client] / 2,
                "loss": 3 * (1 - level),
                "num_examples": int(examples[client]),
            }
            | ({"weight": weight[client]} if weights else {})
            for client in range(clients)
        ]
        directory.append(row, told)
        if number in fine_tuned:
            score = scores(level + 0.03)
            row = {
                "round": number,
                "phase": "fine-tune",
                "seconds": 0.7,
                "personal_accuracy_mean": score.mean(),
            }
            one = {"round": number, "phase": "fine-tune"}
            directory.append(
                row,
                [one | {"partition": client, "score": score[client]} for client in range(clients)],
            )
    if calibrated:
        one = {"round": rounds, "phase": "calibrate"}
        directory.append(
            one | {"seconds": 0.3, "global_accuracy": 0.9612},
            [one | {"partition": k} for k in range(clients)],
        )
    if global_test:
        _write_global_test(directory.path, rng, images, count, dim, space, length, shown)
    directory.write_summary(
        _summary(method, clients, rounds, global_test, calibrated) | (changes or {})
    )
    return directory.path


def _summary(
    method: str, clients: int, rounds: int, scored: bool, calibrated: bool
) -> dict[str, Any]:
    metrics = {
        "personal_accuracy_before": 0.9251,
        "personal_accuracy_pooled": 0.951,
        "clients_left_out": 0,
        "validation": None,
        "majority_accuracy": 0.4111,
    }
    if scored:
        metrics["global_accuracy_last3"] = 0.9377
    if calibrated:
        metrics |= {"global_accuracy_uncalibrated": 0.9431, "global_accuracy_calibrated": 0.9612}
    return failed_summary("", "", parse({"method": method})) | {
        "status": "completed",
        "num_clients": clients,
        "rounds": rounds,
        "personal_accuracy_mean": 0.9512,
        "global_accuracy": (0.9612 if calibrated else 0.9431) if scored else None,
        "personal_accuracy_std": 0.0213,
        "metrics": metrics,
        "bytes_up": 1500.0,
        "bytes_down": 2000.0,
        "seconds": 83.2,
    }


def _write_global_test(
    folder: Path,
    rng: np.random.Generator,
    images: int,
    count: int,
    dim: int,
    space: str,
    length: float,
    shown: int,
) -> None:
    labels = rng.integers(0, count, images)
    predicted = np.where(
        rng.random(images) < 0.06, (labels + rng.geometric(0.5, images)) % count, labels
    )
    directions = np.linalg.qr(rng.normal(size=(max(dim, count),) * 2))[0][:count, :dim]
    if dim == 2:
        angles = 2 * np.pi * np.arange(count) / count
        directions = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    features = directions[labels] + rng.normal(0, 0.9 / dim, (images, dim))
    features *= length * rng.lognormal(0, 0.3, (images, 1))
    prototypes = {"flat": 0.3, "sphere": 1.0, "poincare": 0.9}[space] * directions
    arrays = {
        "labels": labels,
        "predicted": predicted,
        "features": features[:shown].astype(np.float32),
        "prototypes": prototypes.astype(np.float32),
        "space": np.array(space),
    }
    write_npz(folder / "global_test.npz", arrays)
