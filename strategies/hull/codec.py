"""A client's hulls as one vector, the hulls in the sum of such vectors, and the public parameters
that all parties must agree on."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.arrays import Integers
from curvfed.geometry.hull import convex_hull
from curvfed.geometry.quantizer import PoincareQuantizer
from curvfed.strategies.errors import HullError, undecodable
from curvfed.strategies.hull.label_codes import MAX_BITS, BinaryCode, BoseChowla
from curvfed.strategies.hull.symbols import SPARE, decode, encode, prime_above

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
        Largest hyperbolic distance between two points of a bin; but see `equal_area` of
        `PoincareQuantizer`.
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
    equal_area : bool
        Whether all bins have one area, in rings of different width.

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
    equal_area: bool = False

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
            return PoincareQuantizer(self.epsilon, self.radius, self.curvature, self.equal_area)
        except ValueError as error:
            raise ValueError(
                f"hull.epsilon={self.epsilon} with hull.radius={self.radius}: {error}"
            ) from error

    @cached_property
    def label_code(self) -> BinaryCode | BoseChowla:
        """The label code over all slots.

        A word of the binary code has as many slots as fit in the bits that the bins need anyway.
        More slots in a word would need a larger prime, and decoding time grows with its bits. Fewer
        slots would not shorten the vector: its length is proportional to the number of all slots.
        """
        if self.code == "bose-chowla":
            return BoseChowla(self.num_slots, self.h)
        bits = max(_MIN_BITS, self.quantizer.num_bins.bit_length())
        return BinaryCode(self.num_slots, min(bits, MAX_BITS))

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
        """Whether a vector over all bins is at most as long as the power sums of `max_occupied`
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
        text = json.dumps(values | floats | derived, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


Words = NDArray[np.uint64]


class DecodedHulls(NamedTuple):
    """The hulls of all clients.

    Attributes
    ----------
    bins : list of uint64 arrays
        The bins of each hull, ascending.
    clients : int array (h,)
        The anonymous client of each hull, numbered from 0.
    """

    bins: list[Words]
    clients: Integers

    @classmethod
    def of(cls, clients: Iterable[list[list[int]]]) -> Self:
        """Sort each client's hulls, and the clients by their hulls."""
        ordered = sorted(sorted(hulls) for hulls in clients)
        bins = [np.array(hull, dtype=np.uint64) for hulls in ordered for hull in hulls]
        return cls(bins, np.repeat(np.arange(len(ordered)), list(map(len, ordered))))

    def by_client(self) -> list[list[list[int]]]:
        """Each client's hulls."""
        hulls_by_client: dict[int, list[list[int]]] = {}
        for hull, client in zip(self.bins, self.clients.tolist(), strict=True):
            hulls_by_client.setdefault(client, []).append(hull.tolist())
        return list(hulls_by_client.values())


def encode_hulls(
    hulls: Sequence[Words], position: int, slots: Sequence[int], public: PublicParameters
) -> Words:
    """A client's vector. The sum of all clients' vectors shows which hulls belong to one client,
    but not to which client.

    Parameters
    ----------
    hulls : sequence of uint64 arrays
        The bins of each hull, distinct, 1 to B, at most `public.cap`; up to J hulls. Hulls may have
        bins in common.
    position : int
        This client's place in the secret order of all clients, 0 to L − 1.
    slots : sequence of int
        The slot of each hull, distinct, 0 to J − 1, drawn at random by the client.
    public : PublicParameters

    Returns
    -------
    uint64 array (public.length,)
        Residues modulo `public.prime`, to be added modulo it. Hulls without bins contribute
        nothing.

    Raises
    ------
    HullError
        If an argument is out of its range.
    """
    _check(hulls, position, slots, public)
    words: list[dict[int, int]] = [{} for _ in range(public.label_code.num_words)]
    for hull, slot in zip(hulls, slots, strict=True):
        global_slot = position * public.num_classes + slot
        word = words[global_slot // public.label_code.width]
        label = public.label_code.label(global_slot)
        for place in hull.tolist():
            word[place] = word.get(place, 0) + label
    return np.concatenate([_encode_word(word, public) for word in words])


def decode_hulls(total: Words, public: PublicParameters) -> DecodedHulls:
    """All clients' hulls, from the sum of their vectors.

    Positions and slots are random. The result is therefore sorted: hulls within a client, and
    clients by their hulls. Equal hulls give an equal result.

    Parameters
    ----------
    total : uint64 array (public.length,)
        The sum modulo `public.prime` of at most one vector per client.
    public : PublicParameters

    Raises
    ------
    HullError
        If it is not such a sum, or a bin is in more hulls than the label code can separate.
    """
    if total.shape != (public.length,):
        raise undecodable(f"it has {total.size} numbers; {public.length} are needed")
    if int(total.max()) >= public.prime:
        raise undecodable("a number is not below the prime")
    clients: dict[int, list[list[int]]] = {}
    for number, word in enumerate(total.reshape(public.label_code.num_words, -1)):
        bins, sums = _decode_word(word, public)
        members = public.label_code.members(sums)
        for slot in np.flatnonzero(members.any(axis=0)).tolist():
            hull = bins[members[:, slot]]
            global_slot = number * public.label_code.width + slot
            if hull.size > public.cap or global_slot >= public.num_slots:
                raise undecodable("a hull has more vertices than the cap, or belongs to no client")
            clients.setdefault(global_slot // public.num_classes, []).append(hull.tolist())
    return DecodedHulls.of(clients.values())


def _encode_word(word: dict[int, int], public: PublicParameters) -> Words:
    """The numbers of one word, from the sum of labels by occupied bin."""
    bins = np.array(list(word), dtype=np.uint64)
    sums = np.array(list(word.values()), dtype=np.uint64)
    if not public.is_dense:
        return encode(bins, sums, public.word_length, public.prime)
    dense = np.zeros(public.quantizer.num_bins, dtype=np.uint64)
    dense[(bins - np.uint64(1)).astype(np.int64)] = sums
    return np.concatenate([dense, encode(bins, sums, SPARE, public.prime)])


def _decode_word(word: Words, public: PublicParameters) -> tuple[Words, Words]:
    """The occupied bins, ascending, and the sum of labels in each."""
    if not public.is_dense:
        return decode(word, public.prime, public.quantizer.num_bins, public.max_occupied)
    dense = word[:-SPARE]
    spare = word[-SPARE:]
    places = np.flatnonzero(dense)
    bins = places.astype(np.uint64) + np.uint64(1)
    sums = dense[places]
    if not np.array_equal(encode(bins, sums, SPARE, public.prime), spare):
        raise undecodable("its entries contradict each other")
    return bins, sums


def _check(
    hulls: Sequence[Words], position: int, slots: Sequence[int], public: PublicParameters
) -> None:
    maximum = public.num_classes
    if sorted(slots) != sorted({*slots} & {*range(maximum)}) or len(slots) != len(hulls):
        raise HullError(
            f"each hull of a client has a slot of its own, 0 to {maximum - 1}", key="slots"
        )
    if position not in range(public.num_clients):
        raise HullError(f"a position must be 0 to {public.num_clients - 1}", key="position")
    last = public.quantizer.num_bins
    for hull in hulls:
        bins = np.unique(hull)
        if bins.size < hull.size or hull.size > public.cap or ((bins < 1) | (bins > last)).any():
            raise HullError(
                f"a hull has up to hull.cap = {public.cap} distinct bins, 1 to {last}", key="bins"
            )


def without_forged(hulls: DecodedHulls, public: PublicParameters) -> tuple[DecodedHulls, int]:
    """The hulls without those of clients that sent a set of bins that is not a hull.

    Every bin of an honest hull is a corner of it, also after thinning. This fails for most invented
    points, and for two hulls in one slot.

    Returns
    -------
    hulls : DecodedHulls
        Of the other clients, numbered from 0 again.
    refused : int
        Number of clients left out.
    """
    clients = hulls.by_client()
    honest = [client_hulls for client_hulls in clients if _are_convex(client_hulls, public)]
    return DecodedHulls.of(honest), len(clients) - len(honest)


def _are_convex(hulls: list[list[int]], public: PublicParameters) -> bool:
    """Whether every bin is a corner of its hull."""
    for bins in hulls:
        points = public.quantizer.decode(np.array(bins, np.uint64))
        if len(convex_hull(points, public.curvature)) < len(bins):
            return False
    return True
