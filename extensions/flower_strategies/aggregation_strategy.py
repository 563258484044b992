"""An aggregation of curvfed as a strategy of Flower.

The app of curvfed calls the same `Aggregation`s in its own round loop: its rounds have several
phases, resume bit-equal from a checkpoint, and do not wait for Flower's polling. `Strategy.start`
has one exchange per round and no checkpoint, so the two loops cannot be one.
"""

import contextlib
import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from curvfed.strategies.base.aggregation import (
    Aggregation,
    AggregationError,
    split_average,
)
from curvfed.strategies.base.statistics import Arrays, Statistics, not_finite
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods.fednova import FedNovaServer
from curvfed.strategies.wire.checks import MessageError, check_arrays
from curvfed.strategies.wire.codec import encode_arrays

NUM_STEPS = "num-steps"
"""The metric with the number of a client's optimiser steps, for FedNova."""

CLIENT = "client"
"""The key for the client's number in a message's configuration; some protocols use it in names of
arrays."""

log = logging.getLogger("flwr")


class AggregationStrategy(FedAvg):
    """An `Aggregation` instead of FedAvg's average; sampling, evaluation and metrics are FedAvg's.

    A client replies to a train message with one ArrayRecord, of the arrays that it received, and
    one MetricRecord with its `num-examples`. Replies are ordered by the clients' numbers 0, 1, … by
    node id. A reply that is an error, or has other names, shapes or dtypes, or values that are not
    finite, is dropped with a warning.

    Arrays of whole numbers, such as the counters of batch normalisation, are averaged by examples
    and rounded.

    Parameters
    ----------
    make : callable
        Called in the first round with the shared arrays and `clients=`, the numbers of the clients;
        it returns an Aggregation.
    personal : sequence of str
        Patterns of the names of arrays that stay at the clients: they are not sent, and replies
        with such an array are dropped.
    weights : str
        The weight of a client: "examples" or "uniform".
    min_replies : int
        Minimum number of valid replies per round; with fewer the run stops.
    **sampling
        Arguments of `flwr.serverapp.strategy.FedAvg`.

    Attributes
    ----------
    aggregation : Aggregation
        Set in the first round; `aggregation.weights` and `.round_figures` are of the last round.
    """

    aggregation: Aggregation

    def __init__(
        self,
        make: Callable[..., Aggregation],
        personal: Sequence[str] = (),
        weights: str = "examples",
        min_replies: int = 1,
        **sampling: Any,
    ) -> None:
        super().__init__(**sampling)
        if isinstance(personal, str):
            raise ConfigError(
                f'personal = "{personal}": allowed is a sequence of patterns, such as'
                f' ("{personal}",)',
                key="personal",
            )
        self.personal = tuple(personal)
        self.weights = weights
        self.min_replies = min_replies
        self._make = make
        self._numbers: dict[int, int] = {}
        self._names: list[str] = []
        self._counters: Arrays = {}
        self._num_asked = 0

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Sample clients like FedAvg, and send each its start parameters and its number as
        `client`.

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
        self._num_asked = len(messages)
        return self._addressed(messages)

    def _begin(self, arrays: ArrayRecord) -> None:
        personal = {
            name for name in arrays for pattern in self.personal if fnmatchcase(name, pattern)
        }
        shared = {name: array.numpy() for name, array in arrays.items() if name not in personal}
        if not shared:
            raise ConfigError(
                f"personal = {self.personal}: allowed are patterns that leave some of these:"
                f" {', '.join(arrays)}",
                key="personal",
            )
        self._names = list(shared)
        trained = {
            name: array for name, array in shared.items() if np.issubdtype(array.dtype, np.floating)
        }
        self._counters = {name: array for name, array in shared.items() if name not in trained}
        with self._lacking():
            self.aggregation = self._make(trained, clients=range(len(self._numbers)))
            self.aggregation.expected_reply(0)

    def _addressed(self, messages: list[Message]) -> list[Message]:
        sent = [
            self.aggregation.sent_to(self._numbers[message.metadata.dst_node_id])
            for message in messages
        ]
        records = {}
        for arrays in sent:
            if id(arrays) not in records:
                records[id(arrays)] = self._record(arrays)
        for message, arrays in zip(messages, sent, strict=True):
            config = dict(message.content.config_records[self.configrecord_key])
            config[CLIENT] = self._numbers[message.metadata.dst_node_id]
            message.content = RecordDict(
                {
                    self.arrayrecord_key: records[id(arrays)],
                    self.configrecord_key: ConfigRecord(config),
                }
            )
        return messages

    def _record(self, arrays: Arrays) -> ArrayRecord:
        """The arrays and the counters, in the order of the initial arrays, since some clients read
        them by position."""
        content = arrays | self._counters
        names = dict.fromkeys([*self._names, *content])
        return encode_arrays({name: content[name] for name in names if name in content})

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Check the replies, and aggregate the valid ones.

        Returns
        -------
        arrays : ArrayRecord or None
            The global model without personal arrays; if clients start from different parameters,
            those of client 0. None without replies.
        metrics : MetricRecord or None
            FedAvg's average; None if no client has examples.

        Raises
        ------
        AggregationError
            If fewer than `min_replies` are valid, or the result is not finite.
        """
        good: dict[int, tuple[Statistics, Arrays, RecordDict]] = {}
        reasons: list[str] = []
        for message in replies:
            node = message.metadata.src_node_id
            try:
                good[self._numbers.get(node, -1)] = self._checked(message)
            except MessageError as error:
                reasons.append(f"node {node}: {error}")
                log.warning("round %d: dropped the reply of %s", server_round, reasons[-1])
        if len(good) < min(self.min_replies, self._num_asked):
            raise AggregationError(
                f"round {server_round}: {len(good)} good replies of {self._num_asked}, needed are"
                f" {self.min_replies} (min_replies)."
                f" {'; '.join(reasons[:3]) or 'None came in time'}{self._protocol()}",
                key="too-few-replies",
            )
        if not good:
            return None, None
        updates = {number: good[number][0] for number in sorted(good)}
        weighted = updates
        if self.weights == "uniform":
            weighted = {
                number: replace(update, weight=min(update.weight, 1))
                for number, update in updates.items()
            }
        # Values that are not finite are reported below.
        with self._lacking(), np.errstate(over="ignore", invalid="ignore"):
            self.aggregation.aggregate(weighted)
        if reason := not_finite(self.aggregation.state()):
            raise AggregationError(
                f"round {server_round}: {reason} after the aggregation", key="not-finite"
            )
        if not any(update.weight for update in updates.values()):
            return self._record(self.aggregation.global_model()), None
        counters = {name: np.zeros(counter.shape) for name, counter in self._counters.items()}
        counted = [
            replace(update, arrays={name: good[number][1][name] for name in counters})
            for number, update in updates.items()
        ]
        for name, mean in split_average(counters, counted).items():
            self._counters[name] = np.rint(mean).astype(self._counters[name].dtype)
        contents = _common_metrics([good[number][2] for number in updates])
        metrics = self.train_metrics_aggr_fn(contents, self.weighted_by_key)
        return self._record(self.aggregation.global_model()), metrics

    def _checked(self, message: Message) -> tuple[Statistics, Arrays, RecordDict]:
        """The trained arrays of a reply, its counters, and its content.

        Raises
        ------
        MessageError
        """
        if message.has_error():
            raise MessageError(
                message.error.reason or f"error {message.error.code}", key="client-error"
            )
        if message.metadata.src_node_id not in self._numbers:
            raise MessageError("it was not asked", key="unknown-node")
        content = message.content
        records = [record for record in content.values() if isinstance(record, ArrayRecord)]
        metrics = [record for record in content.values() if isinstance(record, MetricRecord)]
        if len(records) != 1 or len(metrics) != 1:
            raise MessageError(
                f"it has {len(records)} ArrayRecords and {len(metrics)} MetricRecords; needed is"
                " one of each",
                key="records",
            )
        examples = _count(metrics[0], self.weighted_by_key)
        try:
            arrays = {name: array.numpy() for name, array in records[0].items()}
        except Exception as error:  # the error depends on how the bytes are damaged
            raise MessageError(
                f"an array cannot be read ({type(error).__name__})", key="unreadable-array"
            ) from None
        check_arrays(
            arrays,
            self.aggregation.expected_reply(self._numbers[message.metadata.src_node_id])
            | self._counters,
        )
        counters = {name: arrays.pop(name) for name in self._counters}
        # Only FedNova uses the number of steps.
        steps = _count(metrics[0], NUM_STEPS) if isinstance(self.aggregation, FedNovaServer) else 0
        return Statistics(arrays, examples, {"steps": steps}), counters, content

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Sample clients like FedAvg, and send each the parameters from which it would start the
        next round."""
        return self._addressed(list(super().configure_evaluate(server_round, arrays, config, grid)))

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Average the metrics like FedAvg, ordered by node."""
        return super().aggregate_evaluate(
            server_round, sorted(replies, key=lambda reply: reply.metadata.src_node_id)
        )

    def _protocol(self) -> str:
        """The protocol of the clients, in words, if it differs from that of an average."""
        received = self.aggregation.sent_to(0).keys()
        replied = self.aggregation.expected_reply(0).keys()
        if received | replied <= set(self._names):
            return ""
        return (
            f". {type(self.aggregation).__name__} works with clients that know its protocol: they"
            f" are sent {sorted(received)}, and reply with {sorted(replied)}"
        )

    @contextlib.contextmanager
    def _lacking(self) -> Iterator[None]:
        """Explain a missing array or client: some aggregations need the names of curvfed's models,
        or all clients."""
        try:
            yield
        except KeyError as error:
            raise ConfigError(
                f"this aggregation lacks {error}, an array or a client of the first round; the"
                f" shared arrays are {', '.join(self._names)}, the clients 0 to"
                f" {len(self._numbers) - 1}",
                key="missing-array",
            ) from None


def _common_metrics(contents: list[RecordDict]) -> list[RecordDict]:
    """The replies with the metrics that all have in the same form; others cannot be averaged."""
    records = [next(iter(content.metric_records.values())) for content in contents]
    common = {key for key, _ in set.intersection(*map(_forms, records))}
    left_out = sorted(set().union(*records) - common)
    if not left_out:
        return contents
    log.warning(
        "metrics that not all replies have in the same form are left out: %s", ", ".join(left_out)
    )
    return [RecordDict({"metrics": _selected(record, common)}) for record in records]


def _forms(record: MetricRecord) -> set[tuple[str, int]]:
    """The metrics of a reply, with the length of lists."""
    return {(key, len(value) if isinstance(value, list) else -1) for key, value in record.items()}


def _selected(record: MetricRecord, keys: Collection[str]) -> MetricRecord:
    return MetricRecord({key: value for key, value in record.items() if key in keys})


def _count(metrics: MetricRecord, key: str) -> int:
    value = metrics.get(key)
    if isinstance(value, int | float) and math.isfinite(value) and 0 <= value == int(value) < 2**53:
        return int(value)
    raise MessageError(
        f'the metric "{key}" is {value}; allowed is a whole number, 0 or more', key="metric"
    )
