"""The public parameters of the hull protocol, and values derived from them. All parties must agree
on them."""

import hashlib
import json
from dataclasses import dataclass, fields
from functools import cached_property

from curvfed.geometry.quantizer import PoincareQuantizer
from curvfed.strategies.hull.bose_chowla import BoseChowla
from curvfed.strategies.hull.labels import MAX_BITS, BinaryCode
from curvfed.strategies.hull.roots import prime_above
from curvfed.strategies.hull.symbols import SPARE

CODES = ("binary", "bose-chowla")
"""Label codes by name."""
MAX_LENGTH = 50_000_000
"""Maximum number of numbers that a client sends: 400 MB."""
_MIN_BITS = 24  # of the prime; a smaller one would hardly save anything


@dataclass(frozen=True)
class PublicParameters:
    """Parties with equal parameters encode alike. Compare them by `digest`.

    Attributes
    ----------
    curvature : float
    radius : float
        Largest Euclidean norm of a quantised point.
    epsilon : float
        Largest hyperbolic distance between two points of a bin.
    num_classes : int
        J ≥ 1; a client has at most one hull of each class.
    num_clients : int
        L ≥ 2.
    cap : int
        Maximum number of vertices of a hull, ≥ 1. With the numbers above it determines the size of
        every client's message, so that no message reveals the size of a hull.
    code : str
        One of `CODES`.
    h : int
        With "bose-chowla", the maximum number of hulls in a bin.

    Raises
    ------
    ValueError
        If a value is out of range, bins or sums of labels exceed `MAX_BITS` bits, or a vector
        exceeds `MAX_LENGTH` numbers. The error names the run-config key to change.
    """

    curvature: float
    radius: float
    epsilon: float
    num_classes: int
    num_clients: int
    cap: int
    code: str = "binary"
    h: int = 2

    def __post_init__(self) -> None:
        for name, value, minimum in (
            ("the number of classes", self.num_classes, 1),
            ("the number of clients", self.num_clients, 2),
            ("hull.cap", self.cap, 1),
        ):
            if value < minimum:
                raise ValueError(f"{name} is {value}; at least {minimum} is needed")
        if self.code not in CODES:
            raise ValueError(f"hull.code={self.code!r}; allowed are {', '.join(CODES)}")
        if self.length > MAX_LENGTH:
            raise ValueError(
                f"every client would send {self.length} numbers; allowed are up to {MAX_LENGTH}: "
                "take a smaller hull.cap, or a larger hull.epsilon"
            )

    @cached_property
    def quantizer(self) -> PoincareQuantizer:
        """Maps points to bins and back."""
        try:
            return PoincareQuantizer(self.epsilon, self.radius, self.curvature)
        except ValueError as error:
            raise ValueError(
                f"hull.epsilon={self.epsilon} with hull.radius={self.radius}: {error}"
            ) from error

    @cached_property
    def label_code(self) -> BinaryCode | BoseChowla:
        """The label code over all slots.

        A word of the binary code has as many slots as fit in the bits that the bins need anyway.
        More slots in a word would need a larger prime, and decoding time grows with its bits. Fewer
        slots would not shorten the vector, whose length is proportional to the number of all slots.
        """
        if self.code == "bose-chowla":
            return BoseChowla(self.num_slots, self.h)
        return BinaryCode(
            self.num_slots, min(max(_MIN_BITS, self.quantizer.num_bins.bit_length()), MAX_BITS)
        )

    @property
    def num_slots(self) -> int:
        """J·L, one slot for every possible hull."""
        return self.num_classes * self.num_clients

    @property
    def max_occupied(self) -> int:
        """Largest number of occupied bins of a word."""
        return min(self.label_code.width * self.cap, self.quantizer.num_bins)

    @property
    def is_dense(self) -> bool:
        """Whether a vector over all bins is no longer than the power sums of `max_occupied`
        bins.
        """
        return self.quantizer.num_bins <= 2 * self.max_occupied

    @property
    def word_length(self) -> int:
        """Numbers of one word: 2 per bin that may be occupied, or 1 per bin, plus the redundant
        numbers."""
        return min(2 * self.max_occupied, self.quantizer.num_bins) + SPARE

    @property
    def length(self) -> int:
        """Numbers that every client sends."""
        return self.label_code.num_words * self.word_length

    @cached_property
    def prime(self) -> int:
        """The modulus of all sums. It is larger than every bin and every sum of labels."""
        return prime_above(max(self.quantizer.num_bins, self.label_code.largest, 1 << _MIN_BITS))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the parameters and of the derived values, in hexadecimal."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        floats = {name: float(values[name]).hex() for name in ("curvature", "radius", "epsilon")}
        derived = {"num_bins": self.quantizer.num_bins, "prime": self.prime, "length": self.length}
        return hashlib.sha256(
            json.dumps(values | floats | derived, sort_keys=True).encode()
        ).hexdigest()
