"""Decoding of the hulls' power sums: seconds, and the ratio to FLINT's own factorisation and to a textbook decoder."""

import statistics
import time

import numpy as np
from numpy.typing import NDArray

from benchmarks.row import Place, Row
from benchmarks.timing import Ratio, compare
from curvfed.strategies.hull.roots import prime_above
from curvfed.strategies.hull.symbols import SPARE, decode, encode

BINS = 5_000
BITS = 24
"""Of the bins' indices: 10⁷ bins, as ε = 0.01 has within a radius of 0.999."""
REPEATS = 5
_PLAIN = 300, 12  # occupied bins and bits at which the textbook decoder takes seconds


def rows(place: Place) -> list[Row]:
    """At the size of a federation's hulls, and at one where a textbook's decoder ends."""
    return [
        Row("decode of 5,000 bins of 2²⁴", "FLINT's roots of its locator alone", "limit", decode_times),
        Row(
            "decode of 300 bins of 2¹²",
            "Berlekamp–Massey and a search in plain Python",
            "peer",
            decode_against_plain,
            1.0,
        ),
    ]


def decode_seconds(num: int = BINS, bits: int = BITS, repeats: int = REPEATS) -> float:
    """Median time of `curvfed.strategies.hull.symbols.decode` at `num` occupied bins, of 2^bits."""
    symbols, prime = _symbols(num, bits)
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        decode(symbols, prime, 1 << bits, num)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def decode_times(num: int = BINS, bits: int = BITS, repeats: int = REPEATS) -> Ratio:
    """The whole decoder against the roots of its locator alone, by FLINT's splitting of word-size polynomials."""
    from flint import fmpz_mod_ctx, fmpz_mod_poly_ctx, nmod_poly

    symbols, prime = _symbols(num, bits)
    locator = fmpz_mod_poly_ctx(fmpz_mod_ctx(prime)).minpoly(symbols.tolist())
    same = nmod_poly([int(coefficient) for coefficient in locator.coeffs()], prime)
    return compare(lambda: decode(symbols, prime, 1 << bits, num), same.roots, repeats)


def decode_against_plain(num: int = _PLAIN[0], bits: int = _PLAIN[1]) -> Ratio:
    """The decoder against Berlekamp–Massey and a search through all bins, in plain Python at a smaller size."""
    symbols, prime = _symbols(num, bits)
    listed = symbols.tolist()
    return compare(lambda: decode(symbols, prime, 1 << bits, num), lambda: plain_decode(listed, prime, 1 << bits), 1)


def plain_decode(symbols: list[int], prime: int, num_bins: int) -> dict[int, int]:
    """Value by bin, as a textbook has it: the shortest recurrence, a look at every bin, Forney's formula."""
    connection = berlekamp_massey(symbols, prime)
    degree = len(connection) - 1
    omega = [sum(connection[j] * symbols[i - j] for j in range(i + 1)) % prime for i in range(degree)]
    values = {}
    for place in range(1, num_bins + 1):
        inverse = pow(place, -1, prime)
        if _at(connection, inverse, prime) == 0:
            slope = _at([power * c for power, c in enumerate(connection)][1:], inverse, prime)
            values[place] = -place * _at(omega, inverse, prime) * pow(slope, -1, prime) % prime
    return values


def berlekamp_massey(symbols: list[int], prime: int) -> list[int]:
    """Coefficients c, c₀ = 1, of the shortest recurrence Σⱼ cⱼ S_{i−j} = 0."""
    now, before, length, gap, last = [1], [1], 0, 1, 1
    for i, symbol in enumerate(symbols):
        error = (symbol + sum(now[j] * symbols[i - j] for j in range(1, min(length, len(now) - 1) + 1))) % prime
        if error == 0:
            gap += 1
            continue
        shifted = [0] * gap + [error * pow(last, -1, prime) * c for c in before]
        size = max(len(now), len(shifted))
        after = [(a - b) % prime for a, b in zip(_padded(now, size), _padded(shifted, size), strict=True)]
        if 2 * length <= i:
            before, last, length, gap = now, error, i + 1 - length, 1
        else:
            gap += 1
        now = after
    return _padded(now, length + 1)[: length + 1]


def _padded(coefficients: list[int], size: int) -> list[int]:
    return coefficients + [0] * (size - len(coefficients))


def _at(coefficients: list[int], point: int, prime: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * point + coefficient) % prime
    return value


def _symbols(num: int, bits: int) -> tuple[NDArray[np.uint64], int]:
    rng, prime = np.random.default_rng(0), prime_above(1 << bits)
    bins = rng.permutation(np.unique(rng.integers(1, 1 << bits, 2 * num, dtype=np.uint64)))[:num]
    return encode(bins, rng.integers(1, prime, num, dtype=np.uint64), 2 * num + SPARE, prime), prime
