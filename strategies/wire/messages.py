"""What travels: dataclasses here, Flower's records on the wire. The only home of record keys.

Every message names its run, phase and round. What arrives is checked before it is believed: `MessageError` says what was
wrong, in words that hold nothing of the content.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from numpy.typing import NDArray

from curvfed.strategies.wire.arrays import MessageError, decode_arrays, encode_arrays, one_line
from curvfed.strategies.wire.checks import check_data, check_partition, check_statistics, check_texts
from curvfed.strategies.wire.records import build, config_of, entry, lists, record_of

DESCRIBE = "describe"
CURVATURE = "curvature"
TRAIN = "train"
EVALUATE = "evaluate"
FINE_TUNE = "fine-tune"
CALIBRATE = "calibrate"
CCVR = "ccvr"
MEASURE = "measure"
KEYS = "keys"
SHARES = "shares"
HULLS = "hulls"
UNMASK = "unmask"
FORGET = "forget"

MESSAGE_TYPES = {
    DESCRIBE: "query.describe",
    CURVATURE: "query.curvature",
    TRAIN: "train",
    EVALUATE: "evaluate",
    FINE_TUNE: "train.fine_tune",
    CALIBRATE: "query.calibrate",
    CCVR: "query.ccvr",
    MEASURE: "query.measure",
    KEYS: "query.keys",
    SHARES: "query.shares",
    HULLS: "query.hulls",
    UNMASK: "query.unmask",
    FORGET: "query.forget",
}

WAKE_UP = "query.nudge"
"""Flower's type of a message of no phase, empty and not answered; see `curvfed.strategies.wire.wake_up`."""

ANSWERED_BY_ARRAYS = (TRAIN, CALIBRATE, CCVR, HULLS)

_HEADER, _FACTS, _ARRAYS, _FIXED, _METRICS, _BODY = "header", "facts", "arrays", "fixed", "metrics", "body"
_PARTS = "parts"

Parts = Mapping[str, Any]
"""Named values that Flower's records take: numbers, strings, bytes, and lists of one kind of these."""


@dataclass(frozen=True)
class Header:
    """Where a message belongs.

    Attributes
    ----------
    run : str
        Name of the run.
    phase : str
        A key of `MESSAGE_TYPES`.
    round : int
        1, 2, …; 0 before the first round.
    """

    run: str
    phase: str
    round: int


@dataclass(frozen=True)
class Facts:
    """What the server learned before the first round and every client is told.

    Attributes
    ----------
    task : str
        "nodes", "graphs", "images" or "points".
    num_features : int
    class_names : tuple of str
        Union over the clients; numbers the logits.
    shape : str
        Of an image, such as "3x32x32"; "" for other tasks.
    own_ends : bool
        Whether the clients' feature spaces or classes have nothing in common: then the layers that touch them stay with
        each client, and `num_features` is 0 and `class_names` empty for "your own".
    ricci_mean, ricci_std : float
        Mean and standard deviation (ddof = 0) over the clients of their mean Ricci curvature; 0 and 0 where the
        method does not ask or the clients do not tell, which starts every curvature at the constant.
    partitions : tuple of int
        The numbers of all clients, ascending, where the method's row has them told; else none.
    """

    task: str
    num_features: int
    class_names: tuple[str, ...]
    shape: str = ""
    own_ends: bool = False
    ricci_mean: float = 0.0
    ricci_std: float = 0.0
    partitions: tuple[int, ...] = ()


@dataclass(frozen=True)
class Request:
    """Server to client.

    Attributes
    ----------
    header : Header
    stamp : int
        The round of the personal state that the client must start from; 0 is a fresh client.
    facts : Facts or None
        None in the first phase.
    arrays : ArrayRecord
        The shared parameters, encoded once per round for all clients.
    fixed : ArrayRecord
        The fixed parameters of the run, for a client that has not got them yet; it keeps them.
    parts : mapping
        What a protocol sends besides, by its own names; who takes it checks it.
    """

    header: Header
    stamp: int = 0
    facts: Facts | None = None
    arrays: ArrayRecord = field(default_factory=ArrayRecord)
    fixed: ArrayRecord = field(default_factory=ArrayRecord)
    parts: Parts = field(default_factory=dict)


