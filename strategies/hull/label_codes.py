"""Label codes: numbers for hulls; their sum in a bin determines which hulls have a vertex there.

Every hull has its own slot, so that a label occurs at most once per bin. A code spreads the slots
over words, separate sums with `width` slots each: slot s has number s mod width in word s // width.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.arrays import Booleans, Integers
from curvfed.strategies.errors import HullError, undecodable

Sums = NDArray[np.uint64]

MAX_BITS = 62
"""Largest size of a sum of labels, and of a bin. The prime above both is below 2⁶³: two residues
add up in a uint64."""


class BinaryCode:
    """The label of slot i of a word is 2^i: a bin may be in any number of hulls.

    Parameters
    ----------
    num_labels : int
        The number of slots, ≥ 1.
    bits : int
        The largest number of slots in a word. The labels are spread evenly over as few words as
        possible.

    Attributes
    ----------
    width : int
        The number of slots in a word.
    num_words : int
    largest : int
        No sum of labels of one word is larger.
    """

    def __init__(self, num_labels: int, bits: int) -> None:
        self.num_words = -(-num_labels // bits)
        self.width = -(-num_labels // self.num_words)
        self.largest = 2**self.width - 1

    def label(self, slot: int) -> int:
        """The label that a slot, 0 to `width`·`num_words` − 1, adds to its word: 2^(slot mod
        width)."""
        return 1 << slot % self.width

    def members(self, sums: Sums) -> Booleans:
        """The slots of a word that each sum consists of.

        Parameters
        ----------
        sums : uint64 array (n,)

        Returns
        -------
        bool array (n, width)

        Raises
        ------
        HullError
            If a number is not a sum of labels.
        """
        if sums.size and int(sums.max()) > self.largest:
            raise undecodable("the number in a bin is not a sum of labels")
        return (sums[:, None] >> np.arange(self.width, dtype=np.uint64) & np.uint64(1)).astype(bool)


MAX_LABELS = 2000
"""Largest number of slots."""
# largest prime factor of p^h − 1, and then largest prime power in it: discrete logarithms take 2^17
# to 2^20 steps, under a second
_SMOOTH = 2**34


class BoseChowla:
    """The label of slot s is a(s + 1)·2^k + 1. The low k bits count the labels in a bin, which
    reveals more than h.

    Let x be primitive in GF(p^h). For each α in GF(p), x^a' = x + α defines a number a'(α). A sum
    of h such numbers determines the α's, because products of h factors x + α that are equal in the
    field are equal as polynomials. The smallest number is a'(0) = 1. Therefore sums of *up to* h of
    the numbers a(α) = a'(α) − 1, α ≠ 0, determine their α's: the missing terms are zeros. (Appendix
    G of the hulls paper takes differences of neighbours instead, where this does not hold.)

    A sum is decoded by arithmetic in the field. If A is the sum of c numbers, then x^(A + c) is the
    product of the factors x + α, modulo the minimal polynomial of x if c = h, and the roots of the
    product are the −α.

    Parameters
    ----------
    num_labels : int
        The number of slots, up to `MAX_LABELS`.
    h : int
        The maximum number of hulls in a bin, 2 to `num_labels`.

    Raises
    ------
    ValueError
        If h or the number of labels is out of range, or the sum of all labels may exceed
        `labels.MAX_BITS` bits.
    """

    num_words = 1

    def __init__(self, num_labels: int, h: int) -> None:
        from flint import fq_default_ctx

        if num_labels > MAX_LABELS:
            raise ValueError(
                f"{num_labels} hulls in all; hull.code=bose-chowla has labels for up to"
                f" {MAX_LABELS}"
            )
        if not 2 <= h <= num_labels:
            raise ValueError(
                f"hull.h = {h}; allowed are 2 up to the number of hulls in all, {num_labels}"
            )
        self.width = num_labels
        self.h = h
        self._counter = num_labels.bit_length()
        self._prime = self._field_prime()
        self._field = fq_default_ctx(
            modulus=_primitive_polynomial(self._prime, h), fq_type="FQ_NMOD"
        )
        shifts = np.arange(1, num_labels + 1)
        linear = np.zeros((num_labels, h), dtype=np.int64)
        linear[:, 0] = shifts
        linear[:, 1] = 1
        self.numbers = [log - 1 for log in _logarithms(self._field, linear)]
        """The B_h set, one number per slot."""
        self.largest = sum(map(self.label, range(num_labels)))

    def label(self, slot: int) -> int:
        """The label of a slot."""
        return (self.numbers[slot] << self._counter) + 1

    def members(self, sums: Sums) -> Booleans:
        """See `BinaryCode.members`. Also raises if a sum has more labels than the code can
        separate."""
        distinct, where = np.unique(sums, return_inverse=True)
        counts = (distinct & np.uint64((1 << self._counter) - 1)).astype(np.int64)
        if counts.max(initial=0) > self.h:
            raise HullError(
                f"{counts.max()} hulls share a bin; hull.h = {self.h} can separate {self.h}: raise"
                " hull.h, lower hull.epsilon, or use hull.code=binary, which can separate any"
                " number",
                key="too-many-hulls-in-bin",
            )
        totals = (distinct >> np.uint64(self._counter)).astype(np.int64)
        elements = [self._field.gen() ** power for power in (totals + counts).tolist()]
        factors = _coefficients(elements, self.h)
        factors = np.pad(factors, ((0, 0), (0, 1)))
        modulus = np.array([int(c) for c in self._field.modulus().coeffs()])
        factors[counts == self.h] = (factors[counts == self.h] + modulus) % self._prime
        is_member = _values(factors, -np.arange(1, self.width + 1), self._prime) == 0
        exact = is_member @ np.array(self.numbers, dtype=np.int64)
        if not np.array_equal(is_member.sum(axis=1), counts) or not np.array_equal(exact, totals):
            raise undecodable("the number in a bin is not a sum of labels")
        return np.asarray(is_member[where])

    def _field_prime(self) -> int:
        """The smallest p > slots for which p^h − 1 is smooth enough for logarithms."""
        from flint import fmpz

        prime = self.width + 1
        while (self.width * prime**self.h << self._counter).bit_length() <= MAX_BITS:
            if fmpz(prime).is_prime() and max(fmpz(prime**self.h - 1).factor())[0] <= _SMOOTH:
                return prime
            prime += 1
        raise ValueError(
            f"hull.h = {self.h} with {self.width} hulls in all needs sums of more than {MAX_BITS}"
            " bits; lower hull.h, or use hull.code=binary, which can separate any number of hulls"
        )


def _primitive_polynomial(prime: int, degree: int) -> Any:
    """The first polynomial with x as a primitive root, in the order of its lower coefficients as a
    number.

    It is the same on every machine.
    """
    from flint import fmpz, fmpz_mod_ctx, fmpz_mod_poly_ctx

    polynomials = fmpz_mod_poly_ctx(fmpz_mod_ctx(prime))
    order = prime**degree - 1
    cofactors = [order // int(factor) for factor, _ in fmpz(order).factor()]
    variable = polynomials.gen()
    for number in range(1, order + 1):
        digits = [number // prime**power % prime for power in range(degree)]
        candidate = polynomials([*digits, 1])
        if candidate.is_irreducible():
            powers = (variable.pow_mod(cofactor, candidate) for cofactor in cofactors)
            if not any(power.is_one() for power in powers):
                return candidate
    raise AssertionError("every finite field has a primitive polynomial")


def _logarithms(field: Any, elements: Integers) -> list[int]:
    """Discrete logarithms of elements, given as rows of coefficients (m, h), by the algorithm of
    Pohlig and Hellman."""
    from flint import fmpz

    generator = field.gen()
    order = int(field.order()) - 1
    targets = [field(row) for row in elements.tolist()]
    logs = [0] * len(targets)
    modulus = 1
    for factor, exponent in fmpz(order).factor():
        part = int(factor) ** exponent
        residues = [target ** (order // part) for target in targets]
        digits = _steps(field, generator ** (order // part), part, residues)
        inverse = pow(modulus, -1, part)
        logs = [
            log + modulus * ((digit - log) * inverse % part)
            for log, digit in zip(logs, digits, strict=True)
        ]
        modulus *= part
    return logs


def _steps(field: Any, base: Any, order: int, targets: list[Any]) -> list[int]:
    """Logarithms to a base of this order, for all targets at once, by baby steps and giant
    steps."""
    prime = int(field.prime())
    degree = int(field.degree())
    digits = prime ** np.arange(degree, dtype=np.int64)
    num = min(order, max(2, int((order * len(targets)) ** 0.5)), 2**20)
    baby = np.zeros((1, degree), dtype=np.int64)
    baby[0, 0] = 1
    while len(baby) < num:  # 1, b, …, b^(2^i − 1), times b^(2^i)
        baby = np.concatenate([baby, baby @ _times(field, base ** len(baby)) % prime])
    keys = baby @ digits
    ascending = np.argsort(keys, kind="stable")
    keys = keys[ascending]
    rows = _coefficients(targets, degree)
    back = _times(field, base ** ((-len(baby)) % order))
    logarithms = np.full(len(targets), -1)
    for start in range(0, order, len(baby)):
        codes = rows @ digits
        place = np.minimum(np.searchsorted(keys, codes), len(keys) - 1)
        hit = (keys[place] == codes) & (logarithms < 0)
        logarithms[hit] = (start + ascending[place[hit]]) % order
        if (logarithms >= 0).all():
            break
        rows = rows @ back % prime
    return logarithms.tolist()


def _times(field: Any, element: Any) -> Integers:
    """Multiplication by an element as a matrix for rows of coefficients."""
    degree = int(field.degree())
    return _coefficients([element * field.gen() ** power for power in range(degree)], degree)


def _coefficients(elements: list[Any], degree: int) -> Integers:
    """Coefficients (n, degree), the constant first."""
    rows = [list(map(int, element.to_list())) for element in elements]
    return np.array(rows, dtype=np.int64).reshape(-1, degree)


def _values(polynomials: Integers, points: Integers, prime: int) -> Integers:
    """Values (n, m) of n polynomials, given as rows of coefficients, at m points."""
    values = np.zeros((len(polynomials), len(points)), dtype=np.int64)
    for column in polynomials.T[::-1]:
        values = (values * points + column[:, None]) % prime
    return values
