"""Sums of integer vectors modulo a prime that show a server nothing but the sum (Bonawitz et al.,
CCS 2017). Here are the public parameters of a sum, known to all parties before it begins."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Self

from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.secure_sum import neighbours
from curvfed.strategies.secure_sum.fixed_point import Residues, check_modulus
from curvfed.strategies.secure_sum.messages import Basis, PublicKeys

_NAME = "curvfed secure sum 4"
_LARGEST = 2**32  # partitions and rounds are below this


@dataclass(frozen=True)
class Session:
    """One sum of one vector per client. Every field is public; server and clients each derive it.

    All fields go into every derived key, ciphertext and signature: parties with different fields
    refuse each other. The server opens a session. After the members have sent their keys, both
    sides use `bound`, whose name comes from the members' fresh keys: the server chooses neither
    this name nor the graph that is drawn from it.

    Attributes
    ----------
    run, phase : str
    round : int
        Together they name the session. No two sessions may have the same name.
    modulus : int
        q, odd and below 2⁶³. Decoding the sum may need a prime.
    length : int
        Entries of the vectors.
    clients : tuple of int
        The L ≥ 2 partitions that are asked for keys, ascending; in a bound session the members,
        which sent some.
    threshold : int
        The minimum number of clients t that stay to the end, above L/2; 0 means ⌈2L/3⌉.
    neighbours : int
        The number of neighbours of each client; 0 means that of `neighbours.degree`. An odd number
        is raised by one.
    asked : int
        The number of clients that the vectors are encoded for, L or more; 0 means L.
    signed : bool
        Whether all members sign. If not, all are each other's neighbours.
    members : str
        SHA-256 of the members' keys in a bound session, in hexadecimal; before that empty.

    Raises
    ------
    SecureSumError
        If a value is out of range.
    """

    run: str
    phase: str
    round: int
    modulus: int
    length: int
    clients: tuple[int, ...]
    threshold: int = 0
    neighbours: int = 0
    asked: int = 0
    signed: bool = True
    members: str = ""

    def __post_init__(self) -> None:
        check_modulus(self.modulus)
        if self.length < 1:
            raise SecureSumError(
                f"length {self.length}: a vector must have at least one entry", key="vector"
            )
        if not 0 <= self.round < _LARGEST:
            raise SecureSumError(
                f"round {self.round}: it must be from 0 to {_LARGEST - 1}", key="round"
            )
        total = len(self.clients)
        if total < 2:
            raise SecureSumError(
                f"a sum over {total} hides nothing: it must be over two clients or more",
                key="too-few-clients",
            )
        if (
            list(self.clients) != sorted(set(self.clients))
            or self.clients[0] < 0
            or self.clients[-1] >= _LARGEST
        ):
            raise SecureSumError(
                f"clients must be different partitions from 0 to {_LARGEST - 1}, ascending",
                key="clients",
            )
        if self.threshold and not total < 2 * self.threshold <= 2 * total:
            raise SecureSumError(
                f"secure.threshold = {self.threshold} for {total} clients: it must be from"
                f" {total // 2 + 1}, more than half of them, to {total}, all of them, or auto",
                key="threshold",
            )
        if self.neighbours < 0:
            raise SecureSumError(
                f"neighbours {self.neighbours}: it must be positive, or 0", key="neighbours"
            )
        if self.asked and not total <= self.asked < _LARGEST:
            raise SecureSumError(
                f"{self.asked} clients were asked: they must be {total} or more", key="clients"
            )
        if not self.signed and 0 < self.neighbours < total - 1:
            raise SecureSumError(
                f"secure.neighbours = {self.neighbours}: without signatures it must be {total - 1},"
                " all others, or auto; give every node a signing-key and a roster",
                key="neighbours",
            )

    def bound(self, keys: Mapping[int, PublicKeys]) -> Self:
        """The session of the members that sent these keys, and no others.

        The threshold is that of the members. A server that leaves out clients' keys makes a smaller
        sum, as if it had not asked them: each node decides how small a sum may be.

        Raises
        ------
        SecureSumError
            If there are fewer than the configured threshold, or than two.
        """
        members = tuple(sorted(keys))
        self.check_enough(len(members), "sent keys", self.threshold or 2)
        digest = sha256(
            b"".join(client.to_bytes(8) + keys[client].both for client in members)
        ).hexdigest()
        signed = all(key.signature for key in keys.values())
        return replace(self, clients=members, asked=self.num_asked, signed=signed, members=digest)

    @property
    def num_asked(self) -> int:
        """The number of clients that the vectors are encoded for."""
        return self.asked or len(self.clients)

    @property
    def needed(self) -> int:
        """The threshold in use: the number of clients that every step needs."""
        return self.threshold or -(-2 * len(self.clients) // 3)

    @cached_property
    def degree(self) -> int:
        """The number of neighbours of each client: even, or all others."""
        num_others = len(self.clients) - 1
        if not self.signed:
            return num_others
        if self.neighbours:
            return min(self.neighbours + self.neighbours % 2, num_others)
        return neighbours.degree(num_others + 1, self.needed)

    @property
    def shares_needed(self) -> int:
        """The number of shares that recover a secret: more than half of at most 1 + `degree`."""
        return self.needed if self.degree == len(self.clients) - 1 else self.degree // 2 + 1

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the session."""
        fields = [
            _NAME,
            self.run,
            self.phase,
            self.round,
            self.modulus,
            self.length,
            self.clients,
            self.needed,
        ]
        binding = [self.degree, self.num_asked, self.signed, self.members]
        return sha256(json.dumps(fields + binding).encode()).digest()

    def context(self, purpose: str, *parts: int | bytes) -> bytes:
        """The bytes that bind a key, ciphertext or signature to this session and to one purpose.

        Parameters
        ----------
        purpose : str
            All contexts of one purpose must have the same number of parts, of the same sizes, but
            for a list of partitions at the end.
        parts : int or bytes
            Keys, and partitions of 8 bytes each.
        """
        body = b"".join(item if isinstance(item, bytes) else item.to_bytes(8) for item in parts)
        return purpose.encode() + b"\0" + self.digest + body

    def signed_survivors(self, basis: Basis, survivors: Collection[int]) -> bytes:
        """The text that a survivor signs: who is in the sum, and what its vector comes from."""
        return self.context("survivors", basis.digest, *sorted(survivors))

    def signed_keys(self, keys: PublicKeys, partition: int) -> bytes:
        """The text that a client signs beside its public keys."""
        return self.context("public keys", partition, keys.both)

    @cached_property
    def graph(self) -> Mapping[int, tuple[int, ...]]:
        """The neighbours of each member of a bound session."""
        return neighbours.neighbours_of(self.clients, self.degree, self.context("neighbours"))

    def check_survivors(self, survivors: Collection[int]) -> None:
        """Refuse survivors whose sum would reveal more than one sum over the threshold.

        Raises
        ------
        SecureSumError
            If they are fewer than the threshold, or masks do not connect all of them with each
            other.
        """
        self.check_enough(len(survivors), "survive")
        if not neighbours.is_connected(self.graph, survivors):
            raise SecureSumError(
                "the survivors must be a connected graph, or the sum would show sums over some of"
                " them",
                key="disconnected",
            )

    def check_enough(self, count: int, what: str, needed: int = 0) -> None:
        """Refuse fewer clients than the threshold, or than another number needed.

        Raises
        ------
        SecureSumError
        """
        if count < (needed or self.needed):
            raise SecureSumError(
                f"{count} of {len(self.clients)} clients {what}; needed {needed or self.needed}",
                key="too-few-clients",
            )


def checksum(masked_input: Residues, session: Session, partition: int) -> bytes:
    """SHA-256 of a client's masked input: it shows flipped bits, and vectors of other sessions."""
    text = (
        session.context("masked input", partition)
        + masked_input.astype("<u8", copy=False).tobytes()
    )
    return sha256(text).digest()
