"""What clients answered: their valid replies, why others were dropped, and the rows in the run
directory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from curvfed.server_app.federation import Federation
from curvfed.server_app.personal_figures import CohortMeans, column, mean_std, personal_figures
from curvfed.strategies.base.figures import MEANS
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.wire.checks import one_line
from curvfed.strategies.wire.messages import Header, Parts, Reply

_MAX_REASONS = 20_000
"""Maximum length of a cell; Python's CSV reader accepts 131,072. `clients.csv` has every reason."""


@dataclass(frozen=True)
class Answer:
    """What some clients answered in a phase.

    Attributes
    ----------
    header : Header
    replies : dict of partition to Reply
        The valid replies, sorted by partition.
    reasons : dict of partition to str
        Why each missing reply was dropped.
    seconds : dict of partition to float
        From request to reply, of each client asked; NaN without a reply.
    bytes_down, bytes_up : dict of partition to int
        Bytes of the arrays and parts of each request, and of each valid reply.
    complaints : dict of partition to mapping
        The parts of replies that complain instead of answering.
    cohort : mapping, optional
        The figures of the cohort after a secure sum, which hides single clients.
    total : Statistics, optional
        The sum of a secure sum.
    """

    header: Header
    replies: dict[int, Reply]
    reasons: dict[int, str]
    seconds: dict[int, float]
    bytes_down: dict[int, int]
    bytes_up: dict[int, int]
    complaints: dict[int, Parts] = field(default_factory=dict)
    cohort: CohortMeans | None = None
    total: Statistics | None = None

    @property
    def contributions(self) -> dict[int, Statistics]:
        """What each client contributes, by partition; after a secure sum a single contribution, of
        all clients together."""
        if self.total is not None:
            return {0: self.total}
        return {
            partition: Statistics(dict(reply.arrays), reply.num_examples, reply.metrics)
            for partition, reply in self.replies.items()
        }

    @property
    def scores(self) -> dict[int, Mapping[str, float]]:
        """The clients' metrics, by partition."""
        return {partition: reply.metrics for partition, reply in self.replies.items()}

    @property
    def failure_summary(self) -> str:
        """The first three reasons as text; "" for none."""
        return "; ".join(reason_texts(self.reasons)[:3])

    def row(self, federation: Federation) -> dict[str, Any]:
        """The row in `rounds.csv`; bytes are means over the clients with valid replies."""
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
            "bytes_up": sum(self.bytes_up.values()) / max(len(self.replies), 1),
            "bytes_down": sum(self.bytes_down[partition] for partition in self.replies)
            / max(len(self.replies), 1),
            "seconds_training": seconds * trained,
            "reasons": one_line("; ".join(reason_texts(self.reasons)), _MAX_REASONS),
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
                "bytes_down": self.bytes_down[partition],
                "seconds": seconds,
                "dropped": self.reasons.get(partition, ""),
            }
            if partition in weights:
                row["weight"] = weights[partition]
            if reply := self.replies.get(partition):
                row |= {**reply.metrics, "bytes_up": self.bytes_up[partition]}
                if self.cohort is None:
                    row["num_examples"] = reply.num_examples
            rows.append(row)
        return rows


def reason_texts(reasons: Mapping[int, str]) -> list[str]:
    """The reasons as text, each with its partition."""
    return [f"partition {partition}: {reason}" for partition, reason in reasons.items()]


def parts_size(parts: Parts) -> int:
    """Bytes of a protocol's further values; a number has eight."""
    size = 0
    for entry in parts.values():
        for value in entry if isinstance(entry, list) else [entry]:
            size += len(value) if isinstance(value, str | bytes) else 8
    return size
