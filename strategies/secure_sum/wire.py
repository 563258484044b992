"""What travels in a secure sum, as flat mappings of integers, bytes and lists of one of them, and back with checks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeVar

from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.keys import KEY_BYTES, SIGNATURE_BYTES
from curvfed.strategies.secure_sum.modular import Residues
from curvfed.strategies.secure_sum.session import Session
from curvfed.strategies.secure_sum.shamir import SHARE_BYTES

Parts = dict[str, str | int | bytes | list[int] | list[bytes]]
"""What a message or state is made of when it is sent or stored."""

HASH_BYTES = 32

SHARES_BYTES = 2 * SHARE_BYTES
"""Of a seed and of a mask secret, which a letter to a neighbour starts with."""

SEED_TAG, KEY_TAG = b"s", b"k"
"""What a revealed share is of."""

T = TypeVar("T")


@dataclass(frozen=True)
class Keys:
    """A client's public keys for one session.

    Attributes
    ----------
    mask_key, seal_key : bytes, 32
        X25519: for pairwise masks, and for sealing what clients send each other.
    signature : bytes
        Ed25519, 64 bytes; none if empty.

    Raises
    ------
    SecureSumError
        If a size is wrong.
    """

    mask_key: bytes
    seal_key: bytes
    signature: bytes = b""

    def __post_init__(self) -> None:
        _check_size("mask_key", self.mask_key, KEY_BYTES)
        _check_size("seal_key", self.seal_key, KEY_BYTES)
        if self.signature:
            _check_size("signature", self.signature, SIGNATURE_BYTES)

    @property
    def public(self) -> bytes:
        """Both keys."""
        return self.mask_key + self.seal_key

    def as_parts(self) -> Parts:
        """For the wire."""
        return {"mask_key": self.mask_key, "seal_key": self.seal_key, "signature": self.signature}

    @classmethod
    def from_parts(cls, parts: Mapping[str, object]) -> "Keys":
        """Inverse of `as_parts`.

        Raises
        ------
        SecureSumError
            If a part is missing, too many, or of a wrong type or size.
        """
        check_names(parts, "mask_key", "seal_key", "signature")
        return cls(bytes_in(parts, "mask_key"), bytes_in(parts, "seal_key"), bytes_in(parts, "signature"))


@dataclass(frozen=True)
class Shares:
    """What a client sends the others through the server.

    Attributes
    ----------
    sealed : mapping of int to bytes
        By receiver.
    commitment : bytes, 32
        A hash of the seed of the client's own mask.

    Raises
    ------
    SecureSumError
        If a size is wrong.
    """

    sealed: Mapping[int, bytes] = field(repr=False)
    commitment: bytes

    def __post_init__(self) -> None:
        _check_size("commitment", self.commitment, HASH_BYTES)

    def as_parts(self) -> Parts:
        """For the wire."""
        return {**by_partition_parts(self.sealed), "commitment": self.commitment}

    @classmethod
    def from_parts(cls, parts: Mapping[str, object]) -> "Shares":
        """Inverse of `as_parts`.

        Raises
        ------
        SecureSumError
            If a part is missing, too many, or of a wrong type or size.
        """
        check_names(parts, "partitions", "values", "commitment")
        return cls(_by_partition(parts), bytes_in(parts, "commitment"))


def by_partition_parts(values: Mapping[int, bytes]) -> Parts:
    """Bytes by partition, for the wire: letters that are delivered, shares that are revealed, a roster."""
    return {"partitions": [*values], "values": [*values.values()]}


def by_partition(parts: Mapping[str, object]) -> dict[int, bytes]:
    """Inverse of `by_partition_parts`.

    Raises
    ------
    SecureSumError
        If a part is missing, too many or of a wrong type, or a partition comes twice.
    """
    check_names(parts, "partitions", "values")
    return _by_partition(parts)


def key_book_parts(keys: Mapping[int, Keys]) -> Parts:
    """The keys of many clients, for the wire."""
    return {
        "partitions": [*keys],
        "mask_keys": [one.mask_key for one in keys.values()],
        "seal_keys": [one.seal_key for one in keys.values()],
        "signatures": [one.signature for one in keys.values()],
    }


def key_book(parts: Mapping[str, object]) -> dict[int, Keys]:
    """Inverse of `key_book_parts`.

    Raises
    ------
    SecureSumError
        If a part is missing, too many, or of a wrong type or size, or a partition comes twice.
    """
    check_names(parts, "partitions", "mask_keys", "seal_keys", "signatures")
    columns = [list_in(parts, name, bytes) for name in ("mask_keys", "seal_keys", "signatures")]
    partitions = _partitions(parts, *columns)
    return {partition: Keys(*values) for partition, *values in zip(partitions, *columns, strict=True)}


def checksum(vector: Residues, session: Session, partition: int) -> bytes:
    """SHA-256 of a client's masked vector, sent beside it: bits that flip on the way and other sessions show."""
    return sha256(session.context("masked", partition) + vector.astype("<u8", copy=False).tobytes()).digest()


def check_names(parts: Mapping[str, object], *names: str) -> None:
    """Refuse other parts than the named ones.

    Raises
    ------
    SecureSumError
    """
    if parts.keys() != set(names):
        raise SecureSumError(f"a message with the parts {sorted(map(str, parts))}; it must have {sorted(names)}")


def bytes_in(parts: Mapping[str, object], name: str) -> bytes:
    """A part that must be bytes.

    Raises
    ------
    SecureSumError
    """
    return _typed(parts, name, bytes)


def int_in(parts: Mapping[str, object], name: str) -> int:
    """A part that must be an integer.

    Raises
    ------
    SecureSumError
    """
    return _typed(parts, name, int)


def str_in(parts: Mapping[str, object], name: str) -> str:
    """A part that must be text.

    Raises
    ------
    SecureSumError
    """
    return _typed(parts, name, str)


def list_in(parts: Mapping[str, object], name: str, kind: type[T]) -> list[T]:
    """A part that must be a list of one type.

    Raises
    ------
    SecureSumError
    """
    value = parts[name]
    if not isinstance(value, list) or any(type(entry) is not kind for entry in value):
        raise SecureSumError(f"{name} must be a list of {kind.__name__}")
    return value


def _typed(parts: Mapping[str, object], name: str, kind: type[T]) -> T:
    value = parts[name]
    if type(value) is not kind:
        raise SecureSumError(f"{name} is of type {type(value).__name__}; it must be {kind.__name__}")
    return value


def _by_partition(parts: Mapping[str, object]) -> dict[int, bytes]:
    values = list_in(parts, "values", bytes)
    return dict(zip(_partitions(parts, values), values, strict=True))


def _partitions(parts: Mapping[str, object], *columns: list[bytes]) -> list[int]:
    partitions = list_in(parts, "partitions", int)
    if len(set(partitions)) != len(partitions):
        raise SecureSumError("a partition that comes twice in one message")
    if any(len(column) != len(partitions) for column in columns):
        raise SecureSumError("a message with lists of different lengths")
    return partitions


def _check_size(name: str, value: bytes, size: int) -> None:
    if len(value) != size:
        raise SecureSumError(f"{name} has {len(value)} bytes; it must have {size}")
