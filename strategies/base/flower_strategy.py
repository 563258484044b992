"""Flower's strategies as aggregations: robust averages, and optimisers at the server (FedOpt)."""

import gc
import logging
from contextlib import ExitStack
from typing import Any, cast

import numpy as np
from flwr.app import ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid, strategy

from curvfed.strategies.base.aggregation import AggregationError, Average, Replies, split_average
from curvfed.strategies.base.shared_tables import FLOWER, NEED_ONLY_MEAN
from curvfed.strategies.base.statistics import Arrays, Statistics, is_buffer, split_prefix
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.codec import encode_arrays

STORED = "flower/"
"""Prefix of the arrays among a strategy's attributes, followed by "mapping/attribute/parameter" or
"list/attribute/index"."""

STEPS = STORED + "steps"
"""The number of rounds that the strategy has aggregated."""

_LOGGER = logging.getLogger("flwr")

# attribute with the parameters that `configure_train` receives in every round
_RECEIVED = "current_arrays"


class FlowerStrategy(Average):
    """Aggregation of the trained parameters by a strategy of `flwr.serverapp.strategy`.

    The strategy gets the parameters that the round started from (`configure_train`), and the
    replies in the order of the partitions as messages with the records of Flower's own clients: the
    arrays, and metrics with `num-examples` and `train_loss`, the mean loss of the client's last
    pass, which QFedAvg uses. A strategy that uses only the mean gets the average, computed in
    float64, as a single reply. FedAdam is exactly Flower's: the bias correction of its learning
    rate counts one round too many. FedAvgM with momentum 0 and learning rate 1 is the average.

    Running statistics are averaged by examples. Replies of clients without examples are left out; a
    round with only such replies is not counted. Parameters keep their dtypes.
    """

    def begin(self, arrays: Arrays) -> None:
        """Make the strategy."""
        super().begin(arrays)
        self._name, settings = self.choice()
        self._steps = 0
        self._flower: strategy.FedAvg = getattr(strategy, self._name.removeprefix("flower:"))(
            **settings
        )
        # `configure_train` then stores the parameters and selects no node
        self._flower.fraction_train = 0.0

    def choice(self) -> tuple[str, dict[str, Any]]:
        """The name of the strategy, one of `FLOWER`, and the arguments of its class: here by the
        key `aggregation` and the keys `flower`."""
        name = str(self.config.aggregation)
        arguments = FLOWER[name]
        settings = {
            argument: value
            for argument, value in self.keys
            if argument in arguments and value is not None
        }
        if "client_learning_rate" in arguments:  # without a default in Flower
            settings.setdefault("client_learning_rate", self.config.learning_rate)
        return name, settings

    def aggregate(self, replies: Replies) -> None:
        """Let the strategy compute the next parameters.

        Raises
        ------
        AggregationError
            If the strategy returns no parameters, as Bulyan does with too few replies, or for the
            reasons of `Average`.
        """
        averaged = split_average(self._arrays, list(replies.values()))
        with_examples = {
            partition: update for partition, update in replies.items() if update.weight
        }
        if with_examples:
            self._steps += 1
            averaged |= self._step(
                {0: Statistics(averaged, 1)} if self._name in NEED_ONLY_MEAN else with_examples
            )
        self._arrays = averaged

    def _step(self, replies: Replies) -> Arrays:
        # Sorted: parameters from a checkpoint have another order, and FedAvgM stores its momentum
        # by position.
        start = {name: self._arrays[name] for name in sorted(self._arrays) if not is_buffer(name)}
        messages = [_message(partition, update, start) for partition, update in replies.items()]
        with ExitStack() as stack:
            # For a strategy that gets only the average, Flower's log line reports one result.
            stack.callback(_LOGGER.removeFilter, _is_warning)
            _LOGGER.addFilter(_is_warning)
            # Some strategies run the garbage collector for each reply, which takes .4 s for torch's
            # objects.
            stack.callback(gc.unfreeze)
            gc.freeze()
            self._flower.configure_train(
                self._steps, encode_arrays(start), ConfigRecord(), cast(Grid, None)
            )
            record, _ = self._flower.aggregate_train(self._steps, messages)
        if record is None:
            raise AggregationError(
                f"{self._name} returns no model for {len(messages)} replies; its own log says why",
                key="no-model",
            )
        # Flower's bias correction makes float64 of float32.
        return {
            name: np.asarray(array.numpy(), start[name].dtype, order="C")
            for name, array in record.items()
        }

    def state(self) -> Arrays:
        """The parameters, and all mappings and lists of arrays among the strategy's attributes."""
        arrays = super().state() | {STEPS: np.array(self._steps)}
        for attribute, value in vars(self._flower).items():
            if isinstance(value, dict) and attribute != _RECEIVED:
                arrays |= {
                    f"{STORED}mapping/{attribute}/{name}": np.asarray(array)
                    for name, array in value.items()
                }
            elif isinstance(value, list):
                arrays |= {
                    f"{STORED}list/{attribute}/{place}": np.asarray(array)
                    for place, array in enumerate(value)
                }
        return arrays

    def load(self, state: Arrays) -> None:
        """Continue from stored parameters and attributes of the strategy.

        Raises
        ------
        ConfigError
            If the state comes from another aggregation.
        """
        if STEPS not in state:
            raise ConfigError(
                f"resume = true: the checkpoint has no {STEPS}, so {self._name} cannot continue"
                " from it; start a new run with another run-name",
                key="checkpoint",
            )
        model, attributes = split_prefix(state, STORED)
        super().load(model)
        self._steps = int(attributes.pop("steps"))
        stored: dict[tuple[str, str], Arrays] = {}
        for name, array in attributes.items():
            kind, attribute, item = name.split("/", 2)
            stored.setdefault((kind, attribute), {})[item] = array
        for (kind, attribute), items in stored.items():
            in_place = (
                [items[str(place)] for place in range(len(items))] if kind == "list" else items
            )
            setattr(self._flower, attribute, in_place)


def _message(partition: int, update: Statistics, names: Arrays) -> Message:
    """A client's reply to a train message, with the partition as its node's id."""
    metrics = MetricRecord({"num-examples": update.weight, "train_loss": update.loss})
    arrays = encode_arrays({name: update.arrays[name] for name in names})
    content = RecordDict({"arrays": arrays, "metrics": metrics})
    return Message(content, reply_to=Message(RecordDict(), partition, MessageType.TRAIN))


def _is_warning(record: logging.LogRecord) -> bool:
    return record.levelno > logging.INFO
