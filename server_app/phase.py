"""One phase of a round: requests, checked replies, and the rows in the run directory."""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from flwr.serverapp import Grid

from curvfed.server_app.federation import Federation
from curvfed.server_app.personal_figures import Cohort, column, mean_std, personal_figures
from curvfed.strategies.base.figures import MEANS, check_sent
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.wire.checks import MessageError, check_arrays, one_line
from curvfed.strategies.wire.codec import EXACT, Precision, encode_arrays
from curvfed.strategies.wire.exchange import exchange
from curvfed.strategies.wire.messages import COMPLAINT, CONFUSION, Header, Parts, Reply, Request

log = logging.getLogger("curvfed")

Check = Callable[[Reply], None]
"""Refuses a bad reply with a MessageError."""

_MAX_REASONS = 20_000
"""Maximum length of a cell; Python's CSV reader accepts 131,072. `clients.csv` has every reason."""


@dataclass(frozen=True, eq=False)
class ClientRequest:
    """The content of a request to one client.

    Attributes
    ----------
    arrays : dict of str to array
        The shared parameters; an object that several clients share is encoded once.
    stamp : int
        The round of the personal state that the client must start from.
    fixed : dict of str to array
        The fixed parameters, for a client that does not have them.
    parts : mapping
        Further values of a protocol.
    template : dict of str to array, optional
        Names, shapes and dtypes of the arrays that the reply must have; by default none.
    """

    arrays: Arrays = field(default_factory=dict)
    stamp: int = 0
    fixed: Arrays = field(default_factory=dict)
    parts: Parts = field(default_factory=dict)
    template: Arrays = field(default_factory=dict)


@dataclass(frozen=True)
class Phase:
    """The result of a phase.

    Attributes
    ----------
    header : Header
    sent : mapping of partition to ClientRequest
    replies : dict of partition to Reply
        The valid replies, sorted by partition.
    reasons : dict of partition to str
        Why each missing reply was dropped.
    seconds : dict of partition to float
        From request to reply; NaN without a reply.
    precision : Precision
        The precision of the parameters on the wire; the arrays here have their full precision.
    cohort : mapping, optional
        The figures of the cohort after a secure sum, which hides single clients.
    complaints : dict of partition to mapping
        The parts of replies that complain instead of answering.
    """

    header: Header
    sent: Mapping[int, ClientRequest]
    replies: dict[int, Reply]
    reasons: dict[int, str]
    seconds: dict[int, float]
    precision: Precision = EXACT
    cohort: Cohort | None = None
    complaints: dict[int, Parts] = field(default_factory=dict)

    def bytes_down(self, partition: int) -> int:
        """Bytes of the arrays and parts of a request."""
        sent = self.sent[partition]
        return self.precision.size(sent.arrays) + EXACT.size(sent.fixed) + parts_size(sent.parts)

    def bytes_up(self, partition: int) -> int:
        """Bytes of the arrays and parts of a valid reply, without the confusion counts: a resumed
        run then has the bytes of an uninterrupted one."""
        reply = self.replies[partition]
        parts = {name: value for name, value in reply.parts.items() if name != CONFUSION}
        return self.precision.size(reply.arrays) + parts_size(parts)

    @property
    def scores(self) -> dict[int, Mapping[str, float]]:
        """The clients' metrics, by partition."""
        return {partition: reply.metrics for partition, reply in self.replies.items()}

    @property
    def failure_summary(self) -> str:
        """The first three reasons as text; "" for none."""
        return "; ".join(self._reason_texts[:3])

    @property
    def _reason_texts(self) -> list[str]:
        return [f"partition {partition}: {reason}" for partition, reason in self.reasons.items()]

    def row(self, federation: Federation) -> dict[str, Any]:
        """The phase's row in `rounds.csv`; bytes are means over the clients with valid replies."""
        scores = self.scores
        cohort = self.cohort
        figures = personal_figures(scores, federation.descriptions, cohort)
        figures.pop("metrics")  # figures of the whole run
        seconds, trained = (cohort or {}).get("seconds", (sum(column(scores, "seconds")), 1))
        return {
            "round": self.header.round,
            "phase": self.header.phase,
            **figures,
            **{name: mean_std(column(scores, name))[0] for name in MEANS},
            **{name: mean for name, (mean, _) in (cohort or {}).items() if name in MEANS},
            "replies": len(self.replies),
            "dropped": len(self.reasons),
            "bytes_up": sum(map(self.bytes_up, self.replies)) / max(len(self.replies), 1),
            "bytes_down": sum(map(self.bytes_down, self.replies)) / max(len(self.replies), 1),
            "seconds_training": seconds * trained,
            "reasons": one_line("; ".join(self._reason_texts), _MAX_REASONS),
        }

    def client_rows(self, weights: Mapping[int, float]) -> list[dict[str, Any]]:
        """One row in `clients.csv` per client that was sent a request; `weights` are those of the
        aggregation, if any."""
        rows = []
        for partition, seconds in sorted(self.seconds.items()):
            row: dict[str, Any] = {
                "round": self.header.round,
                "phase": self.header.phase,
                "partition": partition,
                "bytes_down": self.bytes_down(partition),
                "seconds": seconds,
                "dropped": self.reasons.get(partition, ""),
            }
            if partition in weights:
                row["weight"] = weights[partition]
            if reply := self.replies.get(partition):
                row |= {**reply.metrics, "bytes_up": self.bytes_up(partition)}
                if self.cohort is None:
                    row["num_examples"] = reply.num_examples
            rows.append(row)
        return rows


