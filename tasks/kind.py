"""A kind of data: its examples, and the defaults of a run with such data."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from curvfed.tasks import plugins
from curvfed.tasks.format import Format
from curvfed.tasks.public_data import PublicData

CLASSES = """\
Classification of examples like those of the clients: with the same features, or images
of the same size, and the same classes. The metadata of `model.safetensors` name them."""

UNMEASURED = (
    "nothing measures this run: no client has test examples, and the server scores no model; give"
    " the clients test examples (test masks, test-size), or choose a method with one model for all"
    " clients, which the server scores on test-data"
)


@dataclass(frozen=True, kw_only=True)
class Words:
    """The words for data of a kind in messages and pages.

    Attributes
    ----------
    names : str
        The noun for the names of a client.
    sizes : str
        A format of the sizes that all clients share, such as " of {num_features} features".
    labels_hint : str
        A sentence about labels, where a run has a single class.
    unscored : str
        A sentence about a run without any scored test example.
    use, task : str
        The intended use and the task in a model card.
    """

    names: str = "classes"
    sizes: str = ""
    labels_hint: str = "Check the labels of the data"
    unscored: str = UNMEASURED
    use: str = CLASSES
    task: str = "classification"


@dataclass(frozen=True, kw_only=True)
class Files:
    """The data sets and files of a kind that an extension adds.

    Attributes
    ----------
    sources : mapping of str to PublicData
        The public and generated data sets, by name in small letters.
    formats, unclear : tuple of Format
        The formats, which decide before all others; those of the second come first and are in no
        list, as a path may also hold another kind.
    endings : tuple of str
        Ends of an absent path that may hold such data; "" for a folder.
    hint, memory_hint : str
        Such data in files, and in Python, for error texts.
    foreign : callable or None
        The kind of a file or folder of another tool with such data, and the data to give instead.
    """

    sources: Mapping[str, PublicData] = field(default_factory=dict)
    formats: tuple[Format, ...] = ()
    unclear: tuple[Format, ...] = ()
    endings: tuple[str, ...] = ()
    hint: str = ""
    memory_hint: str = ""
    foreign: Callable[[Path], tuple[str, str] | None] | None = None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The methods for a kind that an extension adds, where curvature is asked about.

    Attributes
    ----------
    curved : str
        The method of such data alone, for "expectation".
    methods : tuple of str
        Those of `curvfed compare` with methods=auto.
    rivals : mapping of str to mapping
        Names of `curvfed compare`'s own: a method with some of its keys, which somebody would use
        in place of a curved method.
    recall : mapping of str to value
        The keys of a run that trains on all examples, so that it scores how well the model gives
        them back.
    personal : str
        What a personal score is about and what a global one, where they are other questions.
    """

    curved: str = ""
    methods: tuple[str, ...] = ()
    rivals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    recall: Mapping[str, Any] = field(default_factory=dict)
    personal: str = ""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of data; its name is the task of a run.

    Attributes
    ----------
    parts : mapping of str to str
        The places, "package.module:name", of the code for such data, by role. A part is imported
        where a run needs it. Every kind has "dataset", a `curvfed.tasks.dataset.Dataset`; an
        extension can add

        - "memory", a function that reads an object of Python: its name in error texts, the object,
          and whether the method reads this kind alone; None for other objects;
        - "figures", the figures of runs on such data;
        - "global-model", in place of those of `curvfed.server_app.global_model`;
        - "predict", in place of the prediction of classes by `curvfed.deployments.predict`;
        - "expectation", a function from a run's configuration to the gain from curvature that its
          data suggest before any run, or None.
    built_in : str
        The data set that needs no files.
    models : tuple of str
        The networks, by name; () for a logistic model alone.
    default_models : mapping of str or int to str
        The default network by the method's space, or by the number of channels of the images.
    partitions : tuple of str
        The ways to partition a data set among clients.
    defaults : mapping of str to value
        The values of a run's keys that neither configuration nor method sets.
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
    made_of : tuple of str
        Other kinds of data that can be read as this one.
    trivial : mapping of str to str
        By metric, the name of the score of an answer that no model is needed for.
    arrays_file : str
        The file with arrays of a run on such data, which its pictures are drawn from.
    unread : tuple of str
        The keys of every run that have no effect on such data.
    before_keys : mapping of str to value
        The value, by key of these tables, of runs made before the key existed.
    test_counts : tuple of str
        The statistics that count some of a client's test examples; a description with "num_test"
        has all of them.
    words : Words
    files : Files
    comparison : Comparison
    """

    parts: Mapping[str, str]
    built_in: str
    partitions: tuple[str, ...]
    defaults: Mapping[str, Any]
    models: tuple[str, ...] = ()
    default_models: Mapping[str | int, str] = field(default_factory=dict)
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
    made_of: tuple[str, ...] = ()
    trivial: Mapping[str, str] = field(default_factory=lambda: {"accuracy": "majority_accuracy"})
    arrays_file: str = ""
    unread: tuple[str, ...] = ()
    before_keys: Mapping[str, Any] = field(default_factory=dict)
    test_counts: tuple[str, ...] = ()
    words: Words = Words()
    files: Files = Files()
    comparison: Comparison = Comparison()

    def default_model(self, space: str, channels: int = 0) -> str:
        """The network of a method of this space; for images of this number of channels; "" if
        missing."""
        return self.default_models.get(channels if self.has_shape else space, "")

    def part(self, role: str) -> Any:
        """The code of a role of `parts`; None if this kind lacks the part.

        Raises
        ------
        DataError
            If it cannot be imported.
        """
        if role in self.parts:
            return plugins.imported(self.parts[role])
        return None

    def sizes_of(self, num_features: int, shape: str, names: Sequence[str]) -> str:
        """The sizes that all clients share, in words, from those of a client and its names."""
        return self.words.sizes.format(num_features=num_features, shape=shape)

    def warning(self, statistics: Iterable[Mapping[str, Any]]) -> str:
        """A warning about the data of all clients, from their statistics; "" for none."""
        return ""

    def remedy_below_trivial(self, run: Any) -> str:
        """Advice for a run that scores below the trivial answer; "" without one."""
        return ""

    def num_scored(self, statistics: Mapping[str, Any]) -> int:
        """The number of a client's test examples that are scored."""
        return int(statistics["num_test"])

    def is_measured_by_figures(self, run: Any) -> bool:
        """Whether further figures of the global model measure a run, as its accuracy does."""
        return True
