"""One phase of one round: send, collect, check, and its rows in the run directory."""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flwr.app import ArrayRecord
from flwr.serverapp import Grid
from numpy.typing import NDArray

from server_app.figures import column, mean_std, personal_figures
from server_app.meeting import Federation
from strategies.arrays import MessageError, check_arrays, encode_arrays
from strategies.checks import check_metrics
from strategies.cohort import exchange
from strategies.messages import TRAIN, Header, Reply, Request
from strategies.split import Arrays

log = logging.getLogger("curvfed")

CLIENT_FIGURES = frozenset(
    {"test", "val", "accuracy", "test_before", "val_before", "accuracy_before", "loss", "curvature", "seconds", "steps"}
)
"""What of a client's metrics goes into `clients.csv`; "seconds" is then its own time, without the way there and back."""


@dataclass(frozen=True)
class Phase:
    """What came of a phase.

    Attributes
    ----------
    header : Header
    sent : mapping of partition to the parameters sent
    replies : dict of partition to Reply
        The good ones, sorted by partition.
    reasons : dict of partition to str
        Why each other reply was dropped.
    seconds : dict of partition to float
        From sending to answer; NaN where none came.
    """

    header: Header
    sent: Mapping[int, Arrays]
    replies: dict[int, Reply]
    reasons: dict[int, str]
    seconds: dict[int, float]

    @property
    def scores(self) -> dict[int, Mapping[str, float]]:
        """What the clients measured."""
        return {partition: reply.metrics for partition, reply in self.replies.items()}

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
            "bytes_up": sum(size(reply.arrays) for reply in self.replies.values()) / max(len(self.replies), 1),
            "bytes_down": sum(size(self.sent[p]) for p in self.replies) / max(len(self.replies), 1),
            "seconds_training": sum(column(scores, "seconds")),
            "reasons": "; ".join(f"partition {partition}: {reason}" for partition, reason in self.reasons.items()),
        }

    def client_rows(self, weights: Mapping[int, float]) -> list[dict[str, Any]]:
        """One row per client that was asked, for `clients.csv`; `weights` of those that have one in the aggregation."""
        rows = []
        for partition, seconds in sorted(self.seconds.items()):
            row: dict[str, Any] = {
                "round": self.header.round,
                "phase": self.header.phase,
                "partition": partition,
                "bytes_down": size(self.sent[partition]),
                "seconds": seconds,
                "dropped": self.reasons.get(partition, ""),
            }
            if partition in weights:
                row["weight"] = weights[partition]
            if reply := self.replies.get(partition):
                row |= {name: value for name, value in reply.metrics.items() if name in CLIENT_FIGURES}
                row |= {"num_examples": reply.num_examples, "bytes_up": size(reply.arrays)}
            rows.append(row)
        return rows


def run_phase(
    grid: Grid,
    federation: Federation,
    header: Header,
    stamps: Mapping[int, int],
    arrays: Mapping[int, Arrays],
    timeout: float,
    fixed: Mapping[int, Arrays],
    awaited: Arrays | None = None,
    check: Callable[[Reply], None] | None = None,
    on_reply: Callable[[int, int], None] | None = None,
) -> Phase:
    """Send the shared parameters to some clients and collect their replies.

    A reply that is late, belongs elsewhere, carries other arrays than those awaited or a value that is not finite is
    dropped with its reason.

    Parameters
    ----------
    stamps : mapping of partition to round
        Whom to ask, and the personal state that each is to start from.
    arrays : mapping of partition to arrays
        What each is sent; arrays that are one object for many clients are encoded once.
    fixed : mapping of partition to arrays
        The fixed parameters, for those clients that have not got them.
    awaited : mapping of str to array, optional
        Names, shapes and dtypes of the arrays in a reply; without it in phase train those sent, else none.
    check : callable, optional
        Raises `MessageError` for a reply that is well formed and yet cannot be.
    """
    every = {id(one): one for one in (*arrays.values(), *fixed.values())}
    records = {key: encode_arrays(one) for key, one in every.items()}
    nodes = federation.nodes
    requests = {
        nodes[p]: Request(
            header,
            stamp,
            federation.facts,
            records[id(arrays[p])],
            records[id(fixed[p])] if p in fixed else ArrayRecord(),
        )
        for p, stamp in stamps.items()
    }
    arrived, failures, took = exchange(grid, requests, timeout, on_reply)
    replies: dict[int, Reply] = {}
    reasons: dict[int, str] = {}
    for partition in sorted(stamps):
        node = nodes[partition]
        if node in failures:
            reasons[partition] = failures[node]
            continue
        try:
            expected = awaited if awaited is not None else arrays[partition] if header.phase == TRAIN else {}
            _check(arrived[node], partition, expected)
            if check is not None:
                check(arrived[node])
        except MessageError as error:
            reasons[partition] = str(error)
        else:
            replies[partition] = arrived[node]
    for partition, reason in reasons.items():
        log.warning("round %d: dropped the reply of partition %d: %s", header.round, partition, reason)
    sent = {p: {**arrays[p], **fixed.get(p, {})} for p in stamps}
    return Phase(header, sent, replies, reasons, {p: took.get(nodes[p], math.nan) for p in stamps})


def size(arrays: Mapping[str, NDArray[Any]]) -> int:
    """Bytes of the parameters in a message, without their wrapping."""
    return sum(array.nbytes for array in arrays.values())


def _check(reply: Reply, partition: int, awaited: Arrays) -> None:
    if reply.partition != partition:
        raise MessageError(f"it now says that it is partition-id {reply.partition}")
    check_arrays(reply.arrays, awaited)
    check_metrics(reply.metrics, CLIENT_FIGURES)
