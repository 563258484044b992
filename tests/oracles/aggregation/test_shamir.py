"""Shamir's sharing against FLINT's polynomials, rational interpolation, elimination, and all
polynomials modulo 7."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import flint
import numpy as np
import pytest
from errors import refuses
from hypothesis import given
from hypothesis import strategies as st

from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.secure_sum import shamir
from curvfed.strategies.secure_sum.shamir import (
    PRIME,
    SHARE_BYTES,
    check_share,
    combine,
    split,
    weights,
)

FIELD = flint.fmpz_mod_ctx(PRIME)
RING = flint.fmpz_mod_poly_ctx(FIELD)

points = st.lists(st.integers(1, 2**32), min_size=1, max_size=12, unique=True)


def entropy(seed: int):
    return np.random.default_rng(seed).bytes


def elimination(shares: dict[int, bytes]) -> int:
    """The constant term of the polynomial through the shares, from its Vandermonde system."""
    rows = [
        [pow(x, power, PRIME) for power in range(len(shares))] + [int.from_bytes(y)]
        for x, y in shares.items()
    ]
    for i in range(len(rows)):
        pivot = next(r for r in range(i, len(rows)) if rows[r][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        inverse = pow(rows[i][i], -1, PRIME)
        rows[i] = [value * inverse % PRIME for value in rows[i]]
        for r in range(len(rows)):
            if r != i:
                rows[r] = [
                    (a - rows[r][i] * b) % PRIME for a, b in zip(rows[r], rows[i], strict=True)
                ]
    return rows[0][-1]


def test_the_field():
    assert flint.fmpz(PRIME).is_prime()
    assert 2 ** (8 * shamir.SECRET_BYTES) < PRIME < 2 ** (8 * SHARE_BYTES)


@given(secret=st.binary(min_size=32, max_size=32), group=points, seed=st.integers(0, 99))
def test_shares_are_values_of_a_polynomial_with_the_secret_at_0(secret, group, seed):
    drawn = []
    source = entropy(seed)

    def recorded(size):
        drawn.append(source(size))
        return drawn[-1]

    shares = split(secret, group, len(group), recorded)
    kept = [value for value in map(int.from_bytes, drawn) if value < PRIME]
    polynomial = RING([int.from_bytes(secret), *kept])
    assert {x: int.from_bytes(y) for x, y in shares.items()} == {
        x: int(polynomial(x)) for x in group
    }


@given(group=points)
def test_weights_are_those_of_rational_interpolation(group):
    for i, weight in enumerate(weights(tuple(group))):
        others = [x for j, x in enumerate(group) if j != i]
        exact = math.prod((Fraction(x, x - group[i]) for x in others), start=Fraction(1))
        assert weight == exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME


@given(
    secret=st.binary(min_size=32, max_size=32),
    group=points,
    seed=st.integers(0, 99),
    data=st.data(),
)
def test_any_group_as_large_as_the_threshold_finds_the_secret(secret, group, seed, data):
    threshold = data.draw(st.integers(1, len(group)))
    shares = split(secret, group, threshold, entropy(seed))
    chosen = data.draw(st.permutations(group))[:threshold]
    assert combine({x: shares[x] for x in chosen}) == secret
    assert elimination({x: shares[x] for x in chosen}) == int.from_bytes(secret)


def test_every_group_of_5_and_threshold():
    secret = entropy(0)(32)
    group = [1, 2, 3, 700, 2**32]
    for threshold in range(1, 6):
        shares = split(secret, group, threshold, entropy(1))
        for size in range(1, 6):
            for chosen in itertools.combinations(group, size):
                assert (combine({x: shares[x] for x in chosen}) == secret) == (size >= threshold)


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32])
def test_the_smallest_and_the_largest_secret(secret):
    shares = split(secret, [1, 2, 3], 2, entropy(0))
    assert combine({x: shares[x] for x in (3, 1)}) == secret


def test_fewer_shares_than_the_threshold_say_nothing(monkeypatch):
    """All polynomials over 7 elements: two shares of three are the same, as often, whatever the
    secret is."""
    monkeypatch.setattr(shamir, "PRIME", 7)
    monkeypatch.setattr(shamir, "SHARE_BYTES", 1)

    def seen(secret: int, two: tuple[int, int]) -> Counter:
        counts: Counter = Counter()
        for drawn in itertools.product(range(7), repeat=2):
            coefficients = map(bytes, zip(drawn, strict=True))
            shares = split(
                bytes([secret]), [1, 2, 3, 4], 3, lambda _, drawn=coefficients: next(drawn)
            )
            counts[tuple(shares[x] for x in two)] += 1
        return counts

    for two in itertools.combinations([1, 2, 3, 4], 2):
        assert {frozenset(seen(secret, two).items()) for secret in range(7)} == {
            frozenset(((bytes([a]), bytes([b])), 1) for a in range(7) for b in range(7))
        }


def test_what_is_drawn_beyond_the_field_is_drawn_again():
    draws = iter([b"\xff" * SHARE_BYTES, PRIME.to_bytes(SHARE_BYTES), (5).to_bytes(SHARE_BYTES)])
    shares = split(bytes(32), [1, 2], 2, lambda _: next(draws))
    assert [int.from_bytes(shares[x]) for x in (1, 2)] == [5, 10]


def test_wrong_shares_that_combine_to_more_than_a_secret():
    assert combine({1: (PRIME - 1).to_bytes(SHARE_BYTES)}) is None


@pytest.mark.parametrize(
    "share", [b"", bytes(SHARE_BYTES - 1), bytes(SHARE_BYTES + 1), PRIME.to_bytes(SHARE_BYTES)]
)
def test_what_is_no_share(share):
    with refuses("share", error=SecureSumError):
        check_share(share)
    check_share((PRIME - 1).to_bytes(SHARE_BYTES))
