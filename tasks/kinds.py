"""The kinds of data, by name: those of the core, and those that extensions and other packages add
by entry points of the group `curvfed.tasks`."""

from collections.abc import Sequence
from typing import Any

from curvfed.tasks import plugins
from curvfed.tasks.kind import Kind, Words

GLOBAL_TRIVIAL = "global_majority_accuracy"
"""The name of the score of the most frequent class of the server's test data."""

GUESSES = {"roc_auc": 0.5}
"""By the data's metric, the score of a guess."""

_GRAPH_KEYS = ("dropout", "normalize")
"""Keys of every run that only graphs read."""

FEATURES = "features"
"""The network of images that are features already."""

IMAGE_NETWORKS = "image-networks"
"""The group of further bodies of networks for images; see `curvfed.tasks.images.nets.NETS`."""

UNKNOWN_HINT = "The label -1 means an unknown class: write 0 in its place if it is a class"
"""A hint where labels of graphs leave a single class."""

_GRAPHS: dict[str, Any] = {
    "local_epochs": 1,
    "batch_size": 128,
    "optimizer": "adamw",
    "learning_rate": 0.01,
    "schedule": "constant",
    "decay_every": 10,
    "embedding_dim": 128,
    "partition": "metis",
    "train_size": 0.2,
    "test_size": 0.4,
    "fine_tune_epochs": 0,
    "clip_norm": 0.0,
}
_IMAGES: dict[str, Any] = {
    "local_epochs": 5,
    "batch_size": 128,
    "optimizer": "sgd",
    "learning_rate": 0.02,
    "schedule": "constant",
    "decay_every": 40,
    "embedding_dim": 20,
    "partition": "dirichlet",
    "train_size": 0.75,
    "test_size": 0.25,
    "fine_tune_epochs": 2,
    "clip_norm": 0.0,
}
_POINTS: dict[str, Any] = _IMAGES | {
    "optimizer": "adam",
    "learning_rate": 0.3,
    "partition": "stratified",
    "test_size": 0.15,
    "fine_tune_epochs": 0,
}
NODES = Kind(
    parts={"dataset": "curvfed.tasks.graphs.dataset:DATASET"},
    built_in="trees",
    models=("gcn", "gated", "mean", "lorentz", "split"),
    default_models={"flat": "gcn", "lorentz": "lorentz", "split": "split"},
    partitions=("metis", "louvain", "random"),
    unread=("min-client-size",),
    defaults=_GRAPHS | {"batch_size": 0},
    words=Words(sizes=" of {num_features} features", labels_hint=UNKNOWN_HINT),
    batches_training_only=False,
)

GRAPHS = Kind(
    parts={"dataset": "curvfed.tasks.graphs.dataset:DATASET"},
    built_in="trees",
    models=("gin", "gcn", "lorentz", "lorentz-gcn"),
    default_models={"flat": "gin", "lorentz": "lorentz"},
    partitions=("metis", "louvain", "random"),
    unread=("min-client-size",),
    defaults=_GRAPHS,
    words=Words(labels_hint=UNKNOWN_HINT),
    has_spaces=True,
)

IMAGES = Kind(
    parts={"dataset": "curvfed.tasks.images.dataset:DATASET"},
    built_in="digits",
    models=(
        "cnn",
        "convnet",
        *plugins.additions(IMAGE_NETWORKS),
        FEATURES,
    ),
    default_models={1: "cnn", 3: "convnet"},
    partitions=("dirichlet", "iid", "shards", "users"),
    unread=_GRAPH_KEYS,
    defaults=_IMAGES,
    words=Words(sizes=" of {shape}"),
    has_shape=True,
    has_test_set=True,
    reads_test_data=True,
)

POINTS = Kind(
    parts={"dataset": "curvfed.tasks.points.dataset:DATASET"},
    built_in="uniform",
    partitions=("stratified", "iid", "dirichlet"),
    unread=(*_GRAPH_KEYS, "min-client-size", "embedding-dim"),
    defaults=_POINTS,
    num_features=2,
    min_classes=0,
    has_validation=False,
    reads_test_data=True,
    tables=("hull",),
)

CORE = {"nodes": NODES, "graphs": GRAPHS, "images": IMAGES, "points": POINTS}
"""The kinds of the core."""

plugins.leave_out("tasks", CORE)


ADDED: dict[str, Kind] = dict(plugins.usable("tasks", Kind))
"""The kinds that extensions and other packages add."""

KINDS = CORE | ADDED
"""All kinds by name."""

TRIVIAL_OF = {metric: name for kind in KINDS.values() for metric, name in kind.trivial.items()}
"""By the data's metric, the name of the score of an answer that no model is needed for, such as the
most frequent class."""

TRIVIAL = tuple(TRIVIAL_OF.values())

plugins.leave_out("models", ("auto", *(name for kind in KINDS.values() for name in kind.models)))


def added_by(ending: str) -> tuple[str, ...]:
    """The added kinds that an absent path may hold if its name ends so; "" for a folder."""
    return tuple(name for name, kind in ADDED.items() if ending in kind.files.endings)


def tasks_as(tasks: Sequence[str], allowed: Sequence[str]) -> Sequence[str]:
    """The tasks of data as a method that works on the allowed ones reads them: data that are made
    of others, such as links of a graph's edges, for a method of these alone. All tasks if it reads
    none.

    Examples
    --------
    >>> tasks_as(("nodes", "graphs"), ("graphs",)), tasks_as(("images",), ("points",))
    (('graphs',), ('images',))
    """
    common = tuple(task for task in tasks if task in allowed)
    if common:
        return common
    derived = tuple(name for name in allowed if set(KINDS[name].made_of) & set(tasks))
    return derived or tasks
