"""An optimiser at the server (FedOpt, Reddi et al., ICLR 2021; FedAvgM, Hsu et al., 2019): Flower's own, beneath."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdam, FedAvgM, FedYogi

from curvfed.strategies.aggregation import Average, Replies
from curvfed.strategies.arrays import decode_arrays, encode_arrays
from curvfed.strategies.deviations import is_buffer
from curvfed.strategies.split import Arrays, split_average

FIRST, SECOND, ROUNDS = "server-optimizer/first/", "server-optimizer/second/", "server-optimizer/rounds"
"""Names in the state: the moments, or the momentum, by parameter, and the number of steps."""


class ServerOptimizer(Average):
    """The step from the parameters to their clients' average is a gradient, which Flower's optimiser takes.

    FedAdam, FedYogi and FedAvgM of `flwr.serverapp.strategy` get the average, made here in float64, as if it were the one
    reply of the round, and return the next parameters. FedAdam is Flower's to the letter: its learning rate is corrected
    for the bias of the moments with one round more than there were. FedAvgM with momentum 0 and learning rate 1 is the
    average.

    Buffers are averaged by examples. A round in which nobody has examples is no step.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from.
    kind : str
        "adam", "yogi" or "avgm".
    learning_rate : float
        The server's.
    beta1 : float
        In [0, 1); the momentum of "avgm".
    beta2, tau : float
        Of "adam" and "yogi": decay of the second moment, and what is added to its root.
    """

    def __init__(
        self,
        arrays: Arrays,
        kind: Literal["adam", "yogi", "avgm"],
        learning_rate: float,
        beta1: float,
        beta2: float,
        tau: float,
    ) -> None:
        super().__init__(arrays)
        self._flower: FedAdam | FedYogi | FedAvgM
        if kind == "avgm":
            self._flower = FedAvgM(server_learning_rate=learning_rate, server_momentum=beta1)
        else:
            adaptive: type[FedAdam | FedYogi] = FedAdam if kind == "adam" else FedYogi
            self._flower = adaptive(eta=learning_rate, beta_1=beta1, beta_2=beta2, tau=tau)
        self._rounds = 0

    @property
    def _trained(self) -> list[str]:
        return [name for name in self._arrays if not is_buffer(name)]

    def aggregate(self, replies: Replies) -> None:
        """Average, and take a step towards it."""
        averaged = split_average(self._arrays, list(replies.values()))
        if any(update.examples for update in replies.values()):
            self._rounds += 1
            averaged |= self._step({name: averaged[name] for name in self._trained})
        self._arrays = averaged

    def _step(self, averaged: Arrays) -> Arrays:
        start = {name: self._arrays[name] for name in averaged}
        flower = self._flower
        if isinstance(flower, FedAvgM):
            flower.current_arrays = encode_arrays(start)
        else:
            flower.current_arrays = dict(start)
        reply = _Reply(RecordDict({"arrays": encode_arrays(averaged), "metrics": MetricRecord({"num-examples": 1})}))
        with _quiet():
            record, _ = flower.aggregate_train(self._rounds, [cast(Message, reply)])
        assert record is not None  # there is a reply
        # Flower's bias correction makes float64 of float32.
        return {name: array.astype(start[name].dtype) for name, array in decode_arrays(record).items()}

    def state(self) -> Arrays:
        """The parameters, and what the optimiser remembers."""
        flower, found = self._flower, super().state() | {ROUNDS: np.array(self._rounds)}
        if isinstance(flower, FedAvgM):
            first, second = dict(zip(self._trained, flower.momentum_vector or [])), None
        else:
            first, second = flower.m_t or {}, flower.v_t
        found |= {FIRST + name: np.asarray(array) for name, array in first.items()}
        found |= {SECOND + name: np.asarray(array) for name, array in (second or {}).items()}
        return found

    def load(self, state: Arrays) -> None:
        """Go on from stored parameters and moments."""
        own = {name: array for name, array in state.items() if not name.startswith((FIRST, SECOND, ROUNDS))}
        super().load(own)
        self._rounds = int(state[ROUNDS])
        first, second = ({name: state[kind + name] for name in own if kind + name in state} for kind in (FIRST, SECOND))
        if isinstance(self._flower, FedAvgM):
            self._flower.momentum_vector = [first[name] for name in self._trained] if first else None
        else:
            self._flower.m_t, self._flower.v_t = first, second


@dataclass(frozen=True)
class _Reply:
    """All that Flower's strategies look at in a good reply; a Message could be made inside a running task alone."""

    content: RecordDict

    def has_error(self) -> bool:
        return False


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Flower's line per call, which would tell of one result where many clients replied."""
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
