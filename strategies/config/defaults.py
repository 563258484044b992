"""The values that a run chooses for keys that are "auto"."""

from typing import Any

from curvfed.strategies.config.run_config import RunConfig

BUILT_IN = {"nodes": "trees", "graphs": "trees", "images": "digits", "points": "uniform"}
"""Data sets that need no files."""

_GRAPHS: dict[str, Any] = {
    "local_epochs": 1,
    "optimizer": "adam",
    "learning_rate": 0.01,
    "embedding_dim": 128,
    "partition": "metis",
    "train_size": 0.2,
    "test_size": 0.4,
    "fine_tune_epochs": 0,
    "clip_norm": 0.0,
}
_IMAGES: dict[str, Any] = {
    "local_epochs": 5,
    "optimizer": "sgd",
    "learning_rate": 0.02,
    "embedding_dim": 20,
    "partition": "dirichlet",
    "train_size": 0.75,
    "test_size": 0.25,
    "fine_tune_epochs": 2,
    "clip_norm": 0.0,
}
_POINTS: dict[str, Any] = _IMAGES | {
    "partition": "stratified",
    "test_size": 0.15,
    "fine_tune_epochs": 0,
}
_OF_TASK = {"nodes": _GRAPHS, "graphs": _GRAPHS, "images": _IMAGES, "points": _POINTS}
_OTHER_LOSS_RATE = 0.1  # squared errors and distances have smaller gradients than cross-entropy


def settled(config: RunConfig, task: str) -> RunConfig:
    """The configuration with a value for every key that the task or the method chooses.

    FlatLand's Appendix E.2 is what graphs get. Images get the five local epochs, d = 20 and the split of HyperFed's
    Section 5.1, SphereFed's SGD with momentum .9, and rates that suit networks without normalisation too.
    """
    method = config.row
    choices = _OF_TASK[task] | {
        "aggregation": method.aggregation,
        "fine_tune": method.fine_tune,
        "weights": "examples",
    }
    if task == "images" and config.loss != "cross-entropy":
        choices["learning_rate"] = _OTHER_LOSS_RATE
    choices |= method.settings.get(task, {})
    if task == "points":
        choices["train_size"] = 1 - (choices["test_size"] if config.test_size is None else config.test_size)
    return config.model_copy(update={name: value for name, value in choices.items() if getattr(config, name) is None})
