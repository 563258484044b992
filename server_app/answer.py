"""A question to the clients and their answer: valid replies, reasons for dropped ones, figures of a
round and of a run from the scores, and rows in the run directory."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from curvfed.server_app.federation import Federation, grouped
from curvfed.strategies.base.figures import (
    BEFORE,
    MEANS,
    PERSONAL_ACCURACY,
    PERSONAL_EXAMPLES,
    VALIDATION,
)
from curvfed.strategies.base.one_shot import ResidueServer
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.wire.checks import one_line
from curvfed.strategies.wire.messages import Description, Header, Parts, Reply
from curvfed.tasks.class_names import names_listed
from curvfed.tasks.kinds import KINDS, TRIVIAL

Scores = Mapping[int, Mapping[str, float]]
"""Scores by partition: score and validation (the data set's metric), accuracy, and the same ending
in `_before` for the model as received."""


CohortMeans = Mapping[str, tuple[float, int]]
"""Scores after a secure sum: the mean over the clients with the score, and their number."""

_MAX_REASONS = 20_000
"""Maximum length of a cell; Python's CSV reader accepts 131,072. `clients.csv` has every reason."""


class Figure(NamedTuple):
    """A score over the clients that have it; None where only a sum is known."""

    mean: float | None
    std: float | None
    worst_decile: float | None
    clients: int


def mean_std(values: list[float]) -> tuple[float | None, float | None]:
    """Unweighted mean and standard deviation (ddof = 0); None without values."""
    return (float(np.mean(values)), float(np.std(values))) if values else (None, None)


def personal_figures(
    scores: Scores, descriptions: Mapping[int, Description], cohort: CohortMeans | None = None
) -> dict[str, Any]:
    """The personal part of a summary (P-FL).

    Means are unweighted over the clients that have test data; "clients_left_out" counts the others.
    "pooled" is weighted by numbers of scored test examples, where all clients share them, and
    "personal_examples" is their sum. The worst decile
    is the mean over the tenth of the clients, rounded up, with the lowest accuracy. With `cohort`,
    only its means and counts are known.
    """
    metric = next(iter(descriptions.values())).metric
    name = "score" if metric == "accuracy" else "accuracy"
    accuracy, before, validation, score, score_before = (
        _figure(scores, key, cohort)
        for key in (name, name + BEFORE, VALIDATION, "score", "score" + BEFORE)
    )
    scored = [partition for partition in sorted(scores) if name in scores[partition]]
    # After a secure sum, all clients count.
    sizes = _sizes(descriptions[partition] for partition in (descriptions if cohort else scored))
    examples = sum(sizes) if sizes else None
    pooled = None
    if sizes and examples and not cohort:
        right = zip(scored, sizes, strict=True)
        pooled = sum(scores[partition][name] * size for partition, size in right) / examples
    metrics: dict[str, Any] = {
        "personal_accuracy_before": before.mean,
        "personal_accuracy_before_worst_decile": before.worst_decile,
        "personal_accuracy_pooled": pooled,
        PERSONAL_EXAMPLES: examples,
        "clients_left_out": len(descriptions) - accuracy.clients,
        VALIDATION: validation.mean,
    }
    if metric != "accuracy":
        metrics[metric] = score.mean
        metrics[f"{metric}_std"] = score.std
        metrics[f"{metric}_before"] = score_before.mean
        metrics[f"{metric}_clients_left_out"] = len(descriptions) - score.clients
    return {
        PERSONAL_ACCURACY: accuracy.mean,
        "personal_accuracy_std": accuracy.std,
        "personal_accuracy_worst_decile": accuracy.worst_decile,
        "metrics": metrics,
    }


def _figure(scores: Scores, name: str, cohort: CohortMeans | None) -> Figure:
    """A score over the clients that have it, by ascending partition."""
    if cohort is not None:
        mean, count = cohort.get(name, (None, 0))
        return Figure(mean, None, None, count)
    values = [measured[name] for _, measured in sorted(scores.items()) if name in measured]
    mean, std = mean_std(values)
    lowest = sorted(values)[: math.ceil(len(values) / 10)]
    return Figure(mean, std, mean_std(lowest)[0], len(values))


def trivial_scores(descriptions: Mapping[int, Description]) -> dict[str, float | None]:
    """Means over the clients of the scores of trivial answers, by name: the most frequent training
    class, or the most frequent tails."""
    means = {}
    for name in TRIVIAL:
        shares = [item.statistics.get(name) for _, item in sorted(descriptions.items())]
        means[name] = mean_std([value for value in shares if value is not None])[0]
    return means


def _sizes(clients: Iterable[Description]) -> list[int] | None:
    """The number of each client's test examples that are scored; None if a client keeps its own to
    itself."""
    sizes = []
    for client in clients:
        if "num_test" not in client.statistics:
            return None
        sizes.append(KINDS[client.task].num_scored(client.statistics))
    return sizes


@dataclass(frozen=True, eq=False)
class Question:
    """A question to some clients, sent with the model.

    Attributes
    ----------
    phase : str
    round : int
    clients : sequence of int
        Partitions, ascending.
    sums : dict of str to array
        Arrays with the names and shapes of the sums that a client contributes; unused in `TRAIN`,
        whose arrays are the method's `expected_reply`.
    bound : float
        Bound on the sums, per example; 0 for `secure.clip`. Only a secure sum needs it.
    check : callable, optional
        Refuses a contribution that is impossible, with a `MessageError`. A secure sum checks
        nothing: the user of its total does.
    parts : mapping of int to mapping
        Further values for each client.
    residues : ResidueServer, optional
        Decodes the sums, if they are of residues.
    is_recorded : bool
        Whether the cohort records the phase as soon as the replies are there; otherwise whoever
        asks does, with further figures.
    """

    phase: str
    round: int
    clients: Sequence[int]
    sums: Arrays = field(default_factory=dict)
    bound: float = 0.0
    check: Callable[[Statistics], object] | None = None
    parts: Mapping[int, Parts] = field(default_factory=dict)
    residues: ResidueServer | None = None
    is_recorded: bool = False


@dataclass(frozen=True)
class Answer:
    """The answer of some clients in a phase.

    Attributes
    ----------
    header : Header
    replies : dict of partition to Reply
        The valid replies, sorted by partition.
    reasons : dict of partition to str
        The reason for dropping each missing reply.
    seconds : dict of partition to float
        From request to reply, of each client asked; NaN without a reply.
    bytes_down, bytes_up : dict of partition to int
        Bytes of the arrays and parts of each request, and of each valid reply.
    without_keys : frozenset of int
        The partitions without a masked vector because they lack the keys of their group.
    away : frozenset of int
        The partitions that may answer the same message later: their nodes are not connected, or
        were silent.
    cohort : mapping, optional
        The figures of the cohort after a secure sum, which hides single clients.
    total : Statistics, optional
        The sum of a secure sum; after `TRAIN` the mean of the clients' parameters, with the sum of
        their weights.
    """

    header: Header
    replies: dict[int, Reply]
    reasons: dict[int, str]
    seconds: dict[int, float]
    bytes_down: dict[int, int]
    bytes_up: dict[int, int]
    without_keys: frozenset[int] = frozenset()
    away: frozenset[int] = frozenset()
    cohort: CohortMeans | None = None
    total: Statistics | None = None

    @cached_property
    def contributions(self) -> dict[int, Statistics]:
        """The contribution of each client, by partition; after a secure sum a single one, of all
        clients together."""
        if self.total is not None:
            return {0: self.total}
        return {
            partition: Statistics(dict(reply.arrays), reply.num_examples, reply.metrics)
            for partition, reply in self.replies.items()
        }

    def joined(self, later: "Answer") -> "Answer":
        """This answer with that of some clients who were asked again later."""
        asked = set(later.seconds)
        others = {
            partition: reason
            for partition, reason in self.reasons.items()
            if partition not in asked
        }
        replies = self.replies | later.replies
        return replace(
            self,
            replies=dict(sorted(replies.items())),
            reasons=dict(sorted((others | later.reasons).items())),
            seconds=self.seconds | later.seconds,
            bytes_down=_added(self.bytes_down, later.bytes_down),
            bytes_up=_added(self.bytes_up, later.bytes_up),
            without_keys=(self.without_keys - asked) | later.without_keys,
            away=(self.away - asked) | later.away,
        )

    def without(self, reasons: Mapping[int, str]) -> "Answer":
        """This answer without the replies of some clients, for these reasons."""
        replies = {p: reply for p, reply in self.replies.items() if p not in reasons}
        bytes_up = {p: size for p, size in self.bytes_up.items() if p not in reasons}
        joined = dict(sorted({**reasons, **self.reasons}.items()))
        return replace(self, replies=replies, reasons=joined, bytes_up=bytes_up)

    def failure_summary(self, federation: Federation) -> str:
        """The first three reasons as text; "" for none."""
        return "; ".join(reason_texts(self.reasons, federation)[:3])

    def row(self, federation: Federation) -> dict[str, Any]:
        """The row in `rounds.csv`; bytes are means over the clients with valid replies."""
        scores = {partition: reply.metrics for partition, reply in self.replies.items()}
        cohort = self.cohort
        figures = personal_figures(scores, federation.descriptions, cohort)
        figures.pop("metrics")  # figures of the whole run
        means = {name: _figure(scores, name, cohort).mean for name in MEANS}
        if cohort is None:
            seconds = sum(scored["seconds"] for scored in scores.values() if "seconds" in scored)
        else:
            mean, trained = cohort.get("seconds", (0, 1))
            seconds = mean * trained
        number = max(len(self.replies), 1)
        down = sum(self.bytes_down[partition] for partition in self.replies)
        reasons = ""
        if self.reasons:
            reasons = one_line("; ".join(reason_texts(self.reasons, federation)), _MAX_REASONS)
        return {
            "round": self.header.round,
            "phase": self.header.phase,
            **figures,
            **means,
            "replies": len(self.replies),
            "dropped": len(self.reasons),
            "bytes_up": sum(self.bytes_up.values()) / number,
            "bytes_down": down / number,
            "seconds_training": seconds,
            "reasons": reasons,
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


def _added(first: Mapping[int, int], second: Mapping[int, int]) -> dict[int, int]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in first.keys() | second.keys()}


def reason_texts(reasons: Mapping[int, str], federation: Federation) -> list[str]:
    """The reasons as text, each once, with the first of its clients."""
    labelled = {federation.label(partition): reason for partition, reason in reasons.items()}
    return [f"{names_listed(names)}: {reason}" for names, reason in grouped(labelled)]


def parts_size(parts: Parts) -> int:
    """Bytes of a protocol's further values; a number has eight."""
    size = 0
    for entry in parts.values():
        for value in entry if isinstance(entry, list) else [entry]:
            size += len(value) if isinstance(value, str | bytes) else 8
    return size
