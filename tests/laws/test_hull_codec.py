"""Hulls come back exactly from the sum of vectors, or an error says why they cannot."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from errors import refuses
from hull_cases import HullCase, hull_case
from tiers import only

from curvfed.strategies.errors import HullError
from curvfed.strategies.hull.codec import MAX_LENGTH, PublicParameters, decode_hulls, encode_hulls
from curvfed.strategies.hull.symbols import SPARE

CASES = range(200)
FIRST = 2
"""Tenths of them that `make test` decodes by each code."""
PUBLIC = PublicParameters(
    curvature=-1.0, radius=0.95, epsilon=0.05, num_classes=2, num_clients=3, cap=8
)
DENSE = replace(PUBLIC, epsilon=5.0, cap=40)


def decoded(total: np.ndarray, public: PublicParameters) -> list[list[list[int]]]:
    bins, clients = decode_hulls(total, public)
    return [
        [bins[i].tolist() for i in np.flatnonzero(clients == client)]
        for client in np.unique(clients)
    ]


def hull(*bins: int) -> np.ndarray:
    return np.array(bins, dtype=np.uint64)


def small(public: PublicParameters = PUBLIC) -> HullCase:
    clients = ((hull(5, 3, 9), hull(3, 4)), (hull(3, 7),), ())
    return HullCase(public, clients, (2, 0, 1), ((1, 0), (1,), ()))


def deepest(case: HullCase) -> int:
    """Most hulls that meet in a bin."""
    met = Counter(place for hulls in case.clients for hull in hulls for place in hull.tolist())
    return max(met.values(), default=0)


@pytest.mark.parametrize("batch", only(range(10), range(FIRST).__contains__))
def test_binary_code_gives_every_case_back(batch: int) -> None:
    for seed in CASES[batch::10]:
        case = hull_case(seed)
        assert decoded(case.total(), case.public) == case.sent, seed


@pytest.mark.parametrize("batch", only(range(10), range(FIRST).__contains__))
def test_bose_chowla_code_gives_back_what_it_can_and_says_so_where_it_cannot(batch: int) -> None:
    outcomes = set()
    for seed in CASES[batch::10]:
        case = hull_case(seed, "bose-chowla")
        outcomes.add(fits := deepest(case) <= case.public.h)
        if fits:
            assert decoded(case.total(), case.public) == case.sent, seed
        else:
            fragments = (deepest(case), "hull.h", "hull.code=binary")
            with refuses("too-many-hulls-in-bin", *fragments, error=HullError):
                decode_hulls(case.total(), case.public)
    assert outcomes == {True, False}


@pytest.mark.parametrize("public", [PUBLIC, DENSE, replace(PUBLIC, code="bose-chowla", h=3)])
def test_the_order_of_clients_and_slots_leaves_no_trace(public: PublicParameters) -> None:
    case = small(public)
    reordered = HullCase(public, case.clients, (0, 1, 2), ((0, 1), (0,), ()))
    assert (
        decoded(case.total(), public)
        == decoded(reordered.total(), public)
        == [[[3, 4], [3, 5, 9]], [[3, 7]]]
    )
    empty = HullCase(public, ((), (hull(),), ()), (2, 0, 1), ((), (1,), ()))
    assert decoded(empty.total(), public) == []


def test_equal_hulls_of_clients_and_classes_stay_apart() -> None:
    clients = tuple((hull(1, 2), hull(1, 2)) for _ in range(3))
    case = HullCase(PUBLIC, clients, (0, 1, 2), ((0, 1),) * 3)
    assert decoded(case.total(), PUBLIC) == [[[1, 2], [1, 2]]] * 3


def noise(total: np.ndarray, prime: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, prime, total.size, dtype=np.uint64)


def one_bit_flipped(total: np.ndarray, prime: int, rng: np.random.Generator) -> np.ndarray:
    return total ^ (np.arange(total.size) == rng.integers(total.size)).astype(
        np.uint64
    ) << rng.integers(20, dtype="u8")


def one_mask_missing(total: np.ndarray, prime: int, rng: np.random.Generator) -> np.ndarray:
    return (total + noise(total, prime, rng)) % np.uint64(prime)


def one_word_moved(total: np.ndarray, prime: int, rng: np.random.Generator) -> np.ndarray:
    return np.append(total[1:], np.uint64(12345))


def not_reduced(total: np.ndarray, prime: int, rng: np.random.Generator) -> np.ndarray:
    return total + np.uint64(prime) * (np.arange(total.size) == rng.integers(total.size)).astype(
        np.uint64
    )


def too_short(total: np.ndarray, prime: int, rng: np.random.Generator) -> np.ndarray:
    return total[:-1]


DAMAGES = (noise, one_bit_flipped, one_mask_missing, one_word_moved, not_reduced, too_short)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("code", ["binary", "bose-chowla"])
def test_a_damaged_sum_is_refused(damage: Callable[..., np.ndarray], code: str) -> None:
    """Cases of one and several words, of power sums and dense vectors, one of a single bin."""
    damaged = 0
    for seed in range(12):
        case = hull_case(seed, code)
        if code == "binary" or deepest(case) <= case.public.h:
            total = damage(case.total(), case.public.prime, np.random.default_rng(seed))
            with refuses("undecodable", error=HullError):
                decode_hulls(total, case.public)
            damaged += 1
    assert damaged > 3


def test_a_number_that_is_not_reduced_is_not_taken_for_more_hulls() -> None:
    public = replace(DENSE, code="bose-chowla")
    total = encode_hulls([hull(1), hull(1)], 0, [0, 1], public)
    total[0] += np.uint64(public.prime)
    with refuses("undecodable", "not below the prime", error=HullError):
        decode_hulls(total, public)


def test_every_single_flip_is_refused() -> None:
    for public in (replace(PUBLIC, cap=3), replace(DENSE, cap=3)):
        total = small(public).total()
        for place in range(total.size):
            damaged = total.copy()
            damaged[place] ^= np.uint64(1)
            with refuses("undecodable", error=HullError):
                decode_hulls(damaged, public)


def test_a_hull_above_the_cap_or_of_nobody_is_refused() -> None:
    """Of clients with other public values that happen to give vectors of the same length."""
    larger = replace(DENSE, cap=DENSE.cap + 1)
    full = hull(*range(1, larger.cap + 1))
    with refuses("undecodable", "more vertices than the cap", error=HullError):
        decode_hulls(encode_hulls([full], 0, [0], larger), DENSE)
    fewer = replace(PUBLIC, num_classes=1, num_clients=25)
    more_clients = replace(fewer, num_clients=26)
    assert (fewer.length, fewer.prime) == (more_clients.length, more_clients.prime)
    with refuses("undecodable", "belongs to no client", error=HullError):
        decode_hulls(encode_hulls([hull(1)], 25, [0], more_clients), fewer)


@pytest.mark.parametrize(
    ("hulls", "position", "slots", "key", "allowed"),
    [
        ([hull(1), hull(2), hull(3)], 0, [0, 1, 2], "slots", "0 to 1"),
        ([hull(1)], 0, [0, 1], "slots", "0 to 1"),
        ([hull(1), hull(2)], 0, [1, 1], "slots", "0 to 1"),
        ([hull(1)], 0, [2], "slots", "0 to 1"),
        ([hull(1)], 0, [-1], "slots", "0 to 1"),
        ([hull(1)], 3, [0], "position", "0 to 2"),
        ([hull(1)], -1, [0], "position", "0 to 2"),
        ([hull(*range(1, 10))], 0, [0], "bins", "hull.cap = 8"),
        ([hull(4, 4)], 0, [0], "bins", "1 to"),
        ([hull(0)], 0, [0], "bins", "1 to"),
        ([hull(PUBLIC.quantizer.num_bins + 1)], 0, [0], "bins", "1 to"),
    ],
)
def test_bad_hulls_are_refused(
    hulls: list[np.ndarray], position: int, slots: list[int], key: str, allowed: str
) -> None:
    with refuses(key, allowed, error=HullError):
        encode_hulls(hulls, position, slots, PUBLIC)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"num_classes": 0}, "number of classes is 0"),
        ({"num_clients": 1}, "number of clients is 1; at least 2"),
        ({"cap": 0}, "hull.cap is 0"),
        ({"code": "gray"}, "hull.code='gray'; allowed are binary, bose-chowla"),
        ({"code": "bose-chowla", "h": 1}, "hull.h = 1; allowed are 2 up to"),
        ({"code": "bose-chowla", "h": 7}, "hull.h = 7; allowed are 2 up to .* 6"),
        ({"code": "bose-chowla", "num_clients": 50, "h": 9}, "hull.h = 9 .* more than 62 bits"),
        ({"code": "bose-chowla", "num_clients": 1001}, "2002 hulls in all; .* up to 2000"),
        ({"epsilon": 0.0}, "hull.epsilon=0.0"),
        ({"epsilon": 1e-12}, "hull.epsilon=1e-12"),
        ({"epsilon": float("nan")}, "hull.epsilon=nan"),
        ({"radius": 1.0}, "hull.radius=1.0"),
        (
            {"cap": 10**7, "epsilon": 1e-4},
            f"numbers; allowed are up to {MAX_LENGTH}: .* hull.cap, .* hull.epsilon",
        ),
    ],
)
def test_bad_public_values_are_refused(change: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        replace(PUBLIC, **change)


def test_what_is_public_follows_from_the_public_values() -> None:
    assert PUBLIC.length == 2 * 2 * 3 * 8 + SPARE
    assert not PUBLIC.is_dense
    assert DENSE.is_dense
    assert DENSE.length == DENSE.quantizer.num_bins + SPARE
    large = replace(PUBLIC, num_clients=40)
    assert large.label_code.num_words == 4
    assert large.length == 2 * 80 * 8 + 4 * SPARE
    for public in (PUBLIC, DENSE, large, replace(large, code="bose-chowla")):
        assert public.prime > max(public.quantizer.num_bins, public.label_code.largest)
        assert public.prime < 2**63


def test_the_largest_numbers_of_bins() -> None:
    """Near 2⁶² bins the field is as large as it gets, and sums of two residues still fit."""
    public = replace(PUBLIC, radius=0.999, epsilon=3e-7)
    last = public.quantizer.num_bins
    assert last > 2**60
    clients = ((hull(1, last), hull(last)), (hull(last - 1, 2),), (hull(2**53 + 1),))
    case = HullCase(public, clients, (0, 1, 2), ((0, 1), (0,), (1,)))
    assert decoded(case.total(), public) == case.sent


def test_equal_values_have_equal_digests_and_others_do_not() -> None:
    digest = PUBLIC.digest
    assert replace(PUBLIC, curvature=-1).digest == digest
    assert replace(PUBLIC, curvature=-1) == PUBLIC
    assert hash(replace(PUBLIC, curvature=-1)) == hash(PUBLIC)
    changes = {
        "curvature": -0.9,
        "radius": 0.9,
        "epsilon": 0.04,
        "num_classes": 3,
        "num_clients": 4,
        "cap": 9,
        "h": 3,
        "equal_area": True,
    }
    digests = {replace(PUBLIC, **{name: value}).digest for name, value in changes.items()}
    digests.add(replace(PUBLIC, code="bose-chowla").digest)
    assert len(digests | {digest}) == len(changes) + 2
