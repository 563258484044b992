"""Roots of a polynomial over a prime field GF(q), fast if a large power of two divides q − 1.

This is the tangent Graeffe transform (Grenet, van der Hoeven and Lecerf, 2015). Squaring all roots
s times maps them to 2^s-th powers. There are only (q − 1)/2^s of these, so that each can be tested.
Over the dual numbers, with f(x + ε) in place of f, the transform also keeps the information that
recovers the original root. It takes s products of polynomials; splitting by quadratic characters
takes log q products for each of log t levels.
"""

import random
from itertools import accumulate
from typing import Any

_MIN_DEGREE = 256  # for fewer roots splitting is as fast
_MIN_POWERS = 4  # per root; a share e^(−1/4) of the roots then has a power that no other root has
_MAX_POWERS = 64  # per root; beyond this testing them all is too slow


def roots(polynomial: Any, prime: int) -> list[int]:
    """All roots in the field, each once, in no particular order.

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
        polynomial //= _product([polynomial.context().gen() - root for root in isolated])
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
    """The roots whose 2^s-th power after the shift is unique among the roots in this field and in
    extension fields.

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
    powers = _zeros(
        polynomial, pow(_generator(prime), squared, prime), (prime - 1) // squared, prime
    )
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
    values = (ring(terms[::-1]) * ring(chirp)).coeffs()[size - 1 : size - 1 + order]
    return [power for power, value in zip(powers, values) if value == 0]


def _generator(prime: int) -> int:
    """The smallest primitive root."""
    from flint import fmpz

    cofactors = [(prime - 1) // int(factor) for factor, _ in fmpz(prime - 1).factor()]
    generator = 2
    while any(pow(generator, cofactor, prime) == 1 for cofactor in cofactors):
        generator += 1
    return generator


def _product(factors: list[Any]) -> Any:
    """The product of polynomials, computed in a tree."""
    while len(factors) > 1:
        unpaired = factors[-1:] if len(factors) % 2 else []
        factors = [even * odd for even, odd in zip(factors[::2], factors[1::2])] + unpaired
    return factors[0]
