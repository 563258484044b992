"""What holds of every secure sum: it is exact whoever vanishes, and the server learns the sum and
nothing else."""

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import networkx
import numpy as np
import pytest
from Crypto.Cipher import ChaCha20
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from secure_sums import BASIS, STEPS, Run, entropy, plain_sum, session, vectors
from tiers import examples

from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.secure_sum import checksum
from curvfed.strategies.secure_sum import client as client_module
from curvfed.strategies.secure_sum.client import SecureSumClient
from curvfed.strategies.secure_sum.fixed_point import FixedPoint, add, subtract
from curvfed.strategies.secure_sum.masks import self_mask, uniform
from curvfed.strategies.secure_sum.neighbours import (
    COMPLETE,
    FAILURE,
    collusion,
    degree,
    is_connected,
    neighbours_of,
)

pytestmark = pytest.mark.long  # every pattern of who vanishes

LARGEST = 2**63 - 25  # a prime


# --- The sum
# ---------------------------------------------------------------------------------------------------------


def outcome(what: Run) -> None:
    """The sum is that of those who masked, or too few are left and nothing was revealed."""
    left = {
        step: sum(what.gone.get(p, "none") not in STEPS[: i + 1] for p in what.clients)
        for i, step in enumerate(STEPS)
    }
    members = tuple(p for p in what.clients if what.gone.get(p) != "keys")
    needed = what.session.needed
    if left["keys"] >= needed:  # the threshold is from here on that of the members
        needed = replace(what.session, clients=members).needed
    if min(left.values()) >= needed and left["keys"] >= what.session.needed:
        total = what.total()
        survivors = what.survivors
        assert survivors == tuple(
            p for p in what.clients if what.gone.get(p) in (None, "confirm", "unmask")
        )
        assert total.tolist() == plain_sum(what.session, what.values, survivors)
        assert what.server.suspects == set()
        return
    with pytest.raises(SecureSumError, match=rf"\d+ of \d+ clients .*; needed {needed}"):
        what.total()
    assert left["unmask"] < needed
    if left["confirm"] < needed:
        assert not what.revealed


@pytest.mark.parametrize("num", [2, 3, 4])
def test_every_pattern_of_vanishing_clients(num):
    what = session(num)
    values = vectors(what)
    for steps in itertools.product(
        [None, "keys", "share", "mask", "confirm", "unmask"], repeat=num
    ):
        outcome(Run(what, values, {p: step for p, step in enumerate(steps) if step}))


@examples(40)
@given(
    num=st.integers(5, 12),
    steps=st.lists(st.sampled_from([None, None, None, *STEPS]), min_size=12, max_size=12),
    modulus=st.sampled_from([3, 97, 2**24 + 43, 2**61 - 1, LARGEST]),
    seed=st.integers(0, 9),
    stored=st.booleans(),
)
def test_any_clients_modulus_and_way_to_vanish(num, steps, modulus, seed, stored):
    what = session(
        num, modulus=modulus, clients=tuple(range(3, 3 + 2 * num, 2)), threshold=num // 2 + 1
    )
    gone = {p: step for p, step in zip(what.clients, steps, strict=False) if step}
    outcome(
        Run(
            what,
            vectors(what, seed),
            gone,
            payload=b"note" if seed % 2 else b"",
            stored=stored,
            seed=seed,
        )
    )


