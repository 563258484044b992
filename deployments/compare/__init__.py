"""The best method for a data set: all are tuned by validation with equal budgets, then compared on
fresh seeds. Here are the keys of a comparison beside those of its runs, its default methods, and
what it tunes."""

from curvfed.deployments.arguments import Value
from curvfed.strategies.base.figures import BEST, GLOBAL_ACCURACY, PERSONAL_ACCURACY

OWN_KEYS: dict[str, Value] = {
    "methods": "auto",
    "budget": 8,
    "tuning-seeds": 2,
    "seeds": 5,
    "score": "personal",
}
"""The keys, and their defaults."""

SCORES = {"personal": f"{BEST}.{PERSONAL_ACCURACY}", "global": GLOBAL_ACCURACY}
"""The compared figure, by the value of `score`."""

METHODS_BY_TASK = {
    "nodes": ("local", "fedavg", "fedper", "fedavg-bias", "fed-pub", "flatland"),
    "graphs": ("local", "fedavg", "fedper", "gcfl", "fed-pub", "flatland"),
    "images": (
        "local",
        "fedavg",
        "fedprox",
        "scaffold",
        "ditto",
        "fedrep",
        "spherefed",
        "hyperfed",
    ),
}
"""The methods of `methods=auto`, by task."""

MODELS = {"nodes": ("auto", "gated")}
"""By task, the networks that `compare` tries for methods of flat networks; auto is the default."""

DECAYS = {"adamw": (0.01, 0.1), "adam": (0.0, 5e-4), "sgd": (0.0, 5e-4)}
"""Weight decays beside the default. Those of adamw, which are not part of the gradient, must be
larger to matter."""

ALTERNATIVES = "|"
"""Separates several values of a key, which are tuned for every method that allows them."""
