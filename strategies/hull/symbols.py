"""Encoding of sparse vectors as power sums of their occupied bins, like the syndromes of a
Reed–Solomon code.

A vector with the value v_b at each bin b becomes the symbols S_l = Σ_b v_b·b^(l−1) mod q, l = 1 … n
(hulls paper, Section 5.5, with the sum over bins). The symbols of several vectors add up, modulo q,
to the symbols of their sum. 2t symbols determine a sum with t occupied bins: the minimal polynomial
of the sequence is the locator Π(x − b). This is Prony's method in a finite field.
"""

import contextlib
import gc
import operator
import random
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.errors import undecodable

Item = TypeVar("Item")

_MIN_DEGREE = 256  # for fewer roots splitting is as fast
_MIN_POWERS = 4  # per root; a share e^(−1/4) of the roots then has a power that no other root has
_MAX_POWERS = 64  # per root; beyond this testing them all is too slow


def roots(polynomial: Any, prime: int) -> list[int]:
    """All roots in the field, each once, in no particular order.

    This is the tangent Graeffe transform (Grenet, van der Hoeven and Lecerf, 2015). Squaring all
    roots s times maps them to 2^s-th powers. Only (q − 1)/2^s of these exist, so that each can be
    tested. Over the dual numbers, with f(x + ε) in place of f, the transform also keeps the
    information that recovers the original root. It takes s products of polynomials; splitting by
    quadratic characters takes log q products for each of log t levels.

    Parameters
    ----------
    polynomial : flint.fmpz_mod_poly
        Not zero.
    prime : int
        Its modulus, q.

    Returns
    -------
    list of int
        Correct for every prime, and fast for those of `prime_above`.
    """
    field_roots: list[int] = []
    shifts = random.Random(0)
    shift = 0
    power_of_two = (prime - 1) & (1 - prime)  # the largest power of two that divides q − 1
    while (degree := polynomial.degree()) > _MIN_DEGREE and (
        prime - 1
    ) // power_of_two <= _MAX_POWERS * degree:
        isolated = _isolated_roots(polynomial, prime, shift)
        if len(isolated) < degree / 4:  # fewer roots than the degree, or repeated roots
            break
        field_roots += isolated
        linear_factors = [polynomial.context().gen() - root for root in isolated]
        polynomial //= _joined(linear_factors, operator.mul)[0]
        shift = shifts.randrange(prime)
    return field_roots + [int(root) for root, _ in polynomial.roots()]


def prime_above(bound: int) -> int:
    """The smallest prime above the bound, 2¹² ≤ bound ≤ 2⁶², that is 1 modulo a power of two with
    12 bits fewer.

    `roots` uses this power of two. In return, the prime may be some percent larger than the bound.
    """
    from flint import fmpz

    step = 1 << bound.bit_length() - 12
    prime = bound // step * step + step + 1
    while not fmpz(prime).is_prime():
        prime += step
    return prime