def run_phase(
    grid: Grid,
    federation: Federation,
    header: Header,
    requests: Mapping[int, ClientRequest],
    check: Check,
    *,
    timeout: float,
    on_reply: Callable[[int, int], None],
    precision: Precision,
) -> Phase:
    """Send requests to some clients and collect their replies.

    A reply is dropped, with the reason, if it is late, belongs to another phase, or has unexpected
    arrays or values that are not finite.

    Parameters
    ----------
    requests : mapping of partition to ClientRequest
    check : callable
        Raises `MessageError` for a well-formed reply that is impossible.
    precision : Precision
        The precision of the parameters in the messages.

    Raises
    ------
    MessageError
        If a parameter is too large for the precision.
    """
    # Clients that are sent the same object share its encoding.
    fixed = {id(request.fixed): request.fixed for request in requests.values()}
    sent = {id(request.arrays): request.arrays for request in requests.values()}
    records = {key: encode_arrays(arrays) for key, arrays in fixed.items()}
    records |= {key: encode_arrays(arrays, precision) for key, arrays in sent.items()}
    nodes = federation.nodes
    messages = {
        nodes[p]: Request(
            header,
            request.stamp,
            federation.facts,
            records[id(request.arrays)],
            records[id(request.fixed)],
            request.parts,
        )
        for p, request in requests.items()
    }
    received, failures, seconds = exchange(grid, messages, timeout, on_reply, precision)
    replies: dict[int, Reply] = {}
    reasons: dict[int, str] = {}
    complaints: dict[int, Parts] = {}
    rounding_errors: dict[int, Arrays] = {}
    for partition in sorted(requests):
        node = nodes[partition]
        if node in failures:
            reasons[partition] = failures[node]
            continue
        request = requests[partition]
        try:
            reply = received[node]
            if COMPLAINT in reply.parts:
                complaints[partition] = reply.parts
                raise MessageError("it complains about others' messages", key="complaint")
            _check(reply, partition, request)
            check(reply)
        except MessageError as error:
            reasons[partition] = str(error)
            continue
        # The model was rounded when it was sent. With the rounding errors added, the difference
        # from the exact model is the change that the client made.
        key = id(request.arrays)
        if reply.arrays and key not in rounding_errors:
            rounding_errors[key] = precision.lost(request.arrays)
        exact = dict(reply.arrays)
        for name, rounding_error in rounding_errors.get(key, {}).items():
            if name in exact:
                exact[name] = exact[name] + rounding_error
        replies[partition] = replace(reply, arrays=exact)
    for partition, reason in reasons.items():
        log.warning(
            "round %d: dropped the reply of partition %d: %s", header.round, partition, reason
        )
    response_seconds = {
        partition: seconds.get(nodes[partition], math.nan) for partition in requests
    }
    return Phase(
        header, requests, replies, reasons, response_seconds, precision, complaints=complaints
    )


def parts_size(parts: Parts) -> int:
    """Bytes of a protocol's further values; a number has eight."""
    size = 0
    for entry in parts.values():
        for value in entry if isinstance(entry, list) else [entry]:
            size += len(value) if isinstance(value, str | bytes) else 8
    return size


def _check(reply: Reply, partition: int, request: ClientRequest) -> None:
    if reply.partition != partition:
        raise MessageError(
            f"it has changed its partition-id to {reply.partition}", key="other-partition"
        )
    if reply.restored is not None and not 0 <= reply.restored < request.stamp:
        raise MessageError(
            f"it started from a state of round {reply.restored}; the request names round"
            f" {request.stamp}",
            key="other-state",
        )
    check_arrays(reply.arrays, request.template)
    check_sent(reply.metrics)
