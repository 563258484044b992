"""One phase of one round: send, collect, check, and its rows in the run directory."""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flwr.app import ArrayRecord
from flwr.serverapp import Grid
from numpy.typing import NDArray

from curvfed.server_app.federation import Federation
from curvfed.server_app.personal_figures import column, mean_std, personal_figures
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.wire.arrays import MessageError, check_arrays, encode_arrays, one_line
from curvfed.strategies.wire.checks import check_metrics
from curvfed.strategies.wire.exchange import exchange
from curvfed.strategies.wire.messages import Header, Parts, Reply, Request

log = logging.getLogger("curvfed")

CLIENT_FIGURES = frozenset(
    {"test", "val", "accuracy", "test_before", "val_before", "accuracy_before", "loss", "curvature", "seconds", "steps",
     "clipped", "points", "revealed", "vertices", "moved", "thinned"}
)  # fmt: skip
"""What of a client's metrics goes into `clients.csv`; "seconds" is then its own time, without the way there and back."""


_MOST_REASONS = 20_000
"""Characters of a cell; Python's reader of CSV files takes 131,072. `clients.csv` has each reason by itself."""


@dataclass(frozen=True, eq=False)
class ClientRequest:
    """What one client is sent in a phase.

    Attributes
    ----------
    arrays : dict of str to array
        The shared parameters; one object for many clients is encoded once.
    stamp : int
        The round of the personal state that the client is to start from.
    fixed : dict of str to array
        The fixed parameters, for a client that has not got them.
    parts : mapping
        What a protocol sends besides.
    awaited : dict of str to array, optional
        Names, shapes and dtypes of the arrays in the reply; none, if left out.
    """

    arrays: Arrays = field(default_factory=dict)
    stamp: int = 0
    fixed: Arrays = field(default_factory=dict)
    parts: Parts = field(default_factory=dict)
    awaited: Arrays = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes, without their wrapping."""
        return size(self.arrays) + size(self.fixed) + parts_size(self.parts)


@dataclass(frozen=True)
class Phase:
    """What came of a phase.

    Attributes
    ----------
    header : Header
    sent : mapping of partition to ClientRequest
    replies : dict of partition to Reply
        The good ones, sorted by partition.
    reasons : dict of partition to str
        Why each other reply was dropped.
    seconds : dict of partition to float
        From sending to answer; NaN where none came.
    """

    header: Header
    sent: Mapping[int, ClientRequest]
    replies: dict[int, Reply]
    reasons: dict[int, str]
    seconds: dict[int, float]

    @property
    def scores(self) -> dict[int, Mapping[str, float]]:
        """What the clients measured."""
        return {partition: reply.metrics for partition, reply in self.replies.items()}

    @property
    def failure_summary(self) -> str:
        """Three of the reasons in words; "" for none."""
        return "; ".join([f"partition {partition}: {reason}" for partition, reason in self.reasons.items()][:3])

    def without(self, reasons: Mapping[int, str]) -> "Phase":
        """The phase with these replies dropped too."""
        for partition, reason in reasons.items():
            log.warning("%s: dropped the reply of partition %d: %s", self.header.phase, partition, reason)
        good = {partition: reply for partition, reply in self.replies.items() if partition not in reasons}
        return replace(self, replies=good, reasons=self.reasons | dict(reasons))

    def row(self, federation: Federation) -> dict[str, Any]:
        """The phase's row in `rounds.csv`; bytes are means per client that answered."""
        scores = self.scores
        figures = personal_figures(scores, federation.descriptions)
        return {
            "round": self.header.round,
            "phase": self.header.phase,
            "personal_accuracy_mean": figures["personal_accuracy_mean"],
            "personal_accuracy_std": figures["personal_accuracy_std"],
            "score": mean_std(column(scores, "test"))[0],
            "score_before": mean_std(column(scores, "test_before"))[0],
            "validation": mean_std(column(scores, "val"))[0],
            "loss": mean_std(column(scores, "loss"))[0],
            "replies": len(self.replies),
            "dropped": len(self.reasons),
            "bytes_up": sum(map(reply_size, self.replies.values())) / max(len(self.replies), 1),
            "bytes_down": sum(self.sent[p].size for p in self.replies) / max(len(self.replies), 1),
            "seconds_training": sum(column(scores, "seconds")),
            "reasons": one_line(
                "; ".join(f"partition {partition}: {reason}" for partition, reason in self.reasons.items()),
                _MOST_REASONS,
            ),
        }

    def client_rows(self, weights: Mapping[int, float]) -> list[dict[str, Any]]:
        """One row per client that was asked, for `clients.csv`; `weights` of those that have one in the aggregation."""
        rows = []
        for partition, seconds in sorted(self.seconds.items()):
            row: dict[str, Any] = {
                "round": self.header.round,
                "phase": self.header.phase,
                "partition": partition,
                "bytes_down": self.sent[partition].size,
                "seconds": seconds,
                "dropped": self.reasons.get(partition, ""),
            }
            if partition in weights:
                row["weight"] = weights[partition]
            if reply := self.replies.get(partition):
                row |= {name: value for name, value in reply.metrics.items() if name in CLIENT_FIGURES}
                row |= {"num_examples": reply.num_examples, "bytes_up": reply_size(reply)}
            rows.append(row)
        return rows


