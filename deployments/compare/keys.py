"""The keys of a comparison, which no run has, and the methods that it takes where none are
named.
"""

from curvfed.deployments.pairs import Value
from curvfed.strategies.base.figures import BEST, GLOBAL_ACCURACY, PERSONAL_ACCURACY

OWN: dict[str, Value] = {
    "methods": "auto",
    "budget": 12,
    "tuning-seeds": 2,
    "seeds": 5,
    "score": "personal",
}
"""The keys and their defaults."""

SCORES = {"personal": f"{BEST}.{PERSONAL_ACCURACY}", "global": GLOBAL_ACCURACY}
"""The figure that is compared, by the value of `score`."""

USUAL = {
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
