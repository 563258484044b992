"""Two questions about a curved method on a data set: is it the curvature, and should one use it?
All methods are tuned by validation alike, then compared on fresh seeds. Here are the keys of a
comparison beside those of its runs, its default methods and their rivals, and what it tunes."""

from collections.abc import Mapping
from typing import Any

from curvfed.deployments.arguments import Value
from curvfed.strategies.base.figures import BEST, GLOBAL_ACCURACY, PERSONAL_ACCURACY, VALIDATION
from curvfed.tasks.kinds import ADDED

OWN_KEYS: dict[str, Value] = {
    "methods": "auto",
    "against": "auto",
    "budget": 12,
    "tuning-seeds": 2,
    "seeds": 5,
    "score": "auto",
}
"""The keys, and their defaults."""

CHOSEN_BY = {"personal": f"{BEST}.metrics.{VALIDATION}", "global": f"{BEST}.metrics.{VALIDATION}"}
"""The figure that chooses configurations; without one, the compared figure, on the tuning seeds."""

TRIVIAL: dict[str, float | str] = {
    f"{BEST}.metrics.roc_auc": 0.5,
    f"{BEST}.metrics.mrr": "metrics.frequent_mrr",
    f"{BEST}.{PERSONAL_ACCURACY}": "metrics.majority_accuracy",
    GLOBAL_ACCURACY: "metrics.global_majority_accuracy",
    "metrics.global_mrr": "metrics.global_frequent_mrr",
    "metrics.reconstruction_map": "metrics.frequent_map",
}
"""By compared figure, that of the answer for which no model is needed."""

METHODS_BY_TASK: dict[str, tuple[str, ...]] = {
    "nodes": (
        "local",
        "fedavg",
        "fedavg-mean",
        "fedper",
        "fedavg-bias",
        "fed-pub",
        "flatland-euclidean",
        "flatland",
    ),
    "graphs": ("local", "fedavg", "fedper", "gcfl", "fed-pub", "flatland"),
    "images": (
        "local",
        "fedavg",
        "fedavg-calibrated",
        "fedprox",
        "scaffold",
        "ditto",
        "fedrep",
        "spherefed",
        "hyperfed",
    ),
    "points": ("fedavg", "discriminant", "hull-flat", "hull"),
    **{name: kind.comparison.methods for name, kind in ADDED.items()},
}
"""The methods of `methods=auto`, by task."""

RIVALS: dict[str, dict[str, Mapping[str, Any]]] = {
    "nodes": {"fedavg-mean": {"method": "fedavg", "model": "mean"}},
    "images": {"fedavg-calibrated": {"method": "fedavg", "calibration": "ffc"}},
    "points": {"hull-flat": {"method": "hull", "hull.classifier": "multinomial"}},
    **{name: dict(kind.comparison.rivals) for name, kind in ADDED.items()},
}
"""By task, names that `methods` can hold beside those of methods: a method with some of its keys,
which somebody would use in place of a curved method."""

MODELS = {"nodes": ("auto", "gated")}
"""By task, the networks that `compare` tries for methods of flat networks; auto is the default."""

DECAYS = {"adamw": (0.01, 10.0), "adam": (5e-5, 0.05), "sgd": (5e-5, 0.05)}
"""Smallest and largest weight decay that is tried beside the default. Those of adamw, which are not
part of the gradient, must be larger to matter."""

ALTERNATIVES = "|"
"""Separates several values of a key, which are tuned for every method that allows them."""
