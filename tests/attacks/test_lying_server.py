"""A server that lies in a secure sum: it shows members other keys, groups, phases and models, asks
again, replays what it saw before, and knows the secrets of some members.

What it can compute is linear algebra: masked vectors may be added and subtracted in every way in
which all masks cancel that it does not know. Nothing may come of it but sums over all honest members
of a group, each from one basis.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from secure_sums import BASIS, other_basis, session

from curvfed.client_app.node.ledger import Ledger
from curvfed.strategies.errors import ConfigError, SecureSumError
from curvfed.strategies.secure_sum import Group, Session, crypto, masks
from curvfed.strategies.secure_sum.member import Member
from curvfed.strategies.secure_sum.messages import Basis, PublicKey


@dataclass
class Seen:
    """A masked vector that the server has.

    Attributes
    ----------
    member : int
    place : tuple of (str, int)
        Phase and round.
    basis : bytes
        Digest of what the vector was computed from.
    masks : dict of bytes to int
        By the key of each mask, 1 or -1; without the masks that the server knows.
    """

    member: int
    place: tuple[str, int]
    basis: bytes
    masks: dict[bytes, int]


@dataclass
class Liar:
    """A server that follows no protocol, and members that do."""

    seed: int
    has_roster: bool = True
    contributions: list[Seen] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        number = int(self.rng.integers(3, 10))
        self.clients = tuple(range(number))
        self.roster = crypto.roster(self.clients) if self.has_roster else None
        colluders = int(self.rng.integers(0, number - 1))
        self.colluding = set(self.rng.choice(number, colluders, replace=False).tolist())
        self.old_keys: list[tuple[int, PublicKey]] = []
        self.known_keys: set[bytes] = set()
        self.answered: dict[tuple[int, tuple[str, int]], Basis] = {}
        self.members: dict[int, Member] = {}

    def _chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def run(self, patch: pytest.MonkeyPatch) -> "Liar":
        """Lie for some exchanges of keys and some sums under each."""
        used: list[bytes] = []
        patch.setattr(
            masks,
            "uniform",
            lambda key, length, modulus: (used.append(key), np.zeros(length, np.uint64))[1],
        )
        for _ in range(int(self.rng.integers(1, 4))):
            self._exchange()
            for place in (("train", 1), ("train", 2), ("evaluate", 2)):
                for _ in range(int(self.rng.integers(1, 3))):
                    self._ask(place, used)
        return self

    def _exchange(self) -> None:
        """Let all or some members exchange keys anew, and show each its own story."""
        renewed = [p for p in self.clients if p not in self.members or self._chance(0.7)]
        fresh = dict(self.members)
        for p in renewed:
            fresh[p] = Member.begin(Group("run", self.clients), p)
        keys = {p: member.announcement(crypto.signing_key(p)) for p, member in fresh.items()}
        self.old_keys += keys.items()
        for p in self.colluding:
            self.known_keys.add(keys[p].key)
        for p in renewed:
            shown = dict(keys)
            if self._chance(0.4):
                victims = [int(self.rng.choice(self.clients))]
                if self._chance(0.3):
                    victims = [peer for peer in self.clients if peer != p]
                for victim in victims:
                    shown[victim] = self._other_key(victim)
            for story in (shown, keys):
                with suppress(SecureSumError):
                    self.members[p] = fresh[p].agree(story, self.roster)
                    break

    def _other_key(self, victim: int) -> PublicKey:
        """A key of the victim's from before, or the server's own."""
        if self._chance(0.5):
            of_victim = [key for p, key in self.old_keys if p == victim]
            return of_victim[int(self.rng.integers(len(of_victim)))]
        forged = Member.begin(Group("run", self.clients), victim).announcement(
            crypto.signing_key(999)
        )
        self.known_keys.add(forged.key)
        return forged

    def _ask(self, place: tuple[str, int], used: list[bytes]) -> None:
        """Ask for a sum, with another story for some members."""
        phase, number = place
        stories = [BASIS, other_basis("parameters"), other_basis("state")]
        modulus = 2**61 - 1
        for p, member in self.members.items():
            if not self._chance(0.9):
                continue
            basis = stories[int(self.rng.integers(3))] if self._chance(0.3) else BASIS
            # A member answers a sum once, with a vector from one basis.
            basis = self.answered.setdefault((p, place), basis)
            odd = 2**61 - 3 if self._chance(0.1) else modulus
            what = Session("run", phase, number, odd, 1, self.clients)
            used.clear()
            member.mask(np.zeros(1, np.uint64), what, basis)
            peers = [q for q in self.clients if q != p]
            signs = {}
            for peer, key in zip(peers, used, strict=True):
                knows = {p, peer} & self.colluding or member.keys[peer] in self.known_keys
                if not knows:
                    signs[key] = 1 if p < peer else -1
            self.contributions.append(Seen(p, place, basis.digest, signs))

    def gains(self) -> bool:
        """Whether the server computes anything but sums over all honest members."""
        honest = [item for item in self.contributions if item.member not in self.colluding]
        symbols = sorted({key for item in honest for key in item.masks})
        column = {key: number for number, key in enumerate(symbols)}
        contents = sorted({(item.member, item.place, item.basis) for item in honest})
        place_of = {content: number for number, content in enumerate(contents)}
        of_masks = np.zeros((len(honest), len(symbols)))
        of_contents = np.zeros((len(honest), len(contents)))
        for row, item in enumerate(honest):
            for key, sign in item.masks.items():
                of_masks[row, column[key]] = sign
            of_contents[row, place_of[item.member, item.place, item.basis]] = 1
        revealed = _null_space(of_masks) @ of_contents
        allowed = self._full_sums(contents)
        # Least squares: what is left beside the full sums.
        fitted = np.linalg.lstsq(allowed.T, revealed.T, rcond=None)[0]
        return bool(np.abs(revealed - (allowed.T @ fitted).T).max(initial=0.0) > 1e-8)

    def _full_sums(self, contents: list[tuple[int, Any, bytes]]) -> np.ndarray:
        honest = set(self.clients) - self.colluding
        rows = []
        for place, basis in sorted({content[1:] for content in contents}):
            row = np.array([float(content[1:] == (place, basis)) for content in contents])
            if row.sum() == len(honest):
                rows.append(row)
        return np.array(rows).reshape(len(rows), len(contents))


def _null_space(matrix: np.ndarray) -> np.ndarray:
    """The combinations of rows that are zero, (m, rows)."""
    vectors, values, _ = np.linalg.svd(matrix)
    rank = int((values > 1e-9).sum())
    return vectors[:, rank:].T


def check_lies(seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    successes = 0
    sums = 0
    for seed in seeds:
        liar = Liar(seed).run(monkeypatch)
        successes += liar.gains()
        sums += len(_null_space_of(liar))
    assert successes == 0
    assert sums > len(seeds) // 10, "lies that end every sum prove nothing"


def _null_space_of(liar: Liar) -> np.ndarray:
    keys = sorted({key for item in liar.contributions for key in item.masks})
    rows = [[item.masks.get(key, 0) for key in keys] for item in liar.contributions]
    return _null_space(np.array(rows, float).reshape(len(rows), len(keys)))


def without_basis(what: Session, secret: bytes, basis: Basis) -> Any:
    key = crypto.derive(secret, what.context("pairwise mask"))
    return masks.uniform(key, what.length, what.modulus)


def without_round(what: Session, secret: bytes, basis: Basis) -> Any:
    return masks.uniform(crypto.derive(secret, basis.digest), what.length, what.modulus)


GULLIBLE: Mapping[str, Any] = {
    "the basis is in no mask": (masks, "pairwise_mask", without_basis),
    "the round is in no mask": (masks, "pairwise_mask", without_round),
    "nobody looks into the roster": (crypto, "is_signed", lambda *_: True),
}


@pytest.mark.parametrize("fault", GULLIBLE)
def test_the_lies_find_every_fault(fault, monkeypatch):
    monkeypatch.setattr(*GULLIBLE[fault])
    assert any(Liar(seed).run(monkeypatch).gains() for seed in range(40))


def test_lies_at_random(monkeypatch):
    check_lies(range(60), monkeypatch)


@pytest.mark.long
def test_a_thousand_lies_at_random(monkeypatch):
    check_lies(range(1000, 2000), monkeypatch)


# --- Groups


def sums_of_a_node(seed: int, folder: Path) -> list[set[tuple[int, ...]]]:
    """The nodes of the sums that one node signed, between changes of its group, where a server asks
    for sums over nodes that it likes, and operators change rosters."""
    rng = np.random.default_rng(seed)
    roster = rng.choice(300, int(rng.integers(4, 201)), replace=False).tolist()
    me, ledger = roster[0], Ledger(folder / f"{seed}.jsonl")
    signed: list[set[tuple[int, ...]]] = [set()]
    for step in range(12):
        group = ledger.group(me, roster)
        drawn = rng.choice(roster, int(rng.integers(1, len(roster) + 1)), replace=False)
        stories = (group, group, group[1:], group[:-1], (*group, 999), roster, drawn.tolist())
        cohort = tuple(sorted({*stories[int(rng.integers(len(stories)))], me}))
        with suppress(SecureSumError):
            what = session(len(cohort), clients=cohort, run=f"{seed} {step}")
            ledger.note_sum(what, BASIS, "", group, {})
            signed[-1].add(cohort)
        if rng.random() < 0.3:  # a node leaves or comes
            member = int(rng.choice(roster[1:]))
            roster = (
                [p for p in roster if p != member] if len(roster) > 4 else [*roster, 301 + step]
            )
        if rng.random() < 0.3:
            with suppress(ConfigError):
                ledger.regroup(1)
                signed.append(set())
    return signed


def check_groups(seeds: range, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    histories = [sums_of_a_node(seed, folder) for seed in seeds]
    assert all(len(signed) <= 2 for signed in histories)
    assert all(len(cohorts) <= 1 for signed in histories for cohorts in signed)
    assert any(cohorts for signed in histories for cohorts in signed)
    monkeypatch.setattr(Ledger, "_check_members", lambda *_: None)
    (folder / "gullible").mkdir()
    gullible = [sums_of_a_node(seed, folder / "gullible") for seed in seeds]
    assert any(len(cohorts) > 1 for signed in gullible for cohorts in signed)


def test_a_server_that_asks_for_sums_over_other_nodes(tmp_path, monkeypatch):
    check_groups(range(10), tmp_path, monkeypatch)


@pytest.mark.long
def test_a_thousand_servers_that_ask_for_sums_over_other_nodes(tmp_path, monkeypatch):
    check_groups(range(1000, 2000), tmp_path, monkeypatch)
