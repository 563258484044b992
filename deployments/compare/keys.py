"""The keys of a comparison beside those of its runs, and its default methods."""

from curvfed.deployments.arguments import Value
from curvfed.strategies.base.figures import BEST, GLOBAL_ACCURACY, PERSONAL_ACCURACY

OWN_KEYS: dict[str, Value] = {
    "methods": "auto",
    "budget": 12,
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
