"""Figures of a round and of a run from the clients' scores."""

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from curvfed.strategies.wire.messages import Description

Scores = Mapping[int, Mapping[str, float]]
"""Each client's scores by partition: score and validation (by the data set's metric), accuracy, and *_before training."""


def mean_std(values: list[float]) -> tuple[float | None, float | None]:
    """Unweighted mean and standard deviation (ddof = 0); None without values."""
    return (float(np.mean(values)), float(np.std(values))) if values else (None, None)


def column(scores: Scores, name: str) -> list[float]:
    """One score of all clients that have it, in ascending order of the partitions."""
    return [measured[name] for _, measured in sorted(scores.items()) if name in measured]


def personal_figures(scores: Scores, descriptions: Mapping[int, Description]) -> dict[str, Any]:
    """The personal part of a summary (P-FL).

    Means are unweighted over the clients that have test data; "clients_left_out" counts the others. "pooled" is weighted by
    numbers of test examples, where all clients share them. The worst decile is the mean over the tenth of the clients,
    rounded up, with the lowest accuracy.
    """
    metric = next(iter(descriptions.values())).metric
    name = "score" if metric == "accuracy" else "accuracy"
    accuracy = {partition: measured[name] for partition, measured in sorted(scores.items()) if name in measured}
    mean, std = mean_std(list(accuracy.values()))
    before = column(scores, f"{name}_before")
    metrics: dict[str, Any] = {
        "personal_accuracy_before": mean_std(before)[0],
        "personal_accuracy_before_worst_decile": _worst_decile(before),
        "personal_accuracy_pooled": _pooled(accuracy, descriptions),
        "clients_left_out": len(descriptions) - len(accuracy),
        "validation": mean_std(column(scores, "validation"))[0],
    }
    if metric != "accuracy":
        metrics[metric], metrics[f"{metric}_std"] = mean_std(column(scores, "score"))
        metrics[f"{metric}_before"] = mean_std(column(scores, "score_before"))[0]
        metrics[f"{metric}_clients_left_out"] = len(descriptions) - len(column(scores, "score"))
    return {
        "personal_accuracy_mean": mean,
        "personal_accuracy_std": std,
        "personal_accuracy_worst_decile": _worst_decile(accuracy.values()),
        "metrics": metrics,
    }


def _worst_decile(values: Collection[float]) -> float | None:
    return mean_std(sorted(values)[: math.ceil(len(values) / 10)])[0]


def majority_accuracy(descriptions: Mapping[int, Description]) -> float | None:
    """Mean over the clients of the accuracy of always predicting the most frequent training class."""
    shares = [about.statistics.get("majority_accuracy") for _, about in sorted(descriptions.items())]
    return mean_std([value for value in shares if value is not None])[0]


def _pooled(accuracy: Mapping[int, float], descriptions: Mapping[int, Description]) -> float | None:
    sizes = [descriptions[partition].statistics.get("num_test") for partition in accuracy]
    known = [int(size) for size in sizes if size is not None]
    if len(known) < len(sizes) or not sum(known):
        return None
    return sum(value * size for value, size in zip(accuracy.values(), known, strict=True)) / sum(known)
