"""Sums of integer vectors modulo a number that show a server nothing but the sum: the members of a
fixed group agree on keys in pairs once a run, and hide each vector by a mask of every pair, which
cancel each other in the sum (Kursawe, Danezis, Kohlweiss, PETS 2011). Here are the public
parameters, known to all parties before a vector is masked."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import sha256

from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.secure_sum.fixed_point import Residues, check_modulus

_NAME = "curvfed secure sum 5"
_LARGEST = 2**32  # partitions and rounds are below this


@dataclass(frozen=True)
class Named:
    """Public values that all parties know, by their digest."""

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the values."""
        values = [getattr(self, item.name) for item in fields(self)]
        return sha256(json.dumps([_NAME, *values]).encode()).digest()

    def context(self, purpose: str, *parts: int | bytes) -> bytes:
        """The bytes that bind a key, ciphertext or signature to these values and to one purpose.

        Parameters
        ----------
        purpose : str
            All contexts of one purpose must have the same number of parts, of the same sizes.
        parts : int or bytes
            Keys, and partitions of 8 bytes each.
        """
        body = b"".join(item if isinstance(item, bytes) else item.to_bytes(8) for item in parts)
        return purpose.encode() + b"\0" + self.digest + body


@dataclass(frozen=True)
class Group(Named):
    """The members of a run's secure sums: they are summed all together or not at all.

    Attributes
    ----------
    run : str
        Name of the run.
    members : tuple of int
        The two or more partitions, ascending.

    Raises
    ------
    SecureSumError
        If a value is out of range.
    """

    run: str
    members: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.members) < 2:
            raise SecureSumError(
                f"a sum over {len(self.members)} hides nothing: it must be over two clients or"
                " more",
                key="too-few-clients",
            )
        is_ascending = list(self.members) == sorted(set(self.members))
        if not is_ascending or self.members[0] < 0 or self.members[-1] >= _LARGEST:
            raise SecureSumError(
                f"clients must be different partitions from 0 to {_LARGEST - 1}, ascending",
                key="clients",
            )

    def signed_key(self, partition: int, key: bytes) -> bytes:
        """The text that a member signs with its public key."""
        return self.context("public key", partition, key)

    def digest_of_keys(self, keys: Mapping[int, bytes]) -> bytes:
        """SHA-256 of the public keys of all members."""
        return sha256(b"".join(keys[member] for member in self.members)).digest()


@dataclass(frozen=True)
class Session(Named):
    """One sum of one vector per member. Every field is public; server and members each derive it.

    All fields go into every mask: the masks of members with different fields do not cancel each
    other.

    Attributes
    ----------
    run, phase : str
    round : int
        Together they name the session. A member masks one vector for each name.
    modulus : int
        q, odd and below 2⁶³. Decoding the sum may need a prime.
    length : int
        Entries of the vectors.
    clients : tuple of int
        The members of the group, ascending.

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

    def __post_init__(self) -> None:
        Group(self.run, self.clients)
        check_modulus(self.modulus)
        if self.length < 1:
            raise SecureSumError(
                f"length {self.length}: a vector must have at least one entry", key="vector"
            )
        if not 0 <= self.round < _LARGEST:
            raise SecureSumError(
                f"round {self.round}: it must be from 0 to {_LARGEST - 1}", key="round"
            )


def checksum(masked_input: Residues, session: Session, partition: int) -> bytes:
    """SHA-256 of a member's masked input: it shows flipped bits, and vectors of other sessions."""
    text = (
        session.context("masked input", partition)
        + masked_input.astype("<u8", copy=False).tobytes()
    )
    return sha256(text).digest()
