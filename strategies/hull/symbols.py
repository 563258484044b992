"""Sparse vectors as few numbers that add up: power sums of the occupied bins, as in a Reed–Solomon code.

A vector v with the value v_b at each bin b becomes S_l = Σ_b v_b·b^(l−1) mod q, l = 1 … n (hulls paper, Section 5.5,
with the sum over bins). Symbols of several vectors add modulo q to those of the sum, and 2t of them give back a sum with t
occupied bins: the shortest recurrence of the sequence is Π(x − b), Prony's method in a finite field.
"""

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.hull.errors import undecodable
from curvfed.strategies.hull.roots import roots

Words = NDArray[np.uint64]

SPARE = 4
"""Symbols beyond the 2t that a decoder needs: a sum that is none of encoded vectors passes with probability q⁻⁴."""


def encode(bins: Words, values: Words, length: int, prime: int) -> Words:
    """Power sums of a sparse vector.

    Parameters
    ----------
    bins : uint64 array (t,)
        Distinct, 1 to prime − 1.
    values : uint64 array (t,)
        Below `prime`.
    length : int
        How many, n.
    prime : int
        q < 2⁶³.

    Returns
    -------
    uint64 array (n,)
        Exact; all 0 for t = 0.
    """
    from flint import nmod_poly

    symbols = np.zeros(length, dtype=np.uint64)
    # Σ_l S_l z^(l−1) = Σ_b v_b/(1 − bz): add up the fractions in a tree, then divide once.
    fractions = [
        (nmod_poly([value], prime), nmod_poly([1, -place], prime))
        for place, value in zip(bins.tolist(), values.tolist(), strict=True)
    ]
    while len(fractions) > 1:
        pairs = zip(fractions[::2], fractions[1::2])
        odd = fractions[-1:] if len(fractions) % 2 else []
        fractions = [(top * below + above * bottom, bottom * below) for (top, bottom), (above, below) in pairs] + odd
    for top, bottom in fractions:
        series = _integers(top.mul_low(bottom.inverse_series_trunc(length), length))
        symbols[: len(series)] = series
    return symbols


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Without Python's search for garbage in cycles, of which there is none here: the library makes so many small objects
    that all those of the process would be looked through in the midst of it, a tenth of a second each time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_no_collection()
def decode(symbols: Words, prime: int, num_bins: int, most: int) -> tuple[Words, Words]:
    """The sparse vector of which these are the power sums.

    Parameters
    ----------
    symbols : uint64 array (n,)
        n ≥ 2·most + `SPARE`.
    prime : int
        q, above `num_bins`, below 2⁶³.
    num_bins : int
        Bins are 1 to `num_bins`.
    most : int
        Occupied bins at most.

    Returns
    -------
    bins : uint64 array (t,)
        Ascending.
    values : uint64 array (t,)
        1 to q − 1.

    Raises
    ------
    HullError
        If no vector with at most `most` occupied bins has exactly these symbols, or there are too few to tell.

    Notes
    -----
    On one core 5,000 bins take 0.2 s for q of 25 bits, 0.3 s for 33, 0.5 s for 49 and 1.2 s for 63.
    """
    from flint import fmpz_mod_ctx, fmpz_mod_poly_ctx

    if symbols.size < 2 * most + SPARE:
        raise undecodable(f"{symbols.size} symbols, {2 * most + SPARE} are needed")
    polynomials = fmpz_mod_poly_ctx(fmpz_mod_ctx(prime))
    locator = polynomials.minpoly(symbols.tolist())
    degree = locator.degree()
    if degree > most:
        raise undecodable(f"they hold more than {most} occupied bins")
    places = sorted(roots(locator, prime))
    if len(set(places)) < degree or (degree and not 1 <= places[0] <= places[-1] <= num_bins):
        raise undecodable("what they locate are not bins")
    bins = np.array(places, dtype=np.uint64)
    held = np.array(_values(polynomials, locator, places, symbols), dtype=np.uint64)
    # The recurrence holds for all symbols, so this is for those that are not reduced, and for mistakes on the way here.
    if not np.array_equal(encode(bins, held, symbols.size, prime), symbols):
        raise undecodable("they contradict each other")
    return bins, held


def _values(polynomials: Any, locator: Any, places: list[int], symbols: Words) -> list[int]:
    """v_b = N(b)/Λ'(b) with Λ(x) = Π(x − b), where N(x)/Λ(x) = Σ_l S_l x^(−l) (Forney)."""
    degree = len(places)
    if not degree:
        return []
    product = polynomials(symbols[:degree].tolist()).mul_low(locator.reverse(), degree)
    numerator = polynomials((_integers(product) + [0] * degree)[degree - 1 :: -1])
    tops, bottoms = (part.multipoint_evaluate(places) for part in (numerator, locator.derivative()))
    return [int(top / bottom) for top, bottom in zip(tops, bottoms)]


def _integers(polynomial: Any) -> list[int]:
    return [int(coefficient) for coefficient in polynomial.coeffs()]
