"""Requests and replies, and the phases that they belong to.

Every message names its run, phase and round. Received messages are checked before they are used; a
`MessageError` names the fault and contains no data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from curvfed.geometry.arrays import Array
from curvfed.strategies.wire.checks import MessageError, check_texts

DESCRIBE = "describe"
HOLDERS = "holders"
START = "start"
TRAIN = "train"
EVALUATE = "evaluate"
FINE_TUNE = "fine-tune"
CALIBRATE = "calibrate"
MEASURE = "measure"
KEYS = "keys"
AGREE = "agree"
SUM = "sum"

MESSAGE_TYPES = {
    DESCRIBE: "query.describe",
    HOLDERS: "query.holders",
    START: "query.start",
    TRAIN: "train",
    EVALUATE: "evaluate",
    FINE_TUNE: "train.fine_tune",
    CALIBRATE: "query.calibrate",
    MEASURE: "query.measure",
    KEYS: "query.keys",
    AGREE: "query.agree",
    SUM: "query.sum",
}
"""Flower's type of each phase. `SUM` stands for the sum of a one-shot method, which names its phase
itself: a phase that is not among these has the type of `SUM`."""

WAKE_UP = "query.wake_up"
"""Flower's type of an empty message outside all phases; see `curvfed.strategies.wire.exchange`."""

WITHOUT_KEYS = "without-keys"
"""Name of the part that replaces a client's masked vector if it lacks the keys of its peers, as
after a restart of its node."""

CONFUSION = "confusion"
"""Name of the part of the last scores with the confusion matrix of a client's test examples."""

LAST_ROUND = "last-round"
"""Name of the part of a request that makes a round before `num-rounds` the last one."""

WITHOUT_ARRAYS = (DESCRIBE, START, MEASURE, KEYS, AGREE)
"""Phases without arrays in their replies."""

Parts = Mapping[str, Any]
"""Named values of the types in Flower's records: numbers, strings, bytes, and lists of one of these
types."""


@dataclass(frozen=True)
class Header:
    """The run, phase and round of a message.

    Attributes
    ----------
    run : str
        Name of the run.
    phase : str
        A key of `MESSAGE_TYPES`, or the name that a one-shot method gives the phase of its sum.
    round : int
        From 1; 0 before the first round.
    """

    run: str
    phase: str
    round: int


@dataclass(frozen=True)
class Facts:
    """The facts that the server learned before the first round and sends to every client.

    Attributes
    ----------
    task : str
        A key of `KINDS`, such as "nodes".
    num_features : int
    class_names : tuple of str
        Union over the clients, in the order of the logits.
    shape : str
        Shape of an image, such as "3x32x32"; "" for other tasks.
    own_ends : bool
        Whether the clients' feature spaces or classes differ. Then the first and last layers are
        personal, each client uses its own features and classes, `num_features` is 0 and
        `class_names` is empty.
    figures : tuple of float
        Figures of all clients from which a personal parameter starts; empty if the method uses none
        or a client keeps its own private.
    partitions : tuple of int
        The numbers of all clients, ascending; empty unless the learner has `lists_clients`.
    bits : int
        The bits of white in the clients' images with 16 bits per channel; 0 without such images.
    """

    task: str
    num_features: int
    class_names: tuple[str, ...]
    shape: str = ""
    own_ends: bool = False
    figures: tuple[float, ...] = ()
    partitions: tuple[int, ...] = ()
    bits: int = 0


@dataclass(frozen=True)
class Holders:
    """How many members of a client's group contribute to each class or entity.

    Attributes
    ----------
    needed : int
        With fewer members, values computed from it stay at the members.
    counts : tuple of int
        In the order of the federation's names; `needed` stands for larger numbers.
    """

    needed: int
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Request:
    """A message from the server to a client.

    Attributes
    ----------
    header : Header
    stamp : int
        The round of the personal state that the client must start from; 0 for a new client.
    facts : Facts or None
        None in the first phase.
    arrays : ArrayRecord
        The shared parameters, encoded once per round for all clients.
    fixed : ArrayRecord
        The run's fixed parameters, for a client that does not have them yet; it stores them.
    parts : mapping
        Further values of a protocol; the receiver checks them.
    holders : Holders or None
        None before they are counted, and if no sum of the run has single classes or entities.
    """

    header: Header
    stamp: int = 0
    facts: Facts | None = None
    arrays: ArrayRecord = field(default_factory=ArrayRecord)
    fixed: ArrayRecord = field(default_factory=ArrayRecord)
    parts: Parts = field(default_factory=dict)
    holders: Holders | None = None

    @property
    def required_facts(self) -> Facts:
        """The facts of the federation, for a phase that needs them.

        Raises
        ------
        MessageError
        """
        if self.facts is None:
            raise MessageError('the record "facts" is missing', key="no-facts")
        return self.facts


