"""Flower's own strategies as the server's half: robust averages, and optimisers at the server (FedOpt)."""

import gc
import logging
from collections.abc import Mapping
from contextlib import ExitStack
from typing import cast

import numpy as np
from flwr.app import ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid, strategy

from curvfed.strategies.base.aggregation import Average, Replies, Update
from curvfed.strategies.base.average import AggregationError, Arrays, split_average
from curvfed.strategies.base.deviations import is_buffer
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.flower_keys import NEED_ONLY_MEAN
from curvfed.strategies.wire.arrays import encode_arrays

HELD = "flower/"
"""What the names of all that a strategy remembers begin with, before "mapping/attribute/parameter" or
"list/attribute/place"."""

STEPS = HELD + "steps"
"""The number of rounds that the strategy has aggregated."""

_LOGGER = logging.getLogger("flwr")

_GIVEN = "current_arrays"  # what strategies call the parameters that `configure_train` tells them in every round


class FlowerStrategy(Average):
    """What a strategy of `flwr.serverapp.strategy` makes of the trained parameters in the replies.

    The strategy is told the parameters that the round started from (`configure_train`), and gets the replies in the order
    of the partitions as messages with the records that Flower's own clients send: the arrays, and metrics with
    `num-examples` and `train_loss`, the mean loss of the client's last pass, which QFedAvg asks for. A strategy that needs
    nothing but the mean gets the one average as one reply, made in float64. FedAdam is Flower's to the letter: its learning
    rate is corrected for the bias of the moments with one round more than there were. FedAvgM with momentum 0 and learning
    rate 1 is the average.

    Buffers are averaged by examples. A client without examples has learnt nothing, and its reply is left out; a round of
    such alone is no step. Parameters keep their dtypes.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from.
    name : str
        One of `curvfed.strategies.base.flower_keys.FLOWER`.
    settings : mapping
        Arguments of the strategy's class.
    """

    def __init__(self, arrays: Arrays, name: str, settings: Mapping[str, float | str]) -> None:
        super().__init__(arrays)
        self._name, self._steps = name, 0
        self._flower: strategy.FedAvg = getattr(strategy, name.removeprefix("flower:"))(**settings)
        self._flower.fraction_train = 0.0  # `configure_train` then takes note of the parameters, and asks no node

    def aggregate(self, replies: Replies) -> None:
        """Let the strategy make the next parameters of these.

        Raises
        ------
        AggregationError
            If it makes none, as Bulyan of too few replies, or as `Average`.
        """
        averaged = split_average(self._arrays, list(replies.values()))
        taking = {partition: update for partition, update in replies.items() if update.examples}
        if taking:
            self._steps += 1
            averaged |= self._step({0: Update(1, averaged)} if self._name in NEED_ONLY_MEAN else taking)
        self._arrays = averaged

    def _step(self, replies: Replies) -> Arrays:
        # By name: parameters from a checkpoint have another order, and FedAvgM keeps its momentum by place.
        start = {name: self._arrays[name] for name in sorted(self._arrays) if not is_buffer(name)}
        messages = [_message(partition, update, start) for partition, update in replies.items()]
        with ExitStack() as stack:
            # Flower's line for each call would count one result where the average is all that a strategy gets.
            stack.callback(_LOGGER.removeFilter, _is_warning)
            _LOGGER.addFilter(_is_warning)
            # Some strategies have Python collect its garbage for each reply, .4 s of which are torch's own objects.
            stack.callback(gc.unfreeze)
            gc.freeze()
            self._flower.configure_train(self._steps, encode_arrays(start), ConfigRecord(), cast(Grid, None))
            record, _ = self._flower.aggregate_train(self._steps, messages)
        if record is None:
            raise AggregationError(f"{self._name} makes no model of {len(messages)} replies; its own log says why")
        # Flower's bias correction makes float64 of float32.
        return {name: np.asarray(array.numpy(), start[name].dtype, order="C") for name, array in record.items()}

    def state(self) -> Arrays:
        """The parameters, and every mapping and list of arrays among the strategy's attributes."""
        found = super().state() | {STEPS: np.array(self._steps)}
        for attribute, value in vars(self._flower).items():
            if isinstance(value, dict) and attribute != _GIVEN:
                found |= {f"{HELD}mapping/{attribute}/{name}": np.asarray(array) for name, array in value.items()}
            elif isinstance(value, list):
                found |= {f"{HELD}list/{attribute}/{place}": np.asarray(array) for place, array in enumerate(value)}
        return found

    def load(self, state: Arrays) -> None:
        """Go on from stored parameters, and from what the strategy remembered.

        Raises
        ------
        ConfigError
            If another aggregation made the state, or an earlier version of this one.
        """
        if STEPS not in state:
            raise ConfigError(
                f"resume = true: the checkpoint has no {STEPS}, so {self._name} cannot go on from it; begin anew with "
                "another run-name"
            )
        super().load({name: array for name, array in state.items() if not name.startswith(HELD)})
        self._steps = int(state[STEPS])
        held: dict[tuple[str, str], Arrays] = {}
        for name, array in state.items():
            if name.startswith(HELD) and name != STEPS:
                kind, attribute, item = name.removeprefix(HELD).split("/", 2)
                held.setdefault((kind, attribute), {})[item] = array
        for (kind, attribute), items in held.items():
            in_place = [items[str(place)] for place in range(len(items))] if kind == "list" else items
            setattr(self._flower, attribute, in_place)


def _message(partition: int, update: Update, names: Arrays) -> Message:
    """A client's reply, from a node of the partition's number, to a message that asked it to train."""
    metrics = MetricRecord({"num-examples": update.examples, "train_loss": update.loss})
    content = RecordDict({"arrays": encode_arrays({name: update.arrays[name] for name in names}), "metrics": metrics})
    return Message(content, reply_to=Message(RecordDict(), partition, MessageType.TRAIN))


def _is_warning(record: logging.LogRecord) -> bool:
    return record.levelno > logging.INFO
