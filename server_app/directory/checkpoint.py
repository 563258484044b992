"""The state of a run between rounds, and its checkpoints."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from curvfed.server_app.federation import Federation
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.wire.messages import Facts
from curvfed.strategies.wire.records import tuples
from curvfed.strategies.wire.store import Store, StoreError

FIXED, CALIBRATED = "fixed/", "calibrated/"
"""What the names of such parameters begin with, beside those of the model."""

log = logging.getLogger("curvfed")


@dataclass
class State:
    """What a checkpoint holds besides the arrays; everything in it is JSON. Cohorts and dropout are drawn from the seed
    and the round alone, so there is no generator to keep.

    Attributes
    ----------
    round : int
        The last whole round.
    stamps : dict of partition to round
        The personal state that the server counts on, 0 for none.
    latest : dict of partition to figures
        What each client last measured.
    best : dict or None
        Figures of the round of best mean validation score among those in which all clients were asked and most were
        scored.
    totals : dict
        Sums over the rounds: bytes, seconds, replies.
    examples : dict of partition to number
        Training examples of each client that has trained.
    told : list of partitions
        Who has got the fixed parameters.
    scored : dict
        The global model's figures on the server's own test data: those of the last rounds, and of the calibrated one.
    """

    round: int = 0
    stamps: dict[int, int] = field(default_factory=dict)
    latest: dict[int, dict[str, float]] = field(default_factory=dict)
    best: dict[str, Any] | None = None
    totals: dict[str, float] = field(default_factory=dict)
    examples: dict[int, int] = field(default_factory=dict)
    told: list[int] = field(default_factory=list)
    scored: dict[str, Any] = field(default_factory=dict)

    def add(self, **amounts: float) -> None:
        """Add to the totals."""
        for name, amount in amounts.items():
            self.totals[name] = self.totals.get(name, 0) + amount

    def note_best(self, figures: dict[str, Any]) -> None:
        """Keep the figures of a round if they are the best: most clients scored, for who is missing must not make a round
        look better, then best mean validation."""

        def rank(figures: Mapping[str, Any]) -> tuple[int, float]:
            return -figures["metrics"]["clients_left_out"], figures["metrics"]["validation"]

        if figures["metrics"]["validation"] is not None and (self.best is None or rank(figures) > rank(self.best)):
            self.best = figures


@dataclass(frozen=True)
class Checkpoint:
    """The arrays of a run between rounds.

    Attributes
    ----------
    model : dict of str to array
        The aggregation's state.
    fixed, calibrated : dict of str to array
        The fixed parameters, and those that a calibration gave; empty for most runs.
    """

    model: Arrays
    fixed: Arrays = field(default_factory=dict)
    calibrated: Arrays = field(default_factory=dict)

    def named(self) -> Arrays:
        """All in one dictionary."""
        parts = (("", self.model), (FIXED, self.fixed), (CALIBRATED, self.calibrated))
        return {f"{prefix}{name}": array for prefix, arrays in parts for name, array in arrays.items()}

    @classmethod
    def of(cls, named: Arrays) -> "Checkpoint":
        """Inverse of `named`."""
        found: dict[str, Arrays] = {"": {}, FIXED: {}, CALIBRATED: {}}
        for key, array in named.items():
            prefix = next((one for one in (FIXED, CALIBRATED) if key.startswith(one)), "")
            found[prefix][key.removeprefix(prefix)] = array
        return cls(found[""], found[FIXED], found[CALIBRATED])


def save(store: Store, state: State, arrays: Checkpoint, federation: Federation) -> None:
    """Write the checkpoint of the last whole round; the one before is kept."""
    metadata = asdict(state) | {"before": before(federation)}
    store.save(state.round, arrays.named(), metadata, base=state.round - 1, durable=True)


def load(store: Store, federation: Federation) -> tuple[State, Checkpoint, Federation] | None:
    """The last readable checkpoint, with the federation as it was told the facts then; None if there is none.

    Raises
    ------
    ConfigError
        If a client's data are not those of the run so far, or none of the checkpoints can be read.
    """
    stamps = store.stamps()
    for stamp in reversed(stamps):
        try:
            arrays, saved = store.load(stamp)
        except StoreError as error:
            log.warning("%s; trying the one before", error)
            continue
        break
    else:
        if not stamps:
            return None
        raise ConfigError(
            f"resume = true: no checkpoint in {store.folder} can be read; bring one back, or begin anew with another "
            "run-name"
        )
    federation = as_before(federation, saved.pop("before"))
    for name in ("stamps", "latest", "examples"):  # JSON has no whole numbers as keys
        saved[name] = {int(partition): value for partition, value in saved[name].items()}
    return State(**saved), Checkpoint.of(arrays), federation


def before(federation: Federation) -> dict[str, Any]:
    """What a resumed run must know of the federation: the facts as the clients were told them, and whose data these are."""
    digests = {str(partition): about.digest for partition, about in federation.descriptions.items()}
    return {"facts": asdict(federation.facts), "digests": digests}


def as_before(federation: Federation, known: dict[str, Any]) -> Federation:
    """The federation with the facts of the run so far.

    Raises
    ------
    ConfigError
        If a client's data are not those of the run so far.
    """
    digests, facts = known["digests"], known["facts"]
    now = before(federation)["digests"]
    changed = [partition for partition, digest in now.items() if digests.get(partition, digest) != digest]
    if changed:
        raise ConfigError(f"resume = true: the data of partitions {', '.join(changed)} are not those of the run so far")
    return replace(federation, facts=Facts(**tuples(facts)))
