"""The split of records by a keyed hash of each, so that one record changes nothing but itself."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np

from curvfed.geometry.arrays import Booleans, Floats, Integers

PLACE_BITS = 53
"""Bits of a record's place, as many as a float64 holds."""

KEY_BYTES = 32


@dataclass(frozen=True)
class RecordSplit:
    """The split of a client's records into training, validation and test records.

    A keyed hash gives every record a place in [0, 1). Records below `train_size` train, those from
    1 − `test_size` are test records, the others validate. A record's place depends on its content,
    and among equal records on its number; no other record moves it.

    Attributes
    ----------
    key : bytes
        A node's secret, or in a simulation a constant of the seed.
    train_size, test_size : float
        Shares of the records to expect, together at most 1.
    number : int
        Which of several splits in a file is used, modulo their number.

    Examples
    --------
    >>> split = RecordSplit(b"key", train_size=0.5, test_size=0.25)
    >>> split.parts([b"a", b"b", b"c", b"a"]).tolist()
    [0, 0, 2, 1]
    >>> split.parts([b"a", b"c", b"a"]).tolist()
    [0, 2, 1]
    """

    key: bytes = field(repr=False)
    train_size: float
    test_size: float
    number: int = 0

    @classmethod
    def of_seed(cls, run: Any) -> Self:
        """The split of simulated clients, by the seed of a run with resolved defaults."""
        key = blake2b(f"split of seed {run.seed}".encode(), digest_size=KEY_BYTES).digest()
        return cls(key, run.train_size, run.test_size, run.seed)

    @property
    def shares(self) -> tuple[float, float]:
        """The shares of training and test records."""
        return self.train_size, self.test_size

    @property
    def name(self) -> str:
        """A digest of key, shares and number, which reveals no key."""
        text = f"{self.train_size!r} {self.test_size!r} {self.number}"
        return blake2b(text.encode(), key=self.key, digest_size=16).hexdigest()

    def parts(self, records: Sequence[bytes]) -> Integers:
        """The part of each record (n,): 0 training, 1 validation, 2 test."""
        places = self._places(records, "")
        parts = np.ones(len(places), np.int64)
        parts[places >= 1 - self.test_size] = 2
        parts[places < self.train_size] = 0
        return parts

    def draw(self, records: Sequence[bytes], share: float, purpose: str) -> Booleans:
        """Draw a share of the records for another purpose: a mask (n,)."""
        return self._places(records, purpose) < share

    def digest(self, records: Sequence[bytes], parts: Integers, context: bytes = b"") -> str:
        """The keyed digest of the shares, the records with their parts, in any order, and a
        context: all else that a client computes from.

        Examples
        --------
        >>> split = RecordSplit(b"key", 0.5, 0.25)
        >>> one = split.digest([b"a", b"b"], np.array([0, 2]))
        >>> one == split.digest([b"b", b"a"], np.array([2, 0]))
        True
        >>> one == split.digest([b"a", b"b"], np.array([2, 0]))
        False
        """
        pairs = zip(records, parts.tolist(), strict=True)
        lines = sorted(record + bytes([role]) for record, role in pairs)
        hasher = blake2b(self.name.encode(), key=self.key, digest_size=32)
        for line in [*lines, context]:
            hasher.update(len(line).to_bytes(8) + line)
        return hasher.hexdigest()

    def digest_of_file(self, path: Path) -> str:
        """The keyed digest of a file, where a method reads it in its own way, without a split."""
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").digest()
        return blake2b(content, key=self.key, digest_size=32).hexdigest()

    def _places(self, records: Sequence[bytes], purpose: str) -> Floats:
        numbers: Counter[bytes] = Counter()
        places = []
        for record in records:
            text = numbers[record].to_bytes(8) + purpose.encode() + b"\0" + record
            numbers[record] += 1
            place = blake2b(text, key=self.key, digest_size=8).digest()
            places.append(int.from_bytes(place) >> (64 - PLACE_BITS))
        return np.array(places, dtype=np.float64) / 2**PLACE_BITS


def record_of(content: bytes, class_name: str) -> bytes:
    """A record with this content and class, as a digest.

    The class has its name, as its number depends on the classes of other records; "" if it is
    unknown.
    """
    record = len(content).to_bytes(8) + content + class_name.encode()
    return blake2b(record, digest_size=32).digest()


def records_of(
    contents: Iterable[bytes], labels: Sequence[int], class_names: Sequence[str]
) -> list[bytes]:
    """The records of these contents and labels; a label of −1 is unknown."""
    names = [*class_names, ""]
    pairs = zip(contents, labels, strict=True)
    return [record_of(content, names[label]) for content, label in pairs]
