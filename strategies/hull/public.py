"""What all parties of the protocol must agree on before anyone encodes, and what follows from it."""

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
"""Numbers that a client may have to send: 400 MB."""
_WORD = 24  # bits below which a smaller prime would save nothing worth having


@dataclass(frozen=True)
class Public:
    """Public values. All parties that hold equal ones encode alike; `digest` compares them.

    Attributes
    ----------
    curvature : float
    radius : float
        Euclidean norm that no quantised point exceeds.
    epsilon : float
        Hyperbolic distance that a point moves at most by quantisation.
    num_classes : int
        Hulls of a client at most, J ≥ 1.
    num_clients : int
        L ≥ 2.
    cap : int
        Vertices of one hull at most, ≥ 1. With the numbers above it fixes how much everyone sends, so that no message
        tells how large a hull is.
    code : str
        One of `CODES`.
    h : int
        Hulls that may meet in one bin, with "bose-chowla"; "binary" does not look at it.

    Raises
    ------
    ValueError
        If one is out of range, if bins or sums of labels exceed `MAX_BITS` bits, or a vector `MAX_LENGTH` numbers; the
        run-config key to change is named.
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
        for name, value, least in (
            ("the number of classes", self.num_classes, 1),
            ("the number of clients", self.num_clients, 2),
            ("hull.cap", self.cap, 1),
        ):
            if value < least:
                raise ValueError(f"{name} is {value}; at least {least} is needed")
        if self.code not in CODES:
            raise ValueError(f"hull.code={self.code!r}; allowed are {', '.join(CODES)}")
        if self.length > MAX_LENGTH:
            raise ValueError(
                f"every client would send {self.length} numbers; allowed are up to {MAX_LENGTH}: "
                "take a smaller hull.cap, or a larger hull.epsilon"
            )

    @cached_property
    def quantizer(self) -> PoincareQuantizer:
        """Points to bins and back."""
        try:
            return PoincareQuantizer(self.epsilon, self.radius, self.curvature)
        except ValueError as error:
            raise ValueError(f"hull.epsilon={self.epsilon} with hull.radius={self.radius}: {error}") from error

    @cached_property
    def labels(self) -> BinaryCode | BoseChowla:
        """The label code over all slots.

        A word of the binary code takes as many slots as keep its sums in the bits that the bins need anyway. Further
        slots in a word would cost a larger prime, and time to decode grows with its bits; fewer would not shorten what is
        sent, for that is as long as there are slots.
        """
        if self.code == "bose-chowla":
            return BoseChowla(self.num_slots, self.h)
        return BinaryCode(self.num_slots, min(max(_WORD, self.quantizer.num_bins.bit_length()), MAX_BITS))

    @property
    def num_slots(self) -> int:
        """J·L."""
        return self.num_classes * self.num_clients

    @property
    def most(self) -> int:
        """Occupied bins of a word at most."""
        return min(self.labels.width * self.cap, self.quantizer.num_bins)

    @property
    def is_dense(self) -> bool:
        """Whether a vector over all bins is no longer than the symbols of as many as may be occupied."""
        return self.quantizer.num_bins <= 2 * self.most

    @property
    def word_length(self) -> int:
        """Numbers of one word: 2 per bin that may be occupied, or 1 per bin, and the spare ones."""
        return min(2 * self.most, self.quantizer.num_bins) + SPARE

    @property
    def length(self) -> int:
        """Numbers that every client sends."""
        return self.labels.num_words * self.word_length

    @cached_property
    def prime(self) -> int:
        """The modulus of all sums: above every bin, so that none is 0, and every sum of labels, so that none wraps."""
        return prime_above(max(self.quantizer.num_bins, self.labels.largest, 1 << _WORD))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the values and of what follows from them here, in hexadecimal."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        floats = {name: float(values[name]).hex() for name in ("curvature", "radius", "epsilon")}
        derived = {"num_bins": self.quantizer.num_bins, "prime": self.prime, "length": self.length}
        return hashlib.sha256(json.dumps(values | floats | derived, sort_keys=True).encode()).hexdigest()
