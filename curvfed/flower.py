"""Our aggregations as strategies of Flower, for any Flower app, whose ClientApps need not know anything of curvfed.

>>> from curvfed.flower import ConsistentAggregation, SplitAggregation, strategy
>>> consistent = ConsistentAggregation(radius=0.2, min_train_nodes=2)
>>> split = SplitAggregation(personal=("head.*", "*.time"))
>>> normalised = strategy("fednova", momentum=0.9, fraction_evaluate=0.5)

and in the ServerApp `result = consistent.start(grid=grid, initial_arrays=ArrayRecord(model.state_dict()), num_rounds=10)`.

Our own app calls the same `Aggregation`s in a round loop of its own: its rounds have several phases of stamped messages, go
on from a checkpoint with the same bits, and do not wait for Flower's polling. `Strategy.start` has one exchange for each
round, no checkpoint and its own waiting, so a path that both share would cost these.
"""

import contextlib
import inspect
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from curvfed.server_app.replies import not_finite
from curvfed.strategies.base.aggregation import Aggregation, Average, Update, reweighted
from curvfed.strategies.base.average import AggregationError, Arrays, weighted_sum
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.keys import kebab
from curvfed.strategies.config.defaults import settled
from curvfed.strategies.config.halves import made
from curvfed.strategies.config.parse import parse
from curvfed.strategies.methods import METHODS
from curvfed.strategies.methods.fednova import FedNovaServer
from curvfed.strategies.methods.hyperfed import Consistent
from curvfed.strategies.wire.arrays import MessageError, check_arrays, encode_arrays

__all__ = ["AggregationStrategy", "ConsistentAggregation", "SplitAggregation", "strategy"]

NUM_STEPS = "num-steps"
"""The metric by which clients tell FedNova how many steps their optimiser made."""

CLIENT = "client"
"""The key of a message's configuration with the client's number, by which some protocols name what they send."""

log = logging.getLogger("flwr")