def run_phase(
    grid: Grid,
    federation: Federation,
    header: Header,
    letters: Mapping[int, ClientRequest],
    timeout: float,
    check: Callable[[Reply], None] | None = None,
    on_reply: Callable[[int, int], None] | None = None,
) -> Phase:
    """Send letters to some clients and collect their replies.

    A reply that is late, belongs elsewhere, carries other arrays than those awaited or a value that is not finite is
    dropped with its reason.

    Parameters
    ----------
    letters : mapping of partition to ClientRequest
    check : callable, optional
        Raises `MessageError` for a reply that is well formed and yet cannot be.
    """
    every = {id(one): one for letter in letters.values() for one in (letter.arrays, letter.fixed)}
    records = {key: encode_arrays(one) if one else ArrayRecord() for key, one in every.items()}
    nodes = federation.nodes
    requests = {
        nodes[p]: Request(
            header,
            letter.stamp,
            federation.facts,
            records[id(letter.arrays)],
            records[id(letter.fixed)],
            letter.parts,
        )
        for p, letter in letters.items()
    }
    arrived, failures, took = exchange(grid, requests, timeout, on_reply)
    replies: dict[int, Reply] = {}
    reasons: dict[int, str] = {}
    for partition in sorted(letters):
        node = nodes[partition]
        if node in failures:
            reasons[partition] = failures[node]
            continue
        try:
            _check(arrived[node], partition, letters[partition].awaited)
            if check is not None:
                check(arrived[node])
        except MessageError as error:
            reasons[partition] = str(error)
        else:
            replies[partition] = arrived[node]
    for partition, reason in reasons.items():
        log.warning("round %d: dropped the reply of partition %d: %s", header.round, partition, reason)
    return Phase(header, letters, replies, reasons, {p: took.get(nodes[p], math.nan) for p in letters})


def size(arrays: Mapping[str, NDArray[Any]]) -> int:
    """Bytes of the parameters in a message, without their wrapping."""
    return sum(array.nbytes for array in arrays.values())


def parts_size(parts: Parts) -> int:
    """Bytes of what a protocol sends besides, numbers as eight."""
    values = [one for value in parts.values() for one in (value if isinstance(value, list) else [value])]
    return sum(len(one) if isinstance(one, str | bytes) else 8 for one in values)


def reply_size(reply: Reply) -> int:
    """Bytes of the arrays and parts of a reply."""
    return size(reply.arrays) + parts_size(reply.parts)


def _check(reply: Reply, partition: int, awaited: Arrays) -> None:
    if reply.partition != partition:
        raise MessageError(f"it now says that it is partition-id {reply.partition}")
    check_arrays(reply.arrays, awaited)
    check_metrics(reply.metrics, CLIENT_FIGURES)
