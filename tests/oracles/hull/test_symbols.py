"""Power sums against Python's integers, decoding against Berlekamp–Massey and a search."""

import contextlib
import gc

import numpy as np
import pytest
from errors import refuses
from flint import fmpz, fmpz_mod_ctx, fmpz_mod_poly_ctx

from curvfed.strategies.errors import HullError
from curvfed.strategies.hull.symbols import SPARE, decode, encode, prime_above, roots

PRIMES = [101, 65537, prime_above(2**24), prime_above(2**33), 2**61 - 1, prime_above(2**62)]


def sparse(num: int, limit: int, prime: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Ascending bins in 1..most and values in 1..prime − 1, the ends among them."""
    rng = np.random.default_rng(seed)
    bins = np.unique(np.append(rng.integers(1, limit, 2 * num, dtype=np.uint64), np.uint64(limit)))
    bins = bins[len(bins) - min(num, len(bins)) :]
    values = rng.integers(1, prime, len(bins), dtype=np.uint64)
    values[:1] = prime - 1
    return bins, values


def power_sums(bins: np.ndarray, values: np.ndarray, length: int, prime: int) -> list[int]:
    pairs = list(zip(bins.tolist(), values.tolist(), strict=True))
    return [
        sum(value * pow(place, power, prime) for place, value in pairs) % prime
        for power in range(length)
    ]


@pytest.mark.parametrize("prime", PRIMES)
@pytest.mark.parametrize("num", [0, 1, 2, 3, 17])
def test_symbols_are_exact_power_sums(prime: int, num: int) -> None:
    bins, values = sparse(num, prime - 1, prime)
    symbols = encode(bins, values, 50, prime)
    assert symbols.dtype == np.uint64
    assert symbols.tolist() == power_sums(bins, values, 50, prime)


@pytest.mark.parametrize("prime", PRIMES)
@pytest.mark.parametrize("num", [0, 1, 2, 16])
def test_decoding_gives_the_vector_back(prime: int, num: int) -> None:
    bins, values = sparse(num, prime - 1, prime)
    for limit in {num, 16}:
        positions, amounts = decode(
            encode(bins, values, 2 * limit + SPARE, prime), prime, prime - 1, limit
        )
        assert positions.dtype == amounts.dtype == np.uint64
        np.testing.assert_array_equal(positions, bins)
        np.testing.assert_array_equal(amounts, values)


@pytest.mark.parametrize("prime", [prime_above(2**24), prime_above(2**33)])
def test_many_bins(prime: int) -> None:
    bins, values = sparse(3000, prime - 1, prime)
    assert len(bins) == 3000
    positions, amounts = decode(encode(bins, values, 6000 + SPARE, prime), prime, prime - 1, 3000)
    np.testing.assert_array_equal(positions, bins)
    np.testing.assert_array_equal(amounts, values)


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        ("short", "27 symbols, 28 are needed"),
        ("not reduced", "contradict"),
        ("many", "more than 12 occupied bins"),
        ("noise", "more than 12 occupied bins"),
        ("beyond", "not locate bins"),
        ("zero", "not locate bins"),
        ("outside", "not locate bins"),
        ("repeated", "not locate bins"),
    ],
)
def test_what_is_no_sum_of_vectors_is_refused(damage: str, match: str) -> None:
    prime, limit, num_bins = prime_above(2**24), 12, 2**24
    bins, values = sparse(limit, num_bins, prime)
    symbols = encode(bins, values, 2 * limit + SPARE, prime)
    if damage == "short":
        symbols = symbols[:-1]
    elif damage == "not reduced":
        symbols[3] += np.uint64(prime)
    elif damage == "many":
        symbols = encode(*sparse(limit + 1, num_bins, prime), 2 * limit + SPARE, prime)
    elif damage == "noise":
        symbols = np.random.default_rng(0).integers(0, prime, symbols.size, dtype=np.uint64)
    elif damage == "beyond":
        bins[-1] = num_bins + 1
        symbols = encode(bins, values, symbols.size, prime)
    elif damage == "zero":  # the bin 0 shows in the first symbol alone
        symbols[0] = (int(symbols[0]) + 1) % prime
        symbols = (symbols + prime - encode(bins[:1], values[:1], symbols.size, prime)) % np.uint64(
            prime
        )
    elif damage == "outside":  # a Fibonacci sequence whose roots are in the extension field
        fives = next(p for p in range(2**24, 2**25) if p % 5 in (2, 3) and fmpz(p).is_prime())
        prime, sequence = fives, [1, 1]
        while len(sequence) < symbols.size:
            sequence.append((sequence[-1] + sequence[-2]) % prime)
        symbols = np.array(sequence, dtype=np.uint64)
    else:  # l·3^l has the root 3 twice
        symbols = np.array(
            [power * pow(3, power, prime) % prime for power in range(symbols.size)], dtype=np.uint64
        )
    with pytest.raises(HullError, match=f"^the sum of the hulls cannot be decoded: .*({match})"):
        decode(symbols, prime, num_bins, limit)


@pytest.mark.parametrize("num", [0, 1, 5, 12])
def test_any_flipped_symbol_is_noticed(num: int) -> None:
    prime = prime_above(2**24)
    symbols = encode(*sparse(num, 2**24, prime), 28, prime)
    for place in range(28):
        flipped = symbols.copy()
        flipped[place] ^= np.uint64(1 << place % 20)
        with refuses("undecodable", error=HullError):
            decode(flipped, prime, 2**24, 12)


@pytest.mark.parametrize("prime", [prime_above(2**24), prime_above(2**40), 2**31 - 1])
@pytest.mark.parametrize(
    "kind", ["distinct", "repeated", "zero", "outside", "few outside", "all outside"]
)
def test_roots_are_those_of_the_factors(prime: int, kind: str) -> None:
    """At degrees where the method changes; also where q − 1 is odd but for one 2."""
    ring = fmpz_mod_poly_ctx(fmpz_mod_ctx(prime))
    places = np.unique(np.random.default_rng(1).integers(1, prime, 700)).tolist()
    quadratic = next(q for c in range(1, 100) if (q := ring([c, 1, 1])).is_irreducible())
    if kind == "zero":
        places[0] = 0
    if kind == "all outside":
        places = []
    polynomial = ring([3])
    for place in places:
        polynomial *= ring([-place, 1])
    if kind == "repeated":
        polynomial *= ring([-places[0], 1]) ** 3 * ring([-places[1], 1])
    if "outside" in kind:
        polynomial *= quadratic ** (1 if kind == "few outside" else 200)
    assert sorted(roots(polynomial, prime)) == sorted(places)


@pytest.mark.parametrize(
    "bound", [2**12, 2**24, 2**24 + 54321, 2**25 - 1, 10**12, 2**61, 2**62 - 1, 2**62]
)
def test_primes_lie_just_above_their_bound(bound: int) -> None:
    prime = prime_above(bound)
    assert fmpz(prime).is_prime()
    assert bound < prime < min(1.1 * bound, 2**63)
    step = 2 ** (bound.bit_length() - 12)
    assert prime % step == 1
    assert not any(fmpz(candidate).is_prime() for candidate in range(prime - step, bound, -step))


@pytest.mark.parametrize(
    "symbols",
    [encode(np.array([3], np.uint64), np.array([2], np.uint64), 6, 4129), np.arange(1, 7)],
)
def test_garbage_is_collected_again_after_decoding(symbols: np.ndarray) -> None:
    with contextlib.suppress(HullError):
        decode(symbols.astype(np.uint64), 4129, 4096, 1)
    assert gc.isenabled()
    gc.disable()
    try:
        with pytest.raises(HullError):
            decode(np.zeros(1, np.uint64), 4129, 4096, 1)
        assert not gc.isenabled()
    finally:
        gc.enable()