def _isolated_roots(polynomial: Any, prime: int, shift: int) -> list[int]:
    """The roots with a 2^s-th power after the shift that is unique among the roots in this field
    and in extension fields.

    A root in an extension field shares its power with its conjugate. An isolated root is therefore
    simple and in the field.
    """
    variable = polynomial.context().gen()
    if shift:
        polynomial = polynomial.compose(variable + shift)
    tangent = polynomial.derivative()
    squared = 1
    while (prime - 1) % (2 * squared) == 0 and (prime - 1) // (
        2 * squared
    ) >= _MIN_POWERS * polynomial.degree():
        mirror = polynomial.compose(-variable)
        product = tangent * mirror
        polynomial = (polynomial * mirror).deflate(2)
        tangent = (product + product.compose(-variable)).deflate(2)
        squared *= 2
    generator = pow(_generator(prime), squared, prime)
    powers = _zeros(polynomial, generator, (prime - 1) // squared, prime)
    slopes = polynomial.derivative().multipoint_evaluate(powers)
    tangents = tangent.multipoint_evaluate(powers)
    # A root r − ε became c·(1 − 2^s ε/r), so tangent(c) = slope(c)·c·2^s/r.
    return [
        int(slope * (power * squared) / along + shift)
        for power, slope, along in zip(powers, slopes, tangents, strict=True)
        if slope != 0
    ]


def _zeros(polynomial: Any, generator: int, order: int, prime: int) -> list[int]:
    """The powers of an element of this order that are roots, by a chirp transform (Bluestein,
    1970)."""
    powers = list(
        accumulate(range(order - 1), lambda power, _: power * generator % prime, initial=1)
    )
    size = polynomial.length()
    # ik = C(i + k, 2) − C(i, 2) − C(k, 2). The last term is a common factor of a value and does not
    # change its zeros.
    terms = [
        int(c) * powers[-(i * (i - 1) // 2) % order] for i, c in enumerate(polynomial.coeffs())
    ]
    chirp = [powers[k * (k - 1) // 2 % order] for k in range(order + size)]
    ring = polynomial.context()
    product = ring(terms[::-1]) * ring(chirp)
    values = product.coeffs()[size - 1 : size - 1 + order]
    return [power for power, value in zip(powers, values) if value == 0]


def _generator(prime: int) -> int:
    """The smallest primitive root."""
    from flint import fmpz

    cofactors = [(prime - 1) // int(factor) for factor, _ in fmpz(prime - 1).factor()]
    generator = 2
    while any(pow(generator, cofactor, prime) == 1 for cofactor in cofactors):
        generator += 1
    return generator


def _joined(items: list[Item], join: Callable[[Item, Item], Item]) -> list[Item]:
    """The items joined to a single one, in a tree of pairs; empty without items."""
    while len(items) > 1:
        unpaired = items[-1:] if len(items) % 2 else []
        items = [*map(join, items[::2], items[1::2]), *unpaired]
    return items


Words = NDArray[np.uint64]

SPARE = 4
"""Redundant symbols beyond the 2t that decoding needs: a random vector passes as a sum with
probability q⁻⁴."""


def encode(bins: Words, values: Words, length: int, prime: int) -> Words:
    """Power sums of a sparse vector.

    Parameters
    ----------
    bins : uint64 array (t,)
        Distinct, 1 to prime − 1.
    values : uint64 array (t,)
        Below `prime`.
    length : int
        The number n of symbols.
    prime : int
        q < 2⁶³.

    Returns
    -------
    uint64 array (n,)
        The symbols, exact; all 0 for t = 0.
    """
    from flint import nmod_poly

    symbols = np.zeros(length, dtype=np.uint64)
    # Σ_l S_l z^(l−1) = Σ_b v_b/(1 − bz). Add the fractions in a tree, then divide once.
    fractions = [
        (nmod_poly([value], prime), nmod_poly([1, -place], prime))
        for place, value in zip(bins.tolist(), values.tolist(), strict=True)
    ]
    for top, bottom in _joined(fractions, _sum):
        series = _integers(top.mul_low(bottom.inverse_series_trunc(length), length))
        symbols[: len(series)] = series
    return symbols


def _sum(first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
    """The sum of two fractions."""
    top, bottom = first
    above, below = second
    return top * below + above * bottom, bottom * below


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Pause Python's cyclic garbage collector.

    FLINT creates so many small objects that the collector would search all objects of the process
    several times, for a tenth of a second each. Cycles do not occur here.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_no_garbage_collection()
def decode(symbols: Words, prime: int, num_bins: int, max_occupied: int) -> tuple[Words, Words]:
    """The sparse vector with these power sums.

    Parameters
    ----------
    symbols : uint64 array (n,)
        n ≥ 2·max_occupied + `SPARE`.
    prime : int
        q, above `num_bins`, below 2⁶³.
    num_bins : int
        Bins are 1 to `num_bins`.
    max_occupied : int
        Maximum number of occupied bins.

    Returns
    -------
    bins : uint64 array (t,)
        Ascending.
    values : uint64 array (t,)
        1 to q − 1.

    Raises
    ------
    HullError
        If no vector with at most `max_occupied` occupied bins has these symbols, or there are too
        few symbols.

    Notes
    -----
    On one core 5,000 bins take 0.2 s for q of 25 bits, 0.3 s for 33, 0.5 s for 49 and 1.2 s for 63.
    """
    from flint import fmpz_mod_ctx, fmpz_mod_poly_ctx

    if symbols.size < 2 * max_occupied + SPARE:
        raise undecodable(f"it has {symbols.size} symbols, {2 * max_occupied + SPARE} are needed")
    polynomials = fmpz_mod_poly_ctx(fmpz_mod_ctx(prime))
    locator = polynomials.minpoly(symbols.tolist())
    degree = locator.degree()
    if degree > max_occupied:
        raise undecodable(f"its symbols hold more than {max_occupied} occupied bins")
    places = sorted(roots(locator, prime))
    if len(set(places)) < degree or (degree and not 1 <= places[0] <= places[-1] <= num_bins):
        raise undecodable("its symbols do not locate bins")
    bins = np.array(places, dtype=np.uint64)
    values = np.array(_values(polynomials, locator, places, symbols), dtype=np.uint64)
    # All symbols satisfy the recurrence. This finds symbols that are not reduced modulo q, and
    # programming errors.
    if not np.array_equal(encode(bins, values, symbols.size, prime), symbols):
        raise undecodable("its symbols contradict each other")
    return bins, values


def _values(polynomials: Any, locator: Any, places: list[int], symbols: Words) -> list[int]:
    """v_b = N(b)/Λ'(b) with Λ(x) = Π(x − b), where N(x)/Λ(x) = Σ_l S_l x^(−l) (Forney)."""
    degree = len(places)
    if not degree:
        return []
    product = polynomials(symbols[:degree].tolist()).mul_low(locator.reverse(), degree)
    numerator = polynomials((_integers(product) + [0] * degree)[degree - 1 :: -1])
    tops = numerator.multipoint_evaluate(places)
    bottoms = locator.derivative().multipoint_evaluate(places)
    return [int(top / bottom) for top, bottom in zip(tops, bottoms)]


def _integers(polynomial: Any) -> list[int]:
    return [int(coefficient) for coefficient in polynomial.coeffs()]
