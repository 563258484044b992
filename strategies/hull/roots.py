"""Roots of a polynomial over a prime field, fast where a large power of two divides the field's order less one.

The tangent Graeffe transform (Grenet, van der Hoeven and Lecerf, 2015): squaring all roots s times takes them into the
(q − 1)/2^s elements that are 2^s-th powers, few enough to look at each, and doing so over the dual numbers, with f(x + ε)
for f, keeps track of where they came from. This takes s products of polynomials, where splitting by quadratic
characters takes log q for each of log t levels.
"""

import random
from itertools import accumulate
from typing import Any

_FEW = 256  # roots that splitting finds as fast
_ROOM = 4  # powers per root at least; of the roots, e^(−1/4) are then alone on theirs
_CROWD = 64  # powers per root at most that are looked at


def roots(polynomial: Any, prime: int) -> list[int]:
    """All roots in the field, each once, in no order.

    Parameters
    ----------
    polynomial : flint.fmpz_mod_poly
        Not zero.
    prime : int
        Its modulus, q.

    Returns
    -------
    list of int
        Right for every prime, and fast for those of `prime_above`.
    """
    found: list[int] = []
    shifts, shift = random.Random(0), 0
    twos = (prime - 1) & (1 - prime)  # the largest power of two that divides q − 1
    while (degree := polynomial.degree()) > _FEW and (prime - 1) // twos <= _CROWD * degree:
        lone = _lone(polynomial, prime, shift)
        if len(lone) < degree / 4:  # it has fewer roots than its degree, or repeated ones
            break
        found += lone
        polynomial //= _product([polynomial.context().gen() - root for root in lone])
        shift = shifts.randrange(prime)
    return found + [int(root) for root, _ in polynomial.roots()]


def prime_above(bound: int) -> int:
    """The least prime above, for 2¹² ≤ bound ≤ 2⁶², that is 1 modulo a power of two of all but 12 bits of the bound.

    The price of that power, which `roots` works with, is a prime that lies some percent above the bound.
    """
    from flint import fmpz

    step = 1 << bound.bit_length() - 12
    prime = bound // step * step + step + 1
    while not fmpz(prime).is_prime():
        prime += step
    return prime


def _lone(polynomial: Any, prime: int, shift: int) -> list[int]:
    """Those roots whose 2^s-th power, after the shift, is no other root's, nor one's from an extension field.

    Such a one would share its power in this field with its conjugate: what is alone is a simple root in the field.
    """
    variable = polynomial.context().gen()
    if shift:
        polynomial = polynomial.compose(variable + shift)
    tangent, squared = polynomial.derivative(), 1
    while (prime - 1) % (2 * squared) == 0 and (prime - 1) // (2 * squared) >= _ROOM * polynomial.degree():
        mirror = polynomial.compose(-variable)
        product = tangent * mirror
        polynomial = (polynomial * mirror).deflate(2)
        tangent = (product + product.compose(-variable)).deflate(2)
        squared *= 2
    powers = _zeros(polynomial, pow(_generator(prime), squared, prime), (prime - 1) // squared, prime)
    slopes, tangents = (part.multipoint_evaluate(powers) for part in (polynomial.derivative(), tangent))
    # A root r − ε became c·(1 − 2^s ε/r), so tangent(c) = slope(c)·c·2^s/r.
    return [
        int(slope * (power * squared) / along + shift)
        for power, slope, along in zip(powers, slopes, tangents, strict=True)
        if slope != 0
    ]


def _zeros(polynomial: Any, generator: int, order: int, prime: int) -> list[int]:
    """The powers of an element of this order that are roots, by one product with a chirp (Bluestein, 1970)."""
    powers = list(accumulate(range(order - 1), lambda power, _: power * generator % prime, initial=1))
    size = polynomial.length()
    # ik = C(i + k, 2) − C(i, 2) − C(k, 2), and the last, common to all terms of a value, does not matter to a zero.
    terms = [int(c) * powers[-(i * (i - 1) // 2) % order] for i, c in enumerate(polynomial.coeffs())]
    chirp = [powers[k * (k - 1) // 2 % order] for k in range(order + size)]
    ring = polynomial.context()
    values = (ring(terms[::-1]) * ring(chirp)).coeffs()[size - 1 : size - 1 + order]
    return [power for power, value in zip(powers, values) if value == 0]


def _generator(prime: int) -> int:
    """The least primitive root."""
    from flint import fmpz

    cofactors = [(prime - 1) // int(factor) for factor, _ in fmpz(prime - 1).factor()]
    return next(g for g in range(2, prime) if all(pow(g, cofactor, prime) != 1 for cofactor in cofactors))


def _product(factors: list[Any]) -> Any:
    """Of polynomials, in a tree."""
    while len(factors) > 1:
        odd = factors[-1:] if len(factors) % 2 else []
        factors = [one * other for one, other in zip(factors[::2], factors[1::2])] + odd
    return factors[0]
