"""Whole secure sums, message by message, with clients that vanish: shared by the tests of the secure sum."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from curvfed.strategies.secure_sum import Collector, Keys, Member, Session, Shares, checksum
from curvfed.strategies.secure_sum.modular import Residues

STEPS = ("keys", "share", "deliver", "mask", "unmask")


def entropy(seed: int) -> Callable[[int], bytes]:
    """The same bytes in every run of a test."""
    return np.random.default_rng(seed).bytes


def session(num: int, **changes: object) -> Session:
    plain = {"run": "run", "phase": "sum", "round": 1, "modulus": 2**61 - 1, "length": 5, "clients": tuple(range(num))}
    return Session(**(plain | changes))  # type: ignore[arg-type]


def vectors(what: Session, seed: int = 0) -> dict[int, Residues]:
    rng = np.random.default_rng(seed)
    return {p: rng.integers(0, what.modulus, what.length, dtype=np.uint64) for p in what.clients}


def plain_sum(what: Session, values: Mapping[int, Residues], partitions: object) -> list[int]:
    """In Python's integers."""
    return [sum(int(values[p][i]) for p in partitions) % what.modulus for i in range(what.length)]  # type: ignore[attr-defined]


@dataclass
class Run:
    """A sum up to where it was driven. `gone` says at which step a client vanishes; what the server saw is kept."""

    session: Session
    values: Mapping[int, Residues]
    gone: Mapping[int, str] = field(default_factory=dict)
    note: bytes = b""
    stored: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        self.members = {
            p: Member.begin(self.session, p, entropy=entropy(1000 * self.seed + i))
            for i, p in enumerate(self.session.clients)
        }
        self.collector = Collector(self.session)
        self.keys: dict[int, Keys] = {}
        self.shares: dict[int, Shares] = {}
        self.notes: dict[int, dict[int, bytes]] = {}
        self.masked: dict[int, Residues] = {}
        self.checks: dict[int, bytes] = {}
        self.revealed: dict[int, dict[int, bytes]] = {}

    def until(self, last: str) -> "Run":
        """Take all steps up to and with `last`, and those of the collector between them."""
        for step in STEPS[: STEPS.index(last) + 1]:
            getattr(self, f"_{step}")()
        return self

    def total(self) -> Residues:
        return self.until("unmask").collector.total()

    def server_again(self) -> Residues:
        """The sum by a new collector that gets all the messages of a run that has ended."""
        collector = Collector(self.session)
        for p, keys in self.keys.items():
            collector.take_keys(p, keys)
        collector.close_keys()
        for p, shares in self.shares.items():
            collector.take_shares(p, shares)
        collector.close_shares()
        for p in self.shares:
            collector.delivery(p)
        for p, masked in self.masked.items():
            collector.take_masked(p, masked, self.checks[p])
        collector.close_masked()
        for p, revealed in self.revealed.items():
            collector.take_revealed(p, revealed)
        return collector.total()

    def _there(self, step: str) -> list[int]:
        if self.stored:
            for p, member in self.members.items():
                self.members[p] = Member.load(member.save(), entropy(p))
        late = STEPS[: STEPS.index(step) + 1]
        return [p for p in self.members if self.gone.get(p) not in late]

    def _keys(self) -> None:
        for p in self._there("keys"):
            self.keys[p] = self.members[p].keys()
            self.collector.take_keys(p, self.keys[p])
        self.collector.close_keys()

    def _share(self) -> None:
        for p in self._there("share"):
            self.shares[p] = self.members[p].share(self.collector.keys, self.note)
            self.collector.take_shares(p, self.shares[p])
        self.collector.close_shares()

    def _deliver(self) -> None:
        for p in self._there("deliver"):
            self.notes[p] = self.members[p].deliver(self.collector.delivery(p))

    def _mask(self) -> None:
        for p in self._there("mask"):
            self.masked[p] = self.members[p].mask(self.values[p])
            self.checks[p] = checksum(self.masked[p], self.session, p)
            self.collector.take_masked(p, self.masked[p], self.checks[p])
        self.collector.close_masked()

    def _unmask(self) -> None:
        for p in self._there("unmask"):
            self.revealed[p] = self.members[p].unmask(self.collector.survivors)
            self.collector.take_revealed(p, self.revealed[p])


class Clock:
    """A client that adds up the seconds of its steps."""

    def __init__(self, member: Any) -> None:
        self._member, self.seconds = member, 0.0

    def __getattr__(self, name: str) -> Any:
        def timed(*arguments: Any) -> Any:
            started = time.perf_counter()
            found = getattr(self._member, name)(*arguments)
            self.seconds += time.perf_counter() - started
            return found

        return timed
