"""What all parties of a secure sum know beforehand."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from curvfed.strategies.secure_sum import neighbours
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.modular import check_modulus

_NAME = "curvfed secure sum 1"
_LARGEST = 2**32  # partitions and rounds stay below


@dataclass(frozen=True)
class Session:
    """One sum of one vector per client. Everything here is public; server and clients derive it from what they know.

    All of it goes into every derived key, seal and signature: parties that differ in any of it cannot talk.

    Attributes
    ----------
    run, phase : str
    round : int
        Together they name the session; they must not come twice.
    modulus : int
        q, odd and below 2⁶³. The sum is right for any such number; those who decode it may want a prime.
    length : int
        Entries of the vectors.
    clients : tuple of int
        L ≥ 2 partitions that are asked, ascending.
    threshold : int
        Fewest clients t that must stay to the end, above L/2; 0 is ⌈2L/3⌉.
    neighbours : int
        Clients that each shares masks and shares with, 0 for all up to 64 clients and else by
        `neighbours.degree`. An odd number is one less than is taken.

    Raises
    ------
    SecureSumError
        If one of them is out of range.
    """

    run: str
    phase: str
    round: int
    modulus: int
    length: int
    clients: tuple[int, ...]
    threshold: int = 0
    neighbours: int = 0

    def __post_init__(self) -> None:
        check_modulus(self.modulus)
        if self.length < 1:
            raise SecureSumError(f"length {self.length}: a vector must have at least one entry")
        if not 0 <= self.round < _LARGEST:
            raise SecureSumError(f"round {self.round}: it must be from 0 to {_LARGEST - 1}")
        total = len(self.clients)
        if total < 2:
            raise SecureSumError(f"a sum over {total} hides nothing: it must be over two clients or more")
        if list(self.clients) != sorted(set(self.clients)) or self.clients[0] < 0 or self.clients[-1] >= _LARGEST:
            raise SecureSumError(f"clients must be different partitions from 0 to {_LARGEST - 1}, ascending")
        if self.threshold and not total < 2 * self.threshold <= 2 * total:
            raise SecureSumError(
                f"threshold {self.threshold} of {total} clients: it must be from {total // 2 + 1}, more than half of them, "
                f"to {total}, all of them, or 0"
            )
        if self.neighbours < 0:
            raise SecureSumError(f"neighbours {self.neighbours}: it must be positive, or 0")

    @property
    def needed(self) -> int:
        """Fewest clients at every step."""
        return self.threshold or -(-2 * len(self.clients) // 3)

    @cached_property
    def degree(self) -> int:
        """Neighbours of each client: even, or all others."""
        others = len(self.clients) - 1
        if self.neighbours:
            return min(self.neighbours + self.neighbours % 2, others)
        return neighbours.degree(others + 1, self.needed)

    @property
    def shares_needed(self) -> int:
        """Fewest shares that give a client's secret, of at most 1 + `degree`: more than half of them."""
        return self.needed if self.degree == len(self.clients) - 1 else self.degree // 2 + 1

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the session."""
        fields = [_NAME, self.run, self.phase, self.round, self.modulus, self.length, self.clients, self.needed]
        return sha256(json.dumps([*fields, self.degree]).encode()).digest()

    def context(self, purpose: str, *parts: int | bytes) -> bytes:
        """The session's part of a key, seal or signature: purpose, digest and what else it is for.

        Parameters
        ----------
        purpose : str
            No two of a purpose may differ in the number and the sizes of their parts.
        parts : int or bytes
            Partitions as 8 bytes each.
        """
        body = b"".join(part if isinstance(part, bytes) else part.to_bytes(8) for part in parts)
        return purpose.encode() + b"\0" + self.digest + body

    def graph(self, clients: tuple[int, ...]) -> Mapping[int, tuple[int, ...]]:
        """The neighbours of each of those clients who sent keys, among them."""
        return neighbours.neighbours_of(clients, self.degree, self.context("neighbours"))

    def check_enough(self, found: int, what: str) -> None:
        """Refuse fewer clients than the threshold.

        Raises
        ------
        SecureSumError
        """
        if found < self.needed:
            raise SecureSumError(f"{found} of {len(self.clients)} clients {what}; needed {self.needed}")