class AggregationStrategy(FedAvg):
    """An `Aggregation` of ours in the place of FedAvg's average; sampling, evaluation and metrics are FedAvg's.

    A client replies to a train message with one ArrayRecord, of the arrays that it was sent, and one MetricRecord with its
    `num-examples`. Replies are taken in the order of the clients' numbers, which are 0, 1, … by node id. One that is an
    error, or has arrays of other names, shapes or dtypes, or values that are not finite, is dropped with a warning.

    Arrays of whole numbers, such as the counters of batch normalisation, are averaged by examples and rounded.

    Parameters
    ----------
    make : callable
        (arrays, number of clients) -> Aggregation, called in the first round with the shared arrays.
    personal : sequence of str
        Patterns of the names of arrays that stay at the clients: they are not sent, and a reply that has one is dropped.
    weights : str
        "examples" or "uniform": what a client weighs.
    min_replies : int
        Good replies below which a round ends the run with an error.
    **sampling
        Arguments of `flwr.serverapp.strategy.FedAvg`.

    Attributes
    ----------
    aggregation : Aggregation
        From the first round on; `aggregation.weights()` and `.round_figures()` tell of the last one.
    """

    aggregation: Aggregation

    def __init__(
        self,
        make: Callable[[Arrays, int], Aggregation],
        personal: Sequence[str] = (),
        weights: str = "examples",
        min_replies: int = 1,
        **sampling: Any,
    ) -> None:
        super().__init__(**sampling)
        if isinstance(personal, str):
            raise ConfigError(f'personal = "{personal}": allowed is a sequence of patterns, such as ("{personal}",)')
        self.personal, self.weights, self.min_replies = tuple(personal), weights, min_replies
        self._make = make
        self._numbers: dict[int, int] = {}
        self._names: list[str] = []
        self._counters: Arrays = {}
        self._asked = 0

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Sample clients as FedAvg does, and send each what it starts from, with its number as the config's `client`.

        Raises
        ------
        ConfigError
            In the first round, if nothing is shared, or the aggregation lacks an array.
        """
        messages = list(super().configure_train(server_round, arrays, config, grid))
        nodes = {*grid.get_node_ids(), *(message.metadata.dst_node_id for message in messages)}
        if server_round == 1:
            self._numbers = {}
        for node in sorted(nodes - self._numbers.keys()):
            self._numbers[node] = len(self._numbers)
        if server_round == 1:
            self._begin(arrays)
        self._asked = len(messages)
        return self._addressed(messages)

    def _begin(self, arrays: ArrayRecord) -> None:
        personal = {name for name in arrays for pattern in self.personal if fnmatchcase(name, pattern)}
        shared = {name: array.numpy() for name, array in arrays.items() if name not in personal}
        if not shared:
            raise ConfigError(
                f"personal = {self.personal}: allowed are patterns that leave some of these: {', '.join(arrays)}"
            )
        self._names = list(shared)
        trained = {name: array for name, array in shared.items() if np.issubdtype(array.dtype, np.floating)}
        self._counters = {name: array for name, array in shared.items() if name not in trained}
        with self._lacking():
            self.aggregation = self._make(trained, len(self._numbers))
            self.aggregation.set_clients(range(len(self._numbers)))
            self.aggregation.expected_reply(0)

    def _addressed(self, messages: list[Message]) -> list[Message]:
        sent = [self.aggregation.sent_to(self._numbers[message.metadata.dst_node_id]) for message in messages]
        records = {id(arrays): self._record(arrays) for arrays in {id(one): one for one in sent}.values()}
        for message, arrays in zip(messages, sent, strict=True):
            config = dict(message.content.config_records[self.configrecord_key])
            config[CLIENT] = self._numbers[message.metadata.dst_node_id]
            message.content = RecordDict(
                {self.arrayrecord_key: records[id(arrays)], self.configrecord_key: ConfigRecord(config)}
            )
        return messages

    def _record(self, arrays: Arrays) -> ArrayRecord:
        """With the counters, in the order of the initial arrays, for some clients go by place."""
        every = arrays | self._counters
        return encode_arrays({name: every[name] for name in dict.fromkeys([*self._names, *every]) if name in every})

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Check the replies, and aggregate the good ones.

        Returns
        -------
        arrays : ArrayRecord or None
            The global model, without what is personal; where each client has a start of its own, that of client 0. None if
            nobody was asked.
        metrics : MetricRecord or None
            FedAvg's average; None if no client has examples.

        Raises
        ------
        AggregationError
            If fewer than `min_replies` are good, or the result is not finite.
        """
        good: dict[int, tuple[Update, Arrays, RecordDict]] = {}
        reasons: list[str] = []
        for message in replies:
            node = message.metadata.src_node_id
            try:
                good[self._numbers.get(node, -1)] = self._checked(message)
            except MessageError as error:
                reasons.append(f"node {node}: {error}")
                log.warning("round %d: dropped the reply of %s", server_round, reasons[-1])
        if len(good) < min(self.min_replies, self._asked):
            raise AggregationError(
                f"round {server_round}: {len(good)} good replies of {self._asked}, needed are {self.min_replies} "
                f"(min_replies). {'; '.join(reasons[:3]) or 'None came in time'}{self._protocol()}"
            )
        if not good:
            return None, None
        updates = {number: good[number][0] for number in sorted(good)}
        with self._lacking(), np.errstate(over="ignore", invalid="ignore"):  # said below, in words
            self.aggregation.aggregate(reweighted(updates, self.weights))
        if reason := not_finite(self.aggregation.state()):
            raise AggregationError(f"round {server_round}: {reason} after the aggregation")
        total = sum(update.examples for update in updates.values())
        if not total:
            return self._record(self.aggregation.global_model()), None
        for name, counter in self._counters.items():
            terms = [(good[number][1][name], update.examples / total) for number, update in updates.items()]
            self._counters[name] = np.rint(weighted_sum(np.zeros(counter.shape), terms)).astype(counter.dtype)
        contents = _common_metrics([good[number][2] for number in updates])
        metrics = self.train_metrics_aggr_fn(contents, self.weighted_by_key)
        return self._record(self.aggregation.global_model()), metrics

    def _checked(self, message: Message) -> tuple[Update, Arrays, RecordDict]:
        """The trained arrays and the counters of a reply, and all of it.

        Raises
        ------
        MessageError
        """
        if message.has_error():
            raise MessageError(message.error.reason or f"error {message.error.code}")
        if message.metadata.src_node_id not in self._numbers:
            raise MessageError("it was not asked")
        content = message.content
        records = [record for record in content.values() if isinstance(record, ArrayRecord)]
        metrics = [record for record in content.values() if isinstance(record, MetricRecord)]
        if len(records) != 1 or len(metrics) != 1:
            raise MessageError(
                f"it has {len(records)} ArrayRecords and {len(metrics)} MetricRecords; awaited is one of each"
            )
        examples = _count(metrics[0], self.weighted_by_key)
        try:
            arrays = {name: array.numpy() for name, array in records[0].items()}
        except Exception as error:  # what NumPy raises depends on how the bytes are damaged
            raise MessageError(f"an array cannot be read ({type(error).__name__})") from None
        check_arrays(
            arrays, self.aggregation.expected_reply(self._numbers[message.metadata.src_node_id]) | self._counters
        )
        counters = {name: arrays.pop(name) for name in self._counters}
        # FedNova alone goes by steps.
        steps = _count(metrics[0], NUM_STEPS) if isinstance(self.aggregation, FedNovaServer) else 0
        return Update(examples, arrays, steps), counters, content

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Sample clients as FedAvg does, and send each what it would start the next round from."""
        return self._addressed(list(super().configure_evaluate(server_round, arrays, config, grid)))

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """Average the metrics as FedAvg does, in the order of the nodes."""
        return super().aggregate_evaluate(server_round, sorted(replies, key=lambda reply: reply.metadata.src_node_id))

    def _protocol(self) -> str:
        """What clients that know nothing of the aggregation do not do, in words; "" where these will do."""
        extra = (self.aggregation.sent_to(0).keys() | self.aggregation.expected_reply(0).keys()) - set(self._names)
        if not extra:
            return ""
        return (
            f". {type(self.aggregation).__name__} works with clients that know its protocol: they are sent "
            f"{sorted(self.aggregation.sent_to(0))}, and reply with {sorted(self.aggregation.expected_reply(0))}"
        )

    @contextlib.contextmanager
    def _lacking(self) -> Iterator[None]:
        """Some aggregations look for arrays by the names that our own models give them, or for all clients at the start."""
        try:
            yield
        except KeyError as error:
            raise ConfigError(
                f"this aggregation looks for {error} in vain, an array or a client that was there in the first round; the "
                f"shared arrays are {', '.join(self._names)}, the clients 0 to {len(self._numbers) - 1}"
            ) from None


def _common_metrics(contents: list[RecordDict]) -> list[RecordDict]:
    """The replies with those of their metrics alone that all of them have, in the same form: others have no average."""
    records = [next(iter(content.metric_records.values())) for content in contents]
    forms = [{(key, len(value) if isinstance(value, list) else -1) for key, value in one.items()} for one in records]
    common = {key for key, _ in set.intersection(*forms)}
    left_out = sorted({key for one in records for key in one} - common)
    if not left_out:
        return contents
    log.warning("metrics that not all replies have in the same form are left out: %s", ", ".join(left_out))
    return [RecordDict({"metrics": MetricRecord({key: one[key] for key in one if key in common})}) for one in records]


def _count(metrics: MetricRecord, key: str) -> int:
    value = metrics.get(key)
    if isinstance(value, int | float) and math.isfinite(value) and 0 <= value == int(value) < 2**53:
        return int(value)
    raise MessageError(f'the metric "{key}" is {value}; awaited is a whole number, 0 or more')


class ConsistentAggregation(AggregationStrategy):
    """HyperFed's consistent aggregation (Liao et al., IJCAI 2023): weights by which the clients' deviations agree most.

    Parameters
    ----------
    radius : float
        How far, divided by the number of clients, a weight may be from the client's share of the examples; 0: average.
    deviations : str
        "unit": weights are chosen for deviations of unit length, as in the authors' code; "raw": as in the paper.
    **settings
        `personal`, `weights`, `min_replies` and the arguments of FedAvg.

    Examples
    --------
    >>> ConsistentAggregation(radius=0.5, fraction_train=0.5, min_available_nodes=4).radius
    0.5
    """

    def __init__(self, radius: float = 0.2, deviations: str = "unit", **settings: Any) -> None:
        if not (0 <= radius < math.inf and deviations in ("unit", "raw")):
            raise ConfigError(
                f'radius = {radius} and deviations = "{deviations}": allowed are a number >= 0, and "unit" or "raw"'
            )
        self.radius, self.deviations = radius, deviations
        super().__init__(lambda arrays, clients: Consistent(arrays, radius, deviations), **settings)


class SplitAggregation(AggregationStrategy):
    """FlatLand's split: some parameters are averaged by examples, the others never leave the clients.

    Parameters
    ----------
    personal : sequence of str
        Patterns of the names of those that stay, in the manner of `fnmatch`.
    **settings
        `weights`, `min_replies` and the arguments of FedAvg.

    Examples
    --------
    >>> SplitAggregation(personal=("*.time", "head.*")).personal
    ('*.time', 'head.*')
    """

    def __init__(self, personal: Sequence[str], **settings: Any) -> None:
        super().__init__(lambda arrays, clients: Average(arrays), personal=personal, **settings)


def strategy(
    name: str, personal: Sequence[str] | None = None, min_replies: int = 1, **keys: Any
) -> AggregationStrategy:
    """The server's half of one of our methods.

    Parameters
    ----------
    name : str
        Of a method, such as "fednova" or "scaffold", or of its aggregation.
    personal : sequence of str, optional
        As in `SplitAggregation`; the method's own, if left out.
    min_replies : int
        As in `AggregationStrategy`.
    **keys
        The method's keys (docs/configuration.md) without the name of their table, those of every run, and the arguments of
        FedAvg, which go before.

    Raises
    ------
    ConfigError
        If there is no such method, key or value.

    Notes
    -----
    Clients of "fednova" tell the number of their steps as the metric `num-steps`. Those of "scaffold", "apple", "fedmtl",
    "fedgta" and "fedsage+" are sent more than parameters, or reply with more, and have to know the protocol.

    Examples
    --------
    >>> strategy("fedopt", optimizer="adam", learning_rate=0.01, fraction_train=0.5).fraction_train
    0.5
    """
    method = name if name in METHODS else next((key for key, row in METHODS.items() if row.aggregation == name), "")
    if not method or METHODS[method].is_one_shot:
        rounds = [key for key, row in METHODS.items() if not row.is_one_shot]
        raise ConfigError(
            f'strategy("{name}"): allowed is one of {", ".join(rounds)}, or an aggregation of one of these'
        )
    arguments = inspect.signature(FedAvg).parameters
    sampling = {key: value for key, value in keys.items() if key in arguments}
    own = {name: f"{table}.{kebab(name)}" for table, part in METHODS[method].keys.items() for name in part.model_fields}
    raw: dict[str, Any] = {"method": method}
    for key in keys.keys() - sampling.keys():
        raw[own.get(key, kebab(key))] = keys[key]
    config = settled(parse(raw), METHODS[method].tasks[0])
    patterns = METHODS[method].personal if personal is None else personal
    return AggregationStrategy(
        lambda arrays, clients: made(arrays, config, clients), patterns, config.weights, min_replies, **sampling
    )