@examples(25)
@given(
    data=st.data(),
    num=st.integers(4, 12),
    modulus=st.sampled_from([3, 2**61 - 1, LARGEST]),
    later=st.booleans(),
)
def test_complaints_leave_out_the_right_ones_and_the_rest_has_an_exact_sum(
    data, num, modulus, later
):
    """Whom most complain about, or else those who complain; in either step, and whoever else
    vanishes."""
    what = session(num, modulus=modulus)
    values = vectors(what)
    run = Run(what, values).until("share" if later else "keys")
    accused = data.draw(st.integers(0, num - 1))
    others = [p for p in what.clients if p != accused]
    accusers = data.draw(st.sets(st.sampled_from(others), min_size=1))
    silent = data.draw(st.sets(st.sampled_from(others), max_size=num // 4)) - accusers
    for p in what.clients:
        if p in accusers:
            run.server.receive_complaint(p, [accused])
        elif p not in silent and later:
            run.clients[p].receive_shares(run.delivered[p])
            masked = run.clients[p].mask_input(values[p], BASIS)
            run.server.receive_masked_input(p, masked, checksum(masked, run.bound, p), BASIS)
        elif p not in silent:
            run.server.receive_shares(p, run.clients[p].share_keys(run.keys, roster=run.roster))
    out = run.server.to_leave_out()
    jury = num - 1 - len(silent)
    assert set(out) == ({accused} if 2 * len(accusers) > jury else accusers)
    rest = tuple(p for p in what.clients if p not in silent and p not in out)
    if len(rest) > 1:
        again = replace(what, clients=rest, asked=num)
        assert Run(again, values).total().tolist() == plain_sum(what, values, rest)


@pytest.mark.parametrize("value", [0, LARGEST - 1])
def test_sums_at_the_ends_of_the_field(value):
    what = session(10, modulus=LARGEST)
    values = {p: np.full(5, value, np.uint64) for p in what.clients}
    outcome(Run(what, values, {3: "mask"}))


def test_fifty_clients_of_whom_some_vanish_at_every_step():
    what = session(50, threshold=34)
    gone = {p: STEPS[p // 3 % 6] for p in range(0, 48, 3)}
    outcome(Run(what, vectors(what), gone))


@pytest.mark.parametrize("note", [b"", b"a note"])
def test_a_sparse_graph(note):
    what = session(100, neighbours=20)
    gone = {p: STEPS[p // 10 % 6] for p in range(0, 100, 10)}
    run = Run(what, vectors(what), gone, payload=note, stored=bool(note))
    outcome(run)
    assert {len(shares.by_partition) for shares in run.shares.values()} == {
        len(run.keys) - 1 if note else 20
    }
    assert {len(revealed) for revealed in run.revealed.values()} <= set(range(12, 22))


@pytest.mark.parametrize("note", [b"", b"from me"])
def test_a_statement_reaches_the_client_that_it_is_for(note):
    """The neighbours, and with a payload all others."""
    run = Run(session(70, neighbours=8), vectors(session(70))).until("keys")
    for p, member in run.clients.items():
        statements = {q: f"{p:02} to {q:02}".encode() for q in run.keys}
        sent = member.share_keys(run.keys, note, run.roster, statements)
        run.server.receive_shares(p, sent)
    for p, incoming in run.server.close_shares().items():
        payloads = run.clients[p].receive_shares(incoming)
        found = run.clients[p].state.statements
        assert found == {q: f"{q:02} to {p:02}".encode() for q in found}
        assert len(found) == (69 if note else 8)
        assert set(payloads.values()) == {note}


def test_notes_reach_all_others():
    run = Run(
        session(70, neighbours=8), vectors(session(70)), {2: "share"}, payload=b"from me"
    ).until("deliver")
    for payloads in run.payloads.values():
        assert payloads == {p: b"from me" for p in run.session.clients if p != 2}


# --- What the server sees
# --------------------------------------------------------------------------------------------


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
    for masked in Run(what, values).until("mask").masked.values():
        if modulus == 97:
            assert (
                stats.chisquare(np.bincount(masked.astype(np.int64), minlength=97)).pvalue > 0.001
            )
        else:
            assert stats.kstest(masked / modulus, "uniform").pvalue > 0.001


def test_no_message_but_the_masked_vector_depends_on_the_data():
    what = session(5)
    one, other = (Run(what, vectors(what, seed), {1: "mask"}, payload=b"n") for seed in (1, 2))
    one.total(), other.total()
    assert (one.keys, one.shares, one.revealed) == (other.keys, other.shares, other.revealed)
    assert one.masked.keys() == other.masked.keys()
    assert not any((one.masked[p] == other.masked[p]).any() for p in one.masked)


@pytest.mark.parametrize("dropped", [None, 0, 2])
def test_the_view_of_the_server_is_a_function_of_the_sum(monkeypatch, dropped):
    """Every mask modulo 3: data sets of one sum give each view as often, data sets of two sums
    never the same.

    The view is all masked vectors (also a dropped client's, which came too late), the own masks of
    the survivors and the pairwise masks of the dropped: what the revealed shares give.
    """
    what = session(3, modulus=3, length=1)
    states = {
        p: member.state for p, member in Run(what, vectors(what)).until("deliver").clients.items()
    }
    pairs = [(0, 1), (0, 2), (1, 2)]
    own: dict[int, int] = {}
    pair: dict[tuple[int, int], int] = {}
    monkeypatch.setattr(client_module, "self_mask", lambda _, p, __: np.array([own[p]], np.uint64))
    monkeypatch.setattr(
        client_module,
        "pairwise_mask",
        lambda _, __, me, peer, *___, basis: np.array(
            [pair[min(me, peer), max(me, peer)]], np.uint64
        ),
    )
    survivors = [p for p in what.clients if p != dropped]

    def views(data: tuple[int, ...]) -> Counter:
        counts: Counter = Counter()
        for drawn in itertools.product(range(3), repeat=6):
            own.update(zip(what.clients, drawn[:3], strict=True))
            pair.update(zip(pairs, drawn[3:], strict=True))
            masked = [
                int(SecureSumClient(states[p]).mask_input(np.array([data[p]], np.uint64), BASIS)[0])
                for p in what.clients
            ]
            lifted = [pair[edge] for edge in pairs if dropped in edge]
            counts[*masked, *(own[p] for p in survivors), *lifted] += 1
        return counts

    def total(data: tuple[int, ...]) -> int:
        return sum(data[p] for p in survivors) % 3

    chosen = [(0, 0, 0), (1, 2, 0), (0, 1, 2), (0, 0, 1)]
    seen = {data: views(data) for data in chosen}
    for one, other in itertools.combinations(chosen, 2):
        if total(one) == total(other):
            assert seen[one] == seen[other]
        else:
            assert not seen[one].keys() & seen[other].keys()


def test_two_data_sets_of_one_sum_look_alike_to_the_server():
    """By the real masks: what is left of the masked vectors without the survivors' own masks, two
    clients of three."""
    what = session(3, modulus=3, length=2000)

    def left(data: tuple[int, ...], seed: int) -> np.ndarray:
        values = {p: np.full(what.length, data[p], np.uint64) for p in what.clients}
        run = Run(what, values, seed=seed).until("deliver")
        open_ = {}
        for p, member in run.clients.items():
            state = member.state
            open_[p] = subtract(
                member.mask_input(values[p], BASIS), self_mask(run.bound, p, state.seed), 3
            )
        assert (sum(open_.values()) % 3 == sum(data) % 3).all()
        return np.bincount((3 * open_[0] + open_[1]).astype(np.int64), minlength=9)

    table = np.stack([left((0, 0, 0), 1), left((1, 2, 0), 2), left((2, 2, 2), 3)])
    assert stats.chi2_contingency(table).pvalue > 0.001
    assert all(stats.chisquare(row).pvalue > 0.001 for row in table)


def test_an_answer_holds_one_kind_of_share_of_each_client():
    what = session(6)
    run = Run(what, vectors(what), {1: "mask", 4: "share"}).until("confirm")
    states = {p: run.clients[p].state.shares for p in run.survivors}
    run._unmask()
    for p, answer in run.revealed.items():
        assert answer.keys() == {0, 1, 2, 3, 5}
        for client, share in answer.items():
            seed_share, key_share = states[p][client][:33], states[p][client][33:]
            assert share == (b"k" + key_share if client == 1 else b"s" + seed_share)


# --- The parts
# -------------------------------------------------------------------------------------------------------


@given(data=st.data(), modulus=st.sampled_from([3, 97, 2**32 + 15, 2**61 - 1, LARGEST]))
def test_sums_and_differences_do_not_overflow(data, modulus):
    residues = st.lists(
        st.integers(0, modulus - 1) | st.sampled_from([0, modulus - 1]), min_size=4, max_size=4
    )
    a, b = data.draw(residues), data.draw(residues)
    one, other = np.array(a, np.uint64), np.array(b, np.uint64)
    assert add(one, other, modulus).tolist() == [
        (x + y) % modulus for x, y in zip(a, b, strict=True)
    ]
    assert subtract(one, other, modulus).tolist() == [
        (x - y) % modulus for x, y in zip(a, b, strict=True)
    ]


@pytest.mark.parametrize(("num", "k"), [(8, 4), (65, 6), (200, 88), (7, 6), (5, 8), (1, 4)])
def test_the_graph_is_regular_symmetric_and_connected(num, k):
    clients = tuple(range(10, 10 + 3 * num, 3))
    graph = neighbours_of(clients, k, b"seed")
    assert graph.keys() == set(clients)
    reached, ahead = set(), [clients[0]]
    while ahead:
        client = ahead.pop()
        reached.add(client)
        assert len(graph[client]) == min(k, num - 1)
        assert client not in graph[client]
        assert all(client in graph[other] for other in graph[client])
        ahead += [other for other in graph[client] if other not in reached]
    assert reached == set(clients)
    assert graph == neighbours_of(clients[::-1], k, b"seed")
    if k < num - 1:
        assert graph != neighbours_of(clients, k, b"other")


@pytest.mark.parametrize("clients", [65, 100, 333, 1000])
def test_the_degree_keeps_its_bound(clients):
    threshold = -(-2 * clients // 3)
    k = degree(clients, threshold)
    failure, fewer = (
        clients * stats.hypergeom(clients - 1, threshold, n).cdf(n // 2) for n in (k, k - 2)
    )
    assert failure <= 1 / FAILURE < fewer
    assert k % 2 == 0
    assert k < 30 * np.log(clients)


@pytest.mark.parametrize(
    ("clients", "threshold"), [(65, 0), (100, 100), (333, 0), (1000, 0), (1000, 1000)]
)
def test_who_colludes_is_hardly_ever_most_of_a_clients_neighbours(clients, threshold):
    k = degree(clients, threshold or -(-2 * clients // 3))
    ways, draws = collusion(clients, clients // 10, k)
    assert math.isclose(
        ways / draws,
        clients * stats.hypergeom(clients - 1, clients // 10, k).sf(k // 2),
        rel_tol=1e-6,
    )
    assert ways * 2**60 <= draws / 2**40  # whoever draws the graph anew 2⁶⁰ times
    if clients == threshold == 1000:
        ways, draws = collusion(clients, clients // 10, k - 2)
        assert ways * 2**60 > draws / 2**40


@pytest.mark.parametrize("clients", [65, 100, 333, 1000])
def test_the_graph_expands(clients):
    """By its largest eigenvalue but k, which bounds two sets without an edge between them. A ring's
    would be nearly k."""
    k = degree(clients, -(-2 * clients // 3))
    for seed in range(20):
        graph = neighbours_of(tuple(range(clients)), k, b"%d" % seed)
        matrix = np.zeros((clients, clients))
        for client, near in graph.items():
            matrix[client, list(near)] = 1
        values = np.sort(np.abs(np.linalg.eigvalsh(matrix)))
        assert math.isclose(values[-1], k)
        assert values[-2] < 0.4 * k
        if clients > 100:
            break


@given(
    edges=st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=14),
    there=st.sets(st.integers(0, 7), min_size=1),
)
def test_what_is_connected(edges, there):
    graph = {
        one: {b for a, b in edges if a == one} | {a for a, b in edges if b == one}
        for one in range(8)
    }
    whole = networkx.Graph([(a, b) for a, b in edges if {a, b} <= there])
    whole.add_nodes_from(there)
    assert is_connected(graph, there) == networkx.is_connected(whole)


def test_the_degree_where_no_sparse_graph_will_do():
    assert degree(COMPLETE, 43) == COMPLETE - 1
    # half may be lost: no smaller graph keeps more than half of every client's shares
    assert degree(65, 33) == 64
    # nobody may: so many that a tenth of them are never most neighbours of another
    assert degree(65, 65) == 12


# --- Fixed point
# -----------------------------------------------------------------------------------------------------


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
    for found, column in zip(
        coder.decode(total).tolist(), np.clip(values, -limit, limit).T.tolist(), strict=True
    ):
        away = abs(Fraction(found) - sum(map(Fraction, column)))
        assert away <= Fraction(coder.error) + abs(Fraction(found)) / 2**52


def test_what_a_fixed_point_is_exact_for():
    coder = FixedPoint(8.0, 4, 2**61 - 1)
    numbers = np.array([0.0, -0.0, 1.5, -1.5, 8.0, -8.0, 2.0**-40])
    residues = coder.encode(numbers)
    assert residues.dtype == np.uint64
    assert coder.decode(residues).tolist() == numbers.tolist()
    assert coder.encode([]).shape == (0,)


def test_a_server_that_gets_the_same_messages_again_has_the_same_sum():
    of = session(6, threshold=4)
    run = Run(of, vectors(of), {0: "deliver"}).until("unmask")
    again = run.server_again()
    assert again.tolist() == run.server.total().tolist() == plain_sum(of, run.values, range(1, 6))
