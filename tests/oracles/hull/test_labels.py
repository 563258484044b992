"""Label codes against enumerated sums: no two sets of labels have one sum."""

from functools import lru_cache
from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest
from errors import refuses

from curvfed.strategies.errors import HullError
from curvfed.strategies.hull.label_codes import MAX_BITS, BinaryCode, BoseChowla

bose_chowla = lru_cache(BoseChowla)


def sums(code: BinaryCode | BoseChowla, sets: list[tuple[int, ...]]) -> np.ndarray:
    return np.array([sum(code.label(slot) for slot in slots) for slots in sets], dtype=np.uint64)


def members(code: BinaryCode | BoseChowla, values: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(np.flatnonzero(row).tolist()) for row in code.members(values)]


def is_b_h(numbers: list[int], h: int) -> bool:
    """Whether all sums of up to h numbers, repetition allowed, differ."""
    totals = [
        sum(members)
        for count in range(h + 1)
        for members in combinations_with_replacement(numbers, count)
    ]
    return len(set(totals)) == len(totals)


@pytest.mark.parametrize(
    ("num", "h"), [(2, 2), (3, 3), (6, 2), (6, 4), (6, 6), (16, 3), (20, 2), (20, 4), (80, 2)]
)
def test_bose_chowla_numbers_are_a_b_h_set(num: int, h: int) -> None:
    numbers = BoseChowla(num, h).numbers
    assert len(numbers) == num
    assert min(numbers) > 0
    assert is_b_h(numbers, h)


def test_the_papers_example_is_a_b_2_set_and_its_plain_places_are_not() -> None:
    """Section 4's sequence, and Appendix B's "2Π(i) − 1" and "2Π(i)" as labels themselves."""
    assert is_b_h([1, 3, 7, 12, 20, 30, 44], 2)
    assert not is_b_h([1, 2, 3, 4], 2)


@pytest.mark.parametrize(("num", "h"), [(2, 2), (6, 2), (6, 6), (10, 5), (20, 3)])
def test_bose_chowla_decodes_every_sum_and_refuses_every_other_up_to_h(num: int, h: int) -> None:
    code = BoseChowla(num, h)
    sets = [slots for count in range(h + 1) for slots in combinations(range(num), count)]
    values = sums(code, sets)
    assert len(set(values.tolist())) == len(sets)
    assert members(code, values) == sets
    assert int(values.max()) <= code.largest


@pytest.mark.parametrize("count", range(4, 11))
def test_more_than_h_labels_are_counted_and_never_decoded(count: int) -> None:
    code = BoseChowla(10, 3)
    for slots in combinations(range(10), count):
        with refuses("too-many-hulls-in-bin", count, "hull.h = 3", error=HullError):
            code.members(sums(code, [slots]))


@pytest.mark.long
def test_all_labels_together_stay_below_what_a_prime_can_hold() -> None:
    for num, h in ((6, 6), (20, 10), (80, 7), (2000, 3)):
        code = bose_chowla(num, h)
        assert code.largest == sum(code.label(slot) for slot in range(num)) < 2**MAX_BITS
        assert num < 2 ** num.bit_length()  # the counter does not run into the numbers


def test_what_is_no_sum_of_bose_chowla_labels_is_refused() -> None:
    code = BoseChowla(10, 3)
    single = {code.label(slot) for slot in range(10)}
    wrong = [value for value in range(1, 3000, 16) if value not in single]  # the count is 1
    assert len(wrong) > 100
    for value in [*wrong, 0b10, 16 * 5, 2**60 + 1, 2**62 - 16 + 2, 2 * code.label(4)]:
        with refuses("undecodable", error=HullError):
            code.members(np.array([value], dtype=np.uint64))


@pytest.mark.parametrize("num", [1, 5, 23, 24, 25, 80, 100])
def test_binary_code_decodes_any_set(num: int) -> None:
    code = BinaryCode(num, 24)
    assert code.width <= 24
    assert code.width * (code.num_words - 1) < num <= code.width * code.num_words
    rng = np.random.default_rng(num)
    sets = [
        tuple(np.flatnonzero(rng.random(code.width) < share).tolist())
        for share in (0, 0.1, 0.5, 1) * 9
    ]
    assert members(code, sums(code, sets)) == sets
    assert code.largest == sum(code.label(slot) for slot in range(code.width))


def test_binary_code_is_exhaustively_right_and_wide_words_fit() -> None:
    code = BinaryCode(8, 24)
    assert members(code, np.arange(256, dtype=np.uint64)) == [
        tuple(bit for bit in range(8) if value >> bit & 1) for value in range(256)
    ]
    wide = BinaryCode(124, 62)
    assert wide.num_words == 2
    assert wide.label(61) == wide.label(123) == 2**61
    assert members(wide, np.array([2**61 + 1, 2**62 - 1], dtype=np.uint64)) == [
        (0, 61),
        tuple(range(62)),
    ]
    with refuses("undecodable", error=HullError):
        code.members(np.array([3, 256], dtype=np.uint64))


def test_the_construction_is_the_same_everywhere() -> None:
    """Clients and server make their own: numbers worked out with x² + x + 3 over GF(7)."""
    code = BoseChowla(6, 2)
    assert [int(c) for c in code._field.modulus().coeffs()] == [3, 1, 1]
    powers, element = {}, (1, 0)
    for exponent in range(48):
        powers[element] = exponent
        constant, linear = element
        element = (-3 * linear) % 7, (constant - linear) % 7
    assert len(powers) == 48
    assert code.numbers == [powers[shift, 1] - 1 for shift in range(1, 7)]


@pytest.mark.parametrize(
    ("num", "h", "match"),
    [
        (6, 1, "hull.h = 1; allowed are 2 up to the number of hulls in all, 6"),
        (6, 7, "hull.h = 7; allowed are 2 up to the number of hulls in all, 6"),
        (1, 2, "allowed are 2 up to the number of hulls in all, 1"),
        (20, 11, "hull.h = 11 with 20 hulls in all needs sums of more than 62 bits"),
        (2001, 2, "2001 hulls in all; hull.code=bose-chowla has labels for up to 2000"),
    ],
)
def test_codes_that_cannot_be_are_refused(num: int, h: int, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        BoseChowla(num, h)
