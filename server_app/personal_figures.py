"""Figures of a round and of a run from the clients' scores."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from curvfed.strategies.base.figures import BEFORE, PERSONAL_ACCURACY, VALIDATION
from curvfed.strategies.wire.messages import Description

Scores = Mapping[int, Mapping[str, float]]
"""Scores by partition: score and validation (the data set's metric), accuracy, and the same ending
in `_before` for the model as received."""


CohortMeans = Mapping[str, tuple[float, int]]
"""Scores after a secure sum: the mean over the clients with the score, and their number."""


class Figure(NamedTuple):
    """A score over the clients that have it; None where only a sum is known."""

    mean: float | None
    std: float | None
    worst_decile: float | None
    clients: int


def mean_std(values: list[float]) -> tuple[float | None, float | None]:
    """Unweighted mean and standard deviation (ddof = 0); None without values."""
    return (float(np.mean(values)), float(np.std(values))) if values else (None, None)


def column(scores: Scores, name: str) -> list[float]:
    """One score of the clients that have it, by ascending partition."""
    return [measured[name] for _, measured in sorted(scores.items()) if name in measured]


def personal_figures(
    scores: Scores, descriptions: Mapping[int, Description], cohort: CohortMeans | None = None
) -> dict[str, Any]:
    """The personal part of a summary (P-FL).

    Means are unweighted over the clients that have test data; "clients_left_out" counts the others.
    "pooled" is weighted by numbers of test examples, where all clients share them. The worst decile
    is the mean over the tenth of the clients, rounded up, with the lowest accuracy. Where `cohort`
    is given, it is all that is known.
    """
    metric = next(iter(descriptions.values())).metric
    name = "score" if metric == "accuracy" else "accuracy"
    accuracy, before, validation, score, score_before = (
        _figure(scores, one, cohort)
        for one in (name, name + BEFORE, VALIDATION, "score", "score" + BEFORE)
    )
    metrics: dict[str, Any] = {
        "personal_accuracy_before": before.mean,
        "personal_accuracy_before_worst_decile": before.worst_decile,
        "personal_accuracy_pooled": None if cohort else _pooled(scores, name, descriptions),
        "clients_left_out": len(descriptions) - accuracy.clients,
        VALIDATION: validation.mean,
    }
    if metric != "accuracy":
        metrics[metric] = score.mean
        metrics[f"{metric}_std"] = score.std
        metrics[f"{metric}_before"] = score_before.mean
        metrics[f"{metric}_clients_left_out"] = len(descriptions) - score.clients
    return {
        PERSONAL_ACCURACY: accuracy.mean,
        "personal_accuracy_std": accuracy.std,
        "personal_accuracy_worst_decile": accuracy.worst_decile,
        "metrics": metrics,
    }


def _figure(scores: Scores, name: str, cohort: CohortMeans | None) -> Figure:
    if cohort is not None:
        mean, count = cohort.get(name, (None, 0))
        return Figure(mean, None, None, count)
    values = column(scores, name)
    return Figure(
        *mean_std(values), mean_std(sorted(values)[: math.ceil(len(values) / 10)])[0], len(values)
    )


def majority_accuracy(descriptions: Mapping[int, Description]) -> float | None:
    """Mean over the clients of the accuracy of always predicting the most frequent training
    class.
    """
    shares = [
        description.statistics.get("majority_accuracy")
        for _, description in sorted(descriptions.items())
    ]
    return mean_std([value for value in shares if value is not None])[0]


def _pooled(scores: Scores, name: str, descriptions: Mapping[int, Description]) -> float | None:
    accuracy = {
        partition: measured[name]
        for partition, measured in sorted(scores.items())
        if name in measured
    }
    sizes = [descriptions[partition].statistics.get("num_test") for partition in accuracy]
    sizes_shared = [int(size) for size in sizes if size is not None]
    if len(sizes_shared) < len(sizes) or not sum(sizes_shared):
        return None
    return sum(
        value * size for value, size in zip(accuracy.values(), sizes_shared, strict=True)
    ) / sum(sizes_shared)
