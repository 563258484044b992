"""Whole secure sums, message by message, with members that vanish."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from curvfed.server_app.secure import masked_cohort
from curvfed.strategies.secure_sum import Group, Session, checksum, crypto
from curvfed.strategies.secure_sum.fixed_point import Residues
from curvfed.strategies.secure_sum.member import Member
from curvfed.strategies.secure_sum.messages import Basis, MaskedInput, PublicKey
from curvfed.strategies.secure_sum.server import SumOfGroup

BASIS = Basis(**dict.fromkeys(Basis.model_fields, bytes(32)))


def entropy(seed: int) -> Callable[[int], bytes]:
    """The same bytes in every run of a test."""
    return np.random.default_rng(seed).bytes


def session(num: int, **changes: object) -> Session:
    plain = {
        "run": "run",
        "phase": "train",
        "round": 1,
        "modulus": 2**61 - 1,
        "length": 5,
        "clients": tuple(range(num)),
    }
    return Session(**(plain | changes))  # type: ignore[arg-type]


def group_of(what: Session) -> Group:
    return Group(what.run, what.clients)


def vectors(what: Session, seed: int = 0) -> dict[int, Residues]:
    rng = np.random.default_rng(seed)
    return {p: rng.integers(0, what.modulus, what.length, dtype=np.uint64) for p in what.clients}


def plain_sum(
    what: Session, values: Mapping[int, Residues], partitions: Collection[int] | None = None
) -> list[int]:
    """In Python's integers."""
    chosen = what.clients if partitions is None else partitions
    return [sum(int(values[p][i]) for p in chosen) % what.modulus for i in range(what.length)]


def masked_input(masked: Residues, what: Session, partition: int, basis: Basis) -> MaskedInput:
    """The message beside a masked vector."""
    return MaskedInput(checksum=checksum(masked, what, partition), **basis.model_dump())


def other_basis(name: str) -> Basis:
    """A basis with another digest of this name."""
    return BASIS.model_copy(update={name: bytes([1]) * 32})


@dataclass
class Run:
    """The keys and one sum of a group; what the server saw is kept."""

    session: Session
    values: Mapping[int, Residues]
    texts: bytes = b""
    stored: bool = False
    seed: int = 0
    signed: bool = True
    bases: Mapping[int, Basis] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.group = group_of(self.session)
        self.members = {
            p: Member.begin(self.group, p, entropy(1000 * self.seed + i))
            for i, p in enumerate(self.session.clients)
        }
        self.keys: dict[int, PublicKey] = {}
        self.written: dict[int, dict[int, bytes]] = {}
        self.read: dict[int, dict[int, bytes]] = {}
        self.masked: dict[int, Residues] = {}
        self.server = SumOfGroup(self.session, BASIS)
        self.roster = crypto.roster(self.session.clients) if self.signed else None

    def agreed(self) -> "Run":
        """Exchange the keys, and what the members write to each other."""
        for p, member in self.members.items():
            key = crypto.signing_key(p) if self.signed else None
            self.keys[p] = member.announcement(key)
        self._store()
        for p, member in self.members.items():
            self.members[p] = member.agree(self.keys, self.roster)
        self._store()
        for p, member in self.members.items():
            texts = dict.fromkeys(self.session.clients, self.texts)
            self.written[p] = member.write(texts, entropy(p))
        for p, member in self.members.items():
            self.read[p] = member.read(self.sent_to(p))
        return self

    def sent_to(self, partition: int) -> dict[int, bytes]:
        """What the peers of a member wrote to it."""
        peers = [p for p in self.session.clients if p != partition]
        return {p: self.written[p][partition] for p in peers}

    def mask(self, gone: Collection[int] = ()) -> "Run":
        """Mask and send the vectors of all members but those that are gone."""
        for p, member in self.members.items():
            if p in gone:
                continue
            basis = self.bases.get(p, BASIS)
            masked = member.mask(self.values[p], self.session, basis)
            self.masked[p] = masked
            self.server.receive(p, masked, masked_input(masked, self.session, p, basis))
        return self

    def total(self) -> Residues:
        return self.agreed().mask().server.total()

    def _store(self) -> None:
        if self.stored:
            for p, member in self.members.items():
                self.members[p] = Member.from_parts(member.as_parts())


def watched_sums(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, np.ndarray]]:
    """A list that gets the sums that an honest server decodes."""
    seen: list[dict[str, np.ndarray]] = []
    decode = masked_cohort.decoded

    def watched(residues: Any, encoding: Any, like: Any) -> Any:
        total, means = decode(residues, encoding, like)
        if like:
            seen.append(dict(total.arrays))
        return total, means

    monkeypatch.setattr(masked_cohort, "decoded", watched)
    return seen
