"""Updates that are far longer than the others' of a round: notes, and the key `update-bound`."""

import math

import numpy as np

from curvfed.geometry.arrays import memory_order
from curvfed.server_app.callbacks import Callback
from curvfed.strategies.base.aggregation import Aggregation, Replies
from curvfed.strategies.base.statistics import is_buffer
from curvfed.strategies.run_log import log

LONG = 5.0
"""An update of more than this many medians of the round's lengths is a warning."""

LONGEST = 1e300
"""Stored for an infinite length, which JSON lacks."""

FEWEST = 3
"""Minimum number of updates that are compared: of two, none is longer than usual."""

_BLOCK = 65_536  # entries whose squares are added in the arrays' dtype

ADVICE = (
    "such an update can ruin the model; a robust aggregation or a smaller update-bound limits it"
)


class LongUpdates(Callback):
    """Leaves updates beyond `update-bound` out of a round, and records each client's long ones in
    the state of the run."""

    def contributions(self, number: int, replies: Replies) -> Replies:
        """The updates within the bound."""
        model = self.run.model
        bound = model.config.update_bound
        if bound is None:
            bound = model.bound
        lengths = update_lengths(model, replies)
        for partition, length in lengths.items():
            if length > LONG:
                self._note(number, partition, length, is_left_out=0 < bound < length)
        if not bound:
            return replies
        return {p: update for p, update in replies.items() if lengths.get(p, 0.0) <= bound}

    def _note(self, number: int, partition: int, length: float, is_left_out: bool) -> None:
        """Record a long update, and log a client's first."""
        record = self.run.state.long_updates.setdefault(partition, {"rounds": 0, "length": 0.0})
        if not record["rounds"]:
            log.warning(
                "round %d: the update of client %d is %.3g times as long as the median: %s",
                number,
                partition,
                length,
                "it is left out" if is_left_out else ADVICE,
            )
        record["rounds"] += 1
        record["length"] = max(record["length"], min(length, LONGEST))


def update_lengths(model: Aggregation, replies: Replies) -> dict[int, float]:
    """Length of each client's update, divided by the median over the clients that moved.

    The lengths of the trained arrays, of the running statistics and of further arrays, such as
    changes of SCAFFOLD's variates, are compared separately; the largest quotient counts. Further
    arrays, and those that the client was not sent, count as they are.

    Returns
    -------
    dict of int to float
        By partition; infinite if a square exceeds the dtype. Empty with fewer than `FEWEST` updates
        that moved.
    """
    if len(replies) < FEWEST:
        return {}
    lengths = {}
    for partition, update in replies.items():
        start = model.sent_to(partition)
        squares = np.zeros(3)
        for name, array in model.compared(update.arrays).items():
            is_further = "/" in name
            order = memory_order(array)
            values = array.ravel(order=order)
            origin = None
            if not is_further and name in start:
                origin = start[name].ravel(order=order)
            square = 0.0
            for begin in range(0, values.size, _BLOCK):
                block = values[begin : begin + _BLOCK]
                if origin is not None:
                    block = block - origin[begin : begin + _BLOCK]
                square += float(np.dot(block, block))
            squares[2 if is_further else int(is_buffer(name))] += square
        lengths[partition] = np.sqrt(squares)
    table = np.array(list(lengths.values()))
    if (table.max(axis=1, initial=0) > 0).sum() < FEWEST:
        return {}
    medians = [np.median(column[column > 0]) if column.any() else math.inf for column in table.T]
    return {partition: float((row / medians).max()) for partition, row in lengths.items()}
