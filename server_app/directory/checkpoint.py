"""The state of a run between rounds, and its checkpoints."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args, get_origin

import numpy as np

from curvfed.server_app.answer import personal_figures
from curvfed.server_app.federation import Federation
from curvfed.strategies.base.figures import VALIDATION
from curvfed.strategies.base.statistics import Arrays, add_prefix, select_prefix
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.messages import Holders, stored_facts
from curvfed.strategies.wire.store import Store, StoreError

FIXED = "fixed/"
CALIBRATED = "calibrated/"
"""Prefixes of the names of fixed and of calibrated parameters in a checkpoint."""


@dataclass
class State:
    """The part of a checkpoint without arrays, all of it JSON. Selected clients and dropout depend
    only on the seed and the round, so no random generator is stored.

    Attributes
    ----------
    round : int
        The last completed round.
    stamps : dict of partition to round
        The round of each client's personal state; 0 for none.
    latest : dict of partition to figures
        Each client's last scores.
    cohort : dict or None
        After a secure sum, the last figures of the cohort: each a mean and its number of
        clients.
    best : dict or None
        Figures of the round with the best mean validation score, among the rounds that asked all
        clients and scored the largest number.
    totals : dict
        Sums over the rounds: bytes, seconds, replies.
    examples : dict of partition to number
        Number of training examples of each client that has trained.
    fixed_holders : list of partitions
        Clients that have the fixed parameters.
    scored : dict
        The global model's scores on the server's test data: of the last rounds, and after the
        calibration.
    most_steps : int
        The most local steps of a client in a round.
    courses : dict of partition to figures
        Each client's "last" accuracy after training; after a fall (`client_history.FALL`) also its
        "round", the accuracies "from" and "to", and the round "back" of recovery, or None.
    train_requests : dict of partition to number
        Number of rounds that asked a client to train.
    absences : dict of partition to figures
        Number of "rounds" without a valid reply of a client, and the last "reason".
    lost : dict of partition to figures
        For each client that lost its personal parameters: the "round" of the lost state, and the
        round "from" which it continued, 0 for a fresh state.
    long_updates : dict of partition to figures
        Number of "rounds" in which a client's update was far longer than the others', and the
        largest "length" in medians of a round.
    one_answer : bool
        Whether every model predicts a single class after the last round.
    largest_loss : float
        The largest mean training loss of a client in the last round; after a secure sum, that of
        the cohort.
    validated : int
        The last round with a known mean validation score.
    improved : int
        The round with the highest mean validation score, over whatever clients it scored.
    highest_validation : float or None
        That score.
    last_round : int
        The last round, if it is decided during the run; 0 for that of the configuration.
    holders : list of dict
        For each group of a secure sum: its "clients", the "counts" of those that have each class or
        entity, and the number "needed".
    figures : dict
        In a one-shot run, the figures of its phases and of its model for the summary, by name.
    summed : dict
        In a one-shot run, the "clients" in the stored sum, its "weight", "error" and "noise"; empty
        before the sum.
    """

    round: int = 0
    stamps: dict[int, int] = field(default_factory=dict)
    latest: dict[int, dict[str, float]] = field(default_factory=dict)
    cohort: dict[str, tuple[float, int]] | None = None
    best: dict[str, Any] | None = None
    totals: dict[str, float] = field(default_factory=dict)
    examples: dict[int, int] = field(default_factory=dict)
    fixed_holders: list[int] = field(default_factory=list)
    scored: dict[str, Any] = field(default_factory=dict)
    most_steps: int = 0
    courses: dict[int, dict[str, Any]] = field(default_factory=dict)
    train_requests: dict[int, int] = field(default_factory=dict)
    absences: dict[int, dict[str, Any]] = field(default_factory=dict)
    lost: dict[int, dict[str, int]] = field(default_factory=dict)
    long_updates: dict[int, dict[str, float]] = field(default_factory=dict)
    one_answer: bool = False
    largest_loss: float = 0.0
    validated: int = 0
    improved: int = 0
    highest_validation: float | None = None
    last_round: int = 0
    holders: list[dict[str, Any]] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    summed: dict[str, Any] = field(default_factory=dict)

    def add(self, **amounts: float) -> None:
        """Add to the totals."""
        for name, amount in amounts.items():
            self.totals[name] = self.totals.get(name, 0) + amount

    def holders_of(self, client: int) -> Holders | None:
        """The holders of classes or entities in a client's group; None if they are not counted."""
        for group in self.holders:
            if client in group["clients"]:
                return Holders(group["needed"], tuple(group["counts"]))
        return None

    def num_shared(self) -> int | None:
        """The number of classes that enough members of a summed group have; None if they are not
        counted."""
        summed = set(self.summed["clients"])
        enough = [
            np.array(group["counts"]) >= group["needed"]
            for group in self.holders
            if summed & set(group["clients"])
        ]
        return int(np.any(enough, axis=0).sum()) if enough else None

    def note_best(self, number: int, federation: Federation) -> None:
        """Keep the figures of the clients' last scores if this round is the best: by number of
        scored clients first, since missing clients must not improve a round, then by mean
        validation score."""
        figures = {"round": number} | personal_figures(
            self.latest, federation.descriptions, self.cohort
        )
        score = figures["metrics"][VALIDATION]
        if score is None:
            return
        self.validated = number
        if self.highest_validation is None or score > self.highest_validation:
            self.highest_validation = score
            self.improved = number
        best = figures if self.best is None else self.best
        ranks = [
            (-item["metrics"]["clients_left_out"], item["metrics"][VALIDATION])
            for item in (figures, best)
        ]
        if self.best is None or ranks[0] > ranks[1]:
            self.best = figures


