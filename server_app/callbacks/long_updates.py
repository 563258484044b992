"""Updates that are far longer than the others' of a round: notes, and the key `update-bound`."""

from curvfed.server_app.callbacks import Callback
from curvfed.strategies.base.aggregation import Replies
from curvfed.strategies.base.deviations import update_bound, update_lengths, within_bound
from curvfed.strategies.run_log import log

LONG = 5.0
"""An update of more than this many medians of the round's lengths is a warning."""

LONGEST = 1e300
"""Stored for an infinite length, which JSON lacks."""

ADVICE = (
    "such an update can ruin the model; a robust aggregation or a smaller update-bound limits it"
)


class LongUpdates(Callback):
    """Leaves updates beyond `update-bound` out of a round, and records each client's long ones in
    the state of the run."""

    def contributions(self, number: int, replies: Replies) -> Replies:
        """The updates within the bound."""
        model = self.run.model
        bound = update_bound(model)
        lengths = update_lengths(model, replies)
        for partition, length in lengths.items():
            if length > LONG:
                self._note(number, partition, length, is_left_out=0 < bound < length)
        return within_bound(replies, lengths, bound)

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
