"""The kinds of data: what an example is, and what a run does with such data by default."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TRIVIAL_OF = {"accuracy": "majority_accuracy", "mrr": "frequent_mrr"}
"""By the data's metric, the name of the score of an answer that no model is needed for: the most
frequent class, and the most frequent tails of links."""

TRIVIAL = tuple(TRIVIAL_OF.values())

GLOBAL_TRIVIAL = "global_majority_accuracy"
"""The name of the score of the most frequent class of the server's test data."""

GUESSES = {"roc_auc": 0.5}
"""By the data's metric, the score of a guess."""

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
_LINKS: dict[str, Any] = _GRAPHS | {
    "local_epochs": 2,
    "batch_size": 256,
    "learning_rate": 0.1,
    "schedule": "inverse",
    "decay_every": 20,
    "embedding_dim": 10,
    "partition": "branches",
    "train_size": 0.8,
    "test_size": 0.1,
}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of data, whose name is the task of a run.

    Attributes
    ----------
    package : str
        The folder below `curvfed.tasks` with the code for such data.
    built_in : str
        The data set that needs no files.
    named : str
        What the names of a client are names of.
    models : tuple of str
        The networks, by name; () for a logistic model alone.
    default_models : mapping of str or int to str
        The default network by the method's space, or by the number of channels of the images.
    partitions : tuple of str
        The ways to partition a data set among clients.
    defaults : mapping of str to value
        The values of a run's keys that neither configuration nor method sets.
    sizes : str
        A format of the sizes that all clients share, such as " of {num_features} features".
    num_features : int
        The number of features of each example; 0 if data sets differ.
    min_classes, max_classes : int
        The range of the number of classes of a client, or of its names of entities.
    has_shape : bool
        Whether the features of an example are an image.
    has_classes : bool
        Whether the names of a client are classes of its examples.
    has_spaces : bool
        Whether clients may differ in their features and classes.
    has_validation : bool
        Whether a client has a part for validation.
    batches_training_only : bool
        Whether a batch holds training examples alone.
    has_test_set : bool
        Whether a public data set has a test part for the server.
    reads_test_data : bool
        Whether the server can read test data of a user.
    tables : tuple of str
        The tables of methods' keys that also describe such data.
    labels_hint : str
        A sentence about labels, where a run has a single class.
    made_of : tuple of str
        Other kinds of data that can be read as this one.
    """

    package: str
    built_in: str
    partitions: tuple[str, ...]
    defaults: Mapping[str, Any]
    named: str = "classes"
    models: tuple[str, ...] = ()
    default_models: Mapping[str | int, str] = field(default_factory=dict)
    sizes: str = ""
    num_features: int = 0
    min_classes: int = 1
    max_classes: int = 10_000
    has_shape: bool = False
    has_classes: bool = True
    has_spaces: bool = False
    has_validation: bool = True
    batches_training_only: bool = True
    has_test_set: bool = False
    reads_test_data: bool = False
    tables: tuple[str, ...] = ()
    labels_hint: str = "Check the labels of the data"
    made_of: tuple[str, ...] = ()

    @property
    def leaves_validation(self) -> bool:
        """Whether the default sizes of the other parts leave examples for validation."""
        shares = self.defaults["train_size"] + self.defaults["test_size"]
        return self.has_validation and bool(shares < 1)

    def default_model(self, space: str, channels: int = 0) -> str:
        """The network of a method of this space; for images of this number of channels; "" if there
        is none."""
        return self.default_models.get(channels if self.has_shape else space, "")


NODES = Kind(
    package="graphs",
    built_in="trees",
    models=("gcn", "gated", "mean", "lorentz", "split"),
    default_models={"flat": "gcn", "lorentz": "lorentz", "split": "split"},
    partitions=("metis", "louvain", "random"),
    defaults=_GRAPHS | {"batch_size": 0},
    sizes=" of {num_features} features",
    labels_hint=UNKNOWN_HINT,
    batches_training_only=False,
)

GRAPHS = Kind(
    package="graphs",
    built_in="trees",
    models=("gin", "gcn", "lorentz", "lorentz-gcn"),
    default_models={"flat": "gin", "lorentz": "lorentz"},
    partitions=("metis", "louvain", "random"),
    defaults=_GRAPHS,
    labels_hint=UNKNOWN_HINT,
    has_spaces=True,
)

IMAGES = Kind(
    package="images",
    built_in="digits",
    models=("cnn", "convnet", "resnet18", "resnet18-7x7", "vgg13", "mobilenetv2", "senet18"),
    default_models={1: "cnn", 3: "convnet"},
    partitions=("dirichlet", "iid", "shards", "users"),
    defaults=_IMAGES,
    sizes=" of {shape}",
    has_shape=True,
    has_test_set=True,
    reads_test_data=True,
)

POINTS = Kind(
    package="points",
    built_in="uniform",
    partitions=("stratified", "iid", "dirichlet"),
    defaults=_POINTS,
    num_features=2,
    min_classes=0,
    has_validation=False,
    reads_test_data=True,
    tables=("hull",),
)

SPACE_MODELS = ("normal", "hyperboloid")
"""The embeddings of links whose rows are points of a space, by the names of their coordinates.
Their scores do not depend on the relation."""

LINKS = Kind(
    package="links",
    built_in="balanced-tree",
    named="entities or relations",
    has_classes=False,
    models=(*SPACE_MODELS, "complex", "rotate"),
    default_models={"flat": "normal", "hyperbolic": "normal"},
    sizes="{relations}",
    partitions=("branches", "random"),
    defaults=_LINKS,
    num_features=1,
    max_classes=1_000_000,
    reads_test_data=True,
    tables=("links",),
    made_of=("nodes",),
)

KINDS = {
    "nodes": NODES,
    "graphs": GRAPHS,
    "images": IMAGES,
    "points": POINTS,
    "links": LINKS,
}
"""The kinds by name."""


def tasks_as(tasks: Sequence[str], allowed: Sequence[str]) -> Sequence[str]:
    """The tasks of data as a method that works on the allowed ones reads them; edges of graphs are
    links for a method of links alone. All tasks if it reads none.

    Examples
    --------
    >>> tasks_as(("nodes", "graphs"), ("links",)), tasks_as(("links", "points"), ("points",))
    (('links',), ('points',))
    """
    common = tuple(task for task in tasks if task in allowed)
    if common:
        return common
    made = tuple(name for name in allowed if set(KINDS[name].made_of) & set(tasks))
    return made or tasks
