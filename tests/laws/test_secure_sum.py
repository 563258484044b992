"""What holds of every secure sum: with all members it is exact, without one of them it is noise, and
the server learns the sum and nothing else."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from Crypto.Cipher import ChaCha20
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from secure_sums import BASIS, Run, entropy, other_basis, plain_sum, session, vectors
from tiers import examples

from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.secure_sum import masks
from curvfed.strategies.secure_sum.fixed_point import FixedPoint, add, subtract
from curvfed.strategies.secure_sum.masks import uniform
from curvfed.strategies.secure_sum.messages import Basis

LARGEST = 2**63 - 25  # a prime


# --- The sum


@examples(40)
@given(
    num=st.integers(2, 12),
    modulus=st.sampled_from([3, 97, 2**24 + 43, 2**61 - 1, LARGEST]),
    seed=st.integers(0, 9),
    stored=st.booleans(),
    signed=st.booleans(),
)
def test_the_sum_of_any_group_is_exact(num, modulus, seed, stored, signed):
    clients = tuple(range(3, 3 + 2 * num, 2))
    what = session(num, modulus=modulus, clients=clients)
    values = vectors(what, seed)
    run = Run(what, values, texts=b"note", stored=stored, seed=seed, signed=signed)
    assert run.total().tolist() == plain_sum(what, values)
    assert all(set(read.values()) == {b"note"} for read in run.read.values())


@examples(40)
@given(num=st.integers(2, 9), data=st.data())
def test_without_a_member_there_is_no_sum(num, data):
    what = session(num)
    gone = data.draw(st.sets(st.integers(0, num - 1), min_size=1))
    run = Run(what, vectors(what)).agreed().mask(gone)
    assert run.server.missing == sorted(gone)
    with pytest.raises(SecureSumError, match="a group sums with all its members"):
        run.server.total()


@pytest.mark.parametrize("value", [0, LARGEST - 1])
def test_sums_at_the_ends_of_the_field(value):
    what = session(10, modulus=LARGEST)
    values = {p: np.full(5, value, np.uint64) for p in what.clients}
    assert Run(what, values).total().tolist() == plain_sum(what, values)


def test_a_vector_that_is_masked_again_has_the_same_bytes():
    what = session(4)
    run = Run(what, vectors(what)).agreed().mask()
    for p, member in run.members.items():
        repeated = member.mask(run.values[p], what, BASIS)
        assert repeated.tolist() == run.masked[p].tolist()


def test_fresh_keys_give_other_masks_and_the_same_sum():
    what = session(4)
    values = vectors(what)
    first, second = (Run(what, values, seed=seed) for seed in (1, 2))
    assert first.total().tolist() == second.total().tolist()
    for p in what.clients:
        assert not (first.masked[p] == second.masked[p]).any()


# --- What the server sees


def test_masks_are_uniform_by_an_independent_stream_and_rejection():
    for modulus in (3, 97, 2**24 + 43, 2**32 - 5, 2**61 - 1, 2**62 + 1, LARGEST):
        key, length = entropy(modulus % 1000)(32), 300
        stream = ChaCha20.new(key=key, nonce=bytes(8))
        expected = []
        while len(expected) < length:
            word = int.from_bytes(stream.encrypt(bytes(8)), "little")
            if word < 2**64 - 2**64 % modulus:
                expected.append(word % modulus)
        assert uniform(key, length, modulus).tolist() == expected
        assert uniform(key, 7, modulus).tolist() == expected[:7]


def test_rejection_is_without_bias_where_plain_reduction_is_not():
    """For q = 0.4·2⁶⁴ a plain remainder would hit the lower half 3:2."""
    modulus = 2**65 // 5
    drawn = uniform(entropy(5)(32), 100_000, modulus).astype(np.float64) / modulus
    assert stats.kstest(drawn, "uniform").pvalue > 0.01
    words = np.random.default_rng(0).integers(0, 2**64, 100_000, dtype=np.uint64)
    assert stats.kstest((words % np.uint64(modulus)) / modulus, "uniform").pvalue < 1e-6


@pytest.mark.parametrize("modulus", [97, 2**61 - 1])
def test_masked_vectors_are_uniform(modulus):
    what = session(4, modulus=modulus, length=50_000)
    values = {p: np.zeros(what.length, np.uint64) for p in what.clients}
    for masked in Run(what, values).agreed().mask().masked.values():
        if modulus == 97:
            counts = np.bincount(masked.astype(np.int64), minlength=97)
            assert stats.chisquare(counts).pvalue > 0.001
        else:
            assert stats.kstest(masked / modulus, "uniform").pvalue > 0.001


@pytest.mark.parametrize(
    "changes",
    [
        {"phase": "other"},
        {"round": 2},
        {"modulus": 2**61 - 3},
        {"length": 6},
        *({"basis": name} for name in Basis.model_fields),
    ],
    ids=lambda changes: "-".join(map(str, changes.items())),
)
def test_every_field_of_a_sum_gives_other_masks(changes):
    """Equal masks of two sums would show the difference of two vectors."""
    what = session(3)
    members = Run(what, vectors(what)).agreed().members
    fields = dict(changes)
    basis = other_basis(fields.pop("basis")) if "basis" in fields else BASIS
    changed = session(3, **fields)
    zeros = np.zeros(what.length, np.uint64)
    first = members[0].mask(zeros, what, BASIS)
    second = members[0].mask(np.zeros(changed.length, np.uint64), changed, basis)
    assert not (first == second[: what.length]).any()


def test_no_message_but_the_masked_vector_depends_on_the_data():
    what = session(5)
    first, second = (Run(what, vectors(what, seed), texts=b"n") for seed in (1, 2))
    first.total()
    second.total()
    assert (first.keys, first.written) == (second.keys, second.written)
    assert not any((first.masked[p] == second.masked[p]).any() for p in what.clients)


def test_the_view_of_the_server_is_a_function_of_the_sum(monkeypatch):
    """Every mask modulo 3: data sets of one sum give each view equally often, others never."""
    what = session(3, modulus=3, length=1)
    members = Run(what, vectors(what)).agreed().members
    secrets = {p: member.shared_secrets for p, member in members.items()}
    edges = [(0, 1), (0, 2), (1, 2)]
    edge_of = {secrets[low][high]: (low, high) for low, high in edges}
    drawn: dict[tuple[int, int], int] = {}
    monkeypatch.setattr(
        masks, "pairwise_mask", lambda _, secret, __: np.array([drawn[edge_of[secret]]], np.uint64)
    )

    def views(data: tuple[int, ...]) -> Counter:
        counts: Counter = Counter()
        for numbers in itertools.product(range(3), repeat=3):
            drawn.update(zip(edges, numbers, strict=True))
            view = []
            for p in what.clients:
                vector = np.array([data[p]], np.uint64)
                view.append(int(masks.mask(vector, what, secrets[p], p, BASIS)[0]))
            counts[tuple(view)] += 1
        return counts

    chosen = [(0, 0, 0), (1, 2, 0), (0, 1, 2), (0, 0, 1)]
    views_of = {data: views(data) for data in chosen}
    for first, second in itertools.combinations(chosen, 2):
        if sum(first) % 3 == sum(second) % 3:
            assert views_of[first] == views_of[second]
        else:
            assert not views_of[first].keys() & views_of[second].keys()


def test_two_data_sets_of_one_sum_look_alike_to_the_server():
    """By the real masks, two members of three."""
    what = session(3, modulus=3, length=2000)

    def counts(data: tuple[int, ...], seed: int) -> np.ndarray:
        values = {p: np.full(what.length, data[p], np.uint64) for p in what.clients}
        masked = Run(what, values, seed=seed).agreed().mask().masked
        assert (sum(masked.values()) % 3 == sum(data) % 3).all()
        return np.bincount((3 * masked[0] + masked[1]).astype(np.int64), minlength=9)

    table = np.stack([counts((0, 0, 0), 1), counts((1, 2, 0), 2), counts((2, 2, 2), 3)])
    assert stats.chi2_contingency(table).pvalue > 0.001
    assert all(stats.chisquare(row).pvalue > 0.001 for row in table)


@pytest.mark.parametrize("name", Basis.model_fields)
def test_what_is_left_of_a_sum_of_two_bases_is_uniform(name):
    """Also for a server that knows all vectors but the first: chi-square with 12 degrees of freedom
    at fixed seeds, .999 quantile 32.9."""
    modulus = 13
    counts = np.zeros(modulus)
    for seed in range(4):
        what = session(5, modulus=modulus, length=400, run=f"{name} {seed}")
        values = vectors(what, seed)
        members = Run(what, values, seed=seed).agreed().members
        remainder = np.zeros(what.length, np.uint64)
        for p, member in members.items():
            basis = other_basis(name) if p == 0 else BASIS
            remainder = add(remainder, member.mask(values[p], what, basis), modulus)
            if p:
                remainder = subtract(remainder, values[p], modulus)
        counts += np.bincount(
            subtract(remainder, values[0], modulus).astype(int), minlength=modulus
        )
    expected = counts.sum() / modulus
    assert ((counts - expected) ** 2 / expected).sum() < 32.9


# --- The parts


@given(data=st.data(), modulus=st.sampled_from([3, 97, 2**32 + 15, 2**61 - 1, LARGEST]))
def test_sums_and_differences_do_not_overflow(data, modulus):
    residues = st.lists(
        st.integers(0, modulus - 1) | st.sampled_from([0, modulus - 1]), min_size=4, max_size=4
    )
    a, b = data.draw(residues), data.draw(residues)
    first, second = np.array(a, np.uint64), np.array(b, np.uint64)
    assert add(first, second, modulus).tolist() == [
        (x + y) % modulus for x, y in zip(a, b, strict=True)
    ]
    assert subtract(first, second, modulus).tolist() == [
        (x - y) % modulus for x, y in zip(a, b, strict=True)
    ]


# --- Fixed point


@given(
    limit=st.floats(1e-6, 1e9),
    terms=st.integers(1, 60),
    modulus=st.sampled_from([1009, 2**31 - 1, 2**61 - 1, LARGEST]),
    seed=st.integers(0, 1000),
)
def test_sums_of_reals_are_within_the_bound(limit, terms, modulus, seed):
    coder = FixedPoint(limit, terms, modulus)
    assert (
        terms * (limit * coder.scale + 1)
        < modulus / 2
        <= terms * (2 * limit * coder.scale + 1) * (1 + 1e-12)
    )
    rng = np.random.default_rng(seed)
    values = rng.uniform(-1.2 * limit, 1.2 * limit, (terms, 20))
    values[:, 0], values[:, 1] = limit, -limit
    total = np.zeros(20, np.uint64)
    for row in values:
        total = add(total, coder.encode(row), modulus)
    for value, column in zip(
        coder.decode(total).tolist(), np.clip(values, -limit, limit).T.tolist(), strict=True
    ):
        away = abs(Fraction(value) - sum(map(Fraction, column)))
        assert away <= Fraction(coder.error) + abs(Fraction(value)) / 2**52


def test_what_a_fixed_point_is_exact_for():
    coder = FixedPoint(8.0, 4, 2**61 - 1)
    numbers = np.array([0.0, -0.0, 1.5, -1.5, 8.0, -8.0, 2.0**-40])
    residues = coder.encode(numbers)
    assert residues.dtype == np.uint64
    assert coder.decode(residues).tolist() == numbers.tolist()
    assert coder.encode([]).shape == (0,)