BY_PARTITION = tuple(
    item.name
    for item in fields(State)
    if get_origin(item.type) is dict and get_args(item.type)[0] is int
)
"""Fields of the state with partitions as keys, which JSON stores as text."""


@dataclass(frozen=True)
class Checkpoint:
    """The arrays of a run between rounds.

    Attributes
    ----------
    model : dict of str to array
        The aggregation's state.
    fixed, calibrated : dict of str to array
        The fixed parameters, and those of a calibration; empty for most runs.
    """

    model: Arrays
    fixed: Arrays = field(default_factory=dict)
    calibrated: Arrays = field(default_factory=dict)

    def named(self) -> Arrays:
        """All arrays in one dictionary."""
        return self.model | add_prefix(FIXED, self.fixed) | add_prefix(CALIBRATED, self.calibrated)

    @classmethod
    def of(cls, arrays: Arrays) -> "Checkpoint":
        """Inverse of `named`."""
        model = {
            name: array
            for name, array in arrays.items()
            if not name.startswith((FIXED, CALIBRATED))
        }
        return cls(model, select_prefix(arrays, FIXED), select_prefix(arrays, CALIBRATED))


def save(
    store: Store,
    state: State,
    arrays: Checkpoint,
    before: Mapping[str, Any],
    durable: bool = True,
) -> None:
    """Write the checkpoint of the last completed round; the previous one is kept. `before` is the
    identity of the federation. A durable checkpoint survives a power failure."""
    metadata = vars(state) | {"before": before}
    store.save(state.round, arrays.named(), metadata, base=state.round - 1, durable=durable)


def load(store: Store, federation: Federation) -> tuple[State, Checkpoint, Federation] | None:
    """The last readable checkpoint, and the federation with the facts of that run; None if there is
    no checkpoint.

    Raises
    ------
    ConfigError
        If a client's data have changed since the run began, or no checkpoint can be read.
    """
    stamps = store.stamps()
    readable = []
    for stamp in reversed(stamps):
        try:
            readable.append(store.load(stamp))
            _check_simulated(store.folder.with_name("clients"), readable[-1][1]["stamps"])
        except StoreError as error:
            log.warning("%s; trying the previous one", error)
            continue
        break
    else:
        if not stamps:
            return None
        if not readable:
            raise ConfigError(
                f"resume = true: no checkpoint in {store.folder} can be read; restore one, or start"
                " a new run with another run-name",
                key="unreadable-checkpoint",
            )
        readable = readable[:1]  # simulated clients have no earlier state either
    arrays, saved = readable[-1]
    federation = with_facts(federation, saved.pop("before"))
    for name in BY_PARTITION:
        saved[name] = {int(partition): value for partition, value in saved.get(name, {}).items()}
    return State(**saved), Checkpoint.of(arrays), federation


def _check_simulated(folder: Path, stamps: Mapping[str, int]) -> None:
    """Raise LostState if the run directory lacks the state of a simulated client's stamp."""
    for partition, stamp in stamps.items():
        # A client without stamps stores nothing, or lost all of it.
        if (client := Store(folder / f"{int(partition):05d}")).stamps():
            client.load(stamp)


def identity(federation: Federation) -> dict[str, Any]:
    """The facts sent to the clients and the digests of their data, which a resumed run compares."""
    digests = {
        str(partition): description.digest
        for partition, description in federation.descriptions.items()
    }
    return {"facts": asdict(federation.facts), "digests": digests}


def with_facts(federation: Federation, saved: dict[str, Any]) -> Federation:
    """The federation with the facts of the run that is resumed.

    Raises
    ------
    ConfigError
        If a client's data have changed since the run began.
    """
    digests = saved["digests"]
    facts = saved["facts"]
    current = identity(federation)["digests"]
    changed = [
        partition
        for partition, digest in current.items()
        if digests.get(partition, digest) != digest
    ]
    if changed:
        raise ConfigError(
            f"resume = true: the data of partitions {', '.join(changed)} have changed since the run"
            " began; allowed are the data as they were, or a new run with another run-name",
            key="changed-data",
        )
    return replace(federation, facts=stored_facts(facts))
