"""The keys of a comparison, which no run has, and the methods that it takes where none are
named.
"""

from curvfed.deployments.pairs import Value

OWN: dict[str, Value] = {
    "methods": "auto",
    "budget": 12,
    "tuning-seeds": 2,
    "seeds": 5,
    "score": "personal",
}
"""The keys and their defaults."""

SCORES = {"personal": "best_validation.personal_accuracy_mean", "global": "global_accuracy"}
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
