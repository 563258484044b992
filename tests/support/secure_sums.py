"""Whole secure sums, message by message, with clients that vanish: shared by the tests of the
secure sum."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from curvfed.strategies.secure_sum import Session, checksum, crypto
from curvfed.strategies.secure_sum.client import SecureSumClient
from curvfed.strategies.secure_sum.client_state import ClientState
from curvfed.strategies.secure_sum.fixed_point import Residues
from curvfed.strategies.secure_sum.messages import Basis, EncryptedShares, PublicKeys
from curvfed.strategies.secure_sum.server import SecureSumServer

BASIS = Basis(parameters=bytes(32), facts=bytes(32), configuration=bytes(32), code=bytes(32))
STEPS = ("keys", "share", "deliver", "mask", "confirm", "unmask")


def entropy(seed: int) -> Callable[[int], bytes]:
    """The same bytes in every run of a test."""
    return np.random.default_rng(seed).bytes


def session(num: int, **changes: object) -> Session:
    plain = {
        "run": "run",
        "phase": "sum",
        "round": 1,
        "modulus": 2**61 - 1,
        "length": 5,
        "clients": tuple(range(num)),
    }
    return Session(**(plain | changes))  # type: ignore[arg-type]


def vectors(what: Session, seed: int = 0) -> dict[int, Residues]:
    rng = np.random.default_rng(seed)
    return {p: rng.integers(0, what.modulus, what.length, dtype=np.uint64) for p in what.clients}


def plain_sum(what: Session, values: Mapping[int, Residues], partitions: object) -> list[int]:
    """In Python's integers."""
    return [sum(int(values[p][i]) for p in partitions) % what.modulus for i in range(what.length)]  # type: ignore[attr-defined]


@dataclass
class Run:
    """A sum up to where it was driven. `gone` says at which step a client vanishes; what the server
    saw is kept."""

    session: Session
    values: Mapping[int, Residues]
    gone: Mapping[int, str] = field(default_factory=dict)
    payload: bytes = b""
    stored: bool = False
    seed: int = 0
    signed: bool = True

    def __post_init__(self) -> None:
        self.signers = {
            p: crypto.signing_key(p) if self.signed else None for p in self.session.clients
        }
        self.roster = crypto.roster(self.session.clients) if self.signed else None
        self.clients = {
            p: SecureSumClient.begin(
                self.session, p, self.signers[p], entropy(1000 * self.seed + i)
            )
            for i, p in enumerate(self.session.clients)
        }
        self.server = SecureSumServer(self.session, BASIS)
        self.bases = dict.fromkeys(self.session.clients, BASIS)
        self.keys: dict[int, PublicKeys] = {}
        self.shares: dict[int, EncryptedShares] = {}
        self.delivered: dict[int, dict[int, bytes]] = {}
        self.payloads: dict[int, dict[int, bytes]] = {}
        self.masked: dict[int, Residues] = {}
        self.checks: dict[int, bytes] = {}
        self.survivors: tuple[int, ...] = ()
        self.signatures: dict[int, bytes] = {}
        self.revealed: dict[int, dict[int, bytes]] = {}

    def until(self, last: str) -> "Run":
        """Take all steps up to and with `last`, and those of the server between them."""
        for step in STEPS[: STEPS.index(last) + 1]:
            getattr(self, f"_{step}")()
        return self

    def total(self) -> Residues:
        return self.until("unmask").server.total()

    def server_again(self) -> Residues:
        """The sum by a new server that gets all the messages of a run that has ended."""
        server = SecureSumServer(self.session, BASIS)
        for p, keys in self.keys.items():
            server.receive_keys(p, keys, self.signing_key(p))
        server.close_keys()
        for p, shares in self.shares.items():
            server.receive_shares(p, shares)
        server.close_shares()
        for p, masked in self.masked.items():
            server.receive_masked_input(p, masked, self.checks[p], BASIS)
        server.close_masked_inputs()
        for p, signature in self.signatures.items():
            server.receive_signature(p, signature)
        server.close_signatures()
        for p, revealed in self.revealed.items():
            server.receive_revealed_shares(p, revealed)
        return server.total()

    def signing_key(self, partition: int) -> bytes:
        """What a client tells the server that it signs by."""
        return self.roster[partition] if self.roster else b""

    def _there(self, step: str) -> list[int]:
        if self.stored:
            for p, client in self.clients.items():
                self.clients[p] = SecureSumClient(
                    ClientState.from_parts(client.state.as_parts()), entropy(p)
                )
        late = STEPS[: STEPS.index(step) + 1]
        return [p for p in self.clients if self.gone.get(p) not in late]

    def _keys(self) -> None:
        for p in self._there("keys"):
            self.keys[p] = self.clients[p].advertise_keys()
            self.server.receive_keys(p, self.keys[p], self.signing_key(p))
        assert self.server.close_keys() == self.keys
        self.bound = self.server.session

    def _share(self) -> None:
        for p in self._there("share"):
            self.shares[p] = self.clients[p].share_keys(self.keys, self.payload, self.roster)
            self.server.receive_shares(p, self.shares[p])
        self.delivered = self.server.close_shares()

    def _deliver(self) -> None:
        for p in self._there("deliver"):
            self.payloads[p] = self.clients[p].receive_shares(self.delivered[p])

    def _mask(self) -> None:
        for p in self._there("mask"):
            basis = self.bases[p]
            self.masked[p] = self.clients[p].mask_input(self.values[p], basis)
            self.checks[p] = checksum(self.masked[p], self.bound, p)
            self.server.receive_masked_input(p, self.masked[p], self.checks[p], basis)
        self.survivors = self.server.close_masked_inputs()

    def _confirm(self) -> None:
        for p in self._there("confirm"):
            self.signatures[p] = self.clients[p].confirm(self.survivors, self.signers[p])
            self.server.receive_signature(p, self.signatures[p])
        assert self.server.close_signatures() == self.signatures

    def _unmask(self) -> None:
        for p in self._there("unmask"):
            self.revealed[p] = self.clients[p].unmask(self.signatures, self.roster)
            self.server.receive_revealed_shares(p, self.revealed[p])


class Clock:
    """A client that adds up the seconds of its steps."""

    def __init__(self, client: Any) -> None:
        self._client, self.seconds = client, 0.0

    def __getattr__(self, name: str) -> Any:
        def timed(*arguments: Any) -> Any:
            started = time.perf_counter()
            found = getattr(self._client, name)(*arguments)
            self.seconds += time.perf_counter() - started
            return found

        return timed