@dataclass(frozen=True)
class Description:
    """A client's answer to `describe`.

    Attributes
    ----------
    task : str
        "nodes", "graphs", "images" or "points".
    space : str
        Which feature space and which classes these are: the name of a data set among several, else "".
    metric : str
        "accuracy" or "roc_auc".
    num_features : int
    class_names : tuple of str
    digest, partition_digest : str
        SHA-256 of the client's data and of the whole partition ("" where it brings its own data).
    statistics : mapping
        Figures about the data, by name (see `curvfed.tasks.graphs.client_task.Statistics` and
        `curvfed.tasks.images.client_task.ImageStatistics`); empty where they stay private.
    shape : str
        Of an image, such as "3x32x32"; "" for other tasks.
    num_partitions : int
        Into how many parts the public data set is cut; 0 where the client brings its own data.
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


@dataclass(frozen=True)
class Reply:
    """Client to server.

    Attributes
    ----------
    header : Header
    partition : int
    error : str
        Why the client could not answer, "" if it could.
    description : Description or None
        In phase `describe`.
    num_examples : int
        The weight of the arrays in the average.
    arrays : mapping of str to array
        The shared parameters after training, or the sums that a phase asks for.
    metrics : mapping of str to float
        What is not defined is left out.
    parts : mapping
        As in a request.
    """

    header: Header
    partition: int
    error: str = ""
    description: Description | None = None
    num_examples: int = 0
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    parts: Parts = field(default_factory=dict)


def encode_request(request: Request) -> RecordDict:
    """A request as Flower's records."""
    content = RecordDict({_HEADER: ConfigRecord(vars(request.header) | {"stamp": request.stamp})})
    if request.facts is not None:
        content[_FACTS] = ConfigRecord(lists(vars(request.facts)))
    if request.arrays:
        content[_ARRAYS] = request.arrays
    if request.fixed:
        content[_FIXED] = request.fixed
    if request.parts:
        content[_PARTS] = ConfigRecord(dict(request.parts))
    return content


def decode_request(content: RecordDict) -> Request:
    """A request from Flower's records.

    Raises
    ------
    MessageError
        If a record or a key is absent or of another type.
    """
    header = config_of(content, _HEADER)
    facts = build(Facts, config_of(content, _FACTS)) if _FACTS in content else None
    arrays, fixed = (record_of(content, name, ArrayRecord) or ArrayRecord() for name in (_ARRAYS, _FIXED))
    return Request(build(Header, header), entry(header, "stamp", int), facts, arrays, fixed, _parts(content))


def encode_reply(reply: Reply) -> RecordDict:
    """A reply as Flower's records."""
    content = RecordDict(
        {
            _HEADER: ConfigRecord(
                vars(reply.header)
                | {"partition": reply.partition, "error": reply.error, "num_examples": reply.num_examples}
            )
        }
    )
    if reply.description is not None:
        body = dict(vars(reply.description))
        statistics = {key: value for key, value in body.pop("statistics").items() if value is not None}
        content[_BODY] = ConfigRecord(lists(body))
        content["statistics"] = ConfigRecord(lists(statistics))
    if reply.arrays:
        content[_ARRAYS] = encode_arrays(reply.arrays)
    if reply.parts:
        content[_PARTS] = ConfigRecord(dict(reply.parts))
    if reply.metrics:
        content[_METRICS] = MetricRecord({name: float(value) for name, value in reply.metrics.items()})
    return content


def decode_reply(content: RecordDict, expected: Header) -> Reply:
    """A reply from Flower's records, checked for form and for the run, phase and round it should belong to.

    Raises
    ------
    MessageError
        If a record or a key is absent or of another type, or if the reply belongs elsewhere.
    """
    record = config_of(content, _HEADER)
    header = build(Header, record)
    for name in ("run", "phase", "round"):
        got, wanted = getattr(header, name), getattr(expected, name)
        if got != wanted:
            raise MessageError(f"the reply is of {name} {got}, expected {wanted}")
    error = one_line(entry(record, "error", str))
    description = None
    if header.phase == DESCRIBE and not error:
        body = dict(config_of(content, _BODY)) | {"statistics": dict(config_of(content, "statistics"))}
        description = build(Description, body)
        about = description
        check_texts([about.task, about.space, about.metric, about.digest, about.partition_digest, about.shape])
        check_texts(about.class_names)
        check_data(about.task, about.space, about.shape, about.num_features, about.class_names)
        check_statistics(description.statistics, len(description.class_names))
        check_partition(entry(record, "partition", int), about.num_partitions, about.partition_digest)
    num_examples = entry(record, "num_examples", int)
    if num_examples < 0:
        raise MessageError(f"num_examples is {num_examples}; allowed is 0 or more")
    metrics = record_of(content, _METRICS, MetricRecord) or MetricRecord()
    if header.phase not in ANSWERED_BY_ARRAYS and _ARRAYS in content:
        raise MessageError(f"arrays are not awaited in phase {header.phase}")
    return Reply(
        header,
        entry(record, "partition", int),
        error,
        description,
        num_examples,
        decode_arrays(record_of(content, _ARRAYS, ArrayRecord) or ArrayRecord()),
        {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)},
        _parts(content),
    )


def _parts(content: RecordDict) -> Parts:
    return dict(record_of(content, _PARTS, ConfigRecord) or {})