@dataclass(frozen=True)
class Description:
    """A client's answer to `describe`.

    Attributes
    ----------
    task : str
        A key of `KINDS`, such as "nodes".
    space : str
        Name of the client's data set if there are several, each with its own features and classes;
        else "".
    metric : str
        The metric of the data: "accuracy", "roc_auc" or that of an added kind, such as "mrr".
    num_features : int
    class_names : tuple of str
    digest, partition_digest : str
        SHA-256 of the client's data, and of the whole partition ("" for a client with its own
        data).
    statistics : mapping
        Figures about the data, by name (see `statistics` in `curvfed.tasks.examples` and
        `curvfed.tasks.graphs.data.client_graph`); empty if they are private.
    shape : str
        Shape of an image, such as "3x32x32"; "" for other tasks.
    num_partitions : int
        Number of parts of the public data set; 0 for a client with its own data.
    group : tuple of int
        The partitions that a real node is summed with under secure sums, its own among them; its
        own alone without a group. Empty in a simulation.
    min_holders : int
        The node's own `Holders.needed` under secure sums; 0 for the default.
    bits : int
        The bits of white in images with 16 bits per channel; 0 without such images.
    """

    task: str
    space: str
    metric: str
    num_features: int
    class_names: tuple[str, ...]
    digest: str
    partition_digest: str
    statistics: Mapping[str, Any] = field(default_factory=dict)
    shape: str = ""
    num_partitions: int = 0
    group: tuple[int, ...] = ()
    min_holders: int = 0
    bits: int = 0


@dataclass(frozen=True)
class Reply:
    """A message from a client to the server.

    Attributes
    ----------
    header : Header
    partition : int
    error : str
        Why the client could not do its work; "" if it could.
    description : Description or None
        In phase `describe`.
    num_examples : int
        The weight of the arrays in the average.
    arrays : mapping of str to array
        The shared parameters after training, or the sums that a phase asks for.
    metrics : mapping of str to float
        Undefined metrics are left out.
    parts : mapping
        Further values of a protocol, as in a request.
    restored : int or None
        The earlier round with the personal state that the client starts from, 0 for a fresh state,
        if it has lost the state with the stamp of the request; else None.
    """

    header: Header
    partition: int
    error: str = ""
    description: Description | None = None
    num_examples: int = 0
    arrays: Mapping[str, Array] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    parts: Parts = field(default_factory=dict)
    restored: int | None = None


R = TypeVar("R", ArrayRecord, ConfigRecord, MetricRecord)
T = TypeVar("T")

_LISTS: Mapping[Any, tuple[type, str]] = {
    tuple[str, ...]: (str, "strings"),
    tuple[int, ...]: (int, "whole numbers"),
    tuple[float, ...]: (float, "numbers"),
}


def record_of(content: RecordDict, key: str, kind: type[R], is_required: bool = False) -> R:
    """The record of this name and kind; an empty one if it is missing and not required.

    `content.array_records` and the like are not used: these views and the RecordDict refer to each
    other, which would keep every message of a round in memory until the next full garbage
    collection.

    Raises
    ------
    MessageError
    """
    record = content.get(key)
    if isinstance(record, kind):
        return record
    if is_required:
        raise MessageError(f'the record "{key}" is missing', key="missing-record")
    return kind()


def entry(record: Mapping[str, Any], key: str, kind: type) -> Any:
    """An entry of a record, which must have exactly this type."""
    value = record.get(key)
    if type(value) is not kind:
        raise MessageError(
            f'"{key}" is {type(value).__name__}, expected {kind.__name__}', key="type"
        )
    return value


def build_dataclass(kind: type[T], record: Mapping[str, Any]) -> T:
    """A dataclass from the entries of a record, with checked types and texts.

    Raises
    ------
    MessageError
    """
    values: dict[str, Any] = {}
    for item in fields(kind):  # type: ignore[arg-type]
        value = record.get(item.name)
        if item.type in _LISTS:
            element_type, words = _LISTS[item.type]
            if not isinstance(value, list | tuple) or not all(
                type(element) is element_type for element in value
            ):
                raise MessageError(f'"{item.name}" is not a list of {words}', key="type")
            if element_type is str:
                check_texts(value)
            values[item.name] = tuple(value)
        elif item.type in (bool, int, float, str):
            values[item.name] = entry(record, item.name, item.type)
            if item.type is str:
                check_texts([values[item.name]])
        else:
            values[item.name] = value
    return kind(**values)


def tuples_to_lists(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace tuples by lists, as Flower's records and JSON require."""
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
    }


def stored_facts(values: Mapping[str, Any]) -> Facts:
    """The facts in a run's file; an earlier version named FlatLand's two figures."""
    values = lists_to_tuples(values)
    mean = values.pop("ricci_mean", 0.0)
    deviation = values.pop("ricci_std", 0.0)
    if deviation:
        values["figures"] = (mean, deviation)
    return Facts(**values)


def lists_to_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """Inverse of `tuples_to_lists`."""
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
    }
