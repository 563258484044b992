"""GCFL and GCFL+ against brute force and small programs, in their limits, and as a whole."""

import itertools
import math

import numpy as np
import pytest
from app_runs import Recorder, Run, array_names, partition_of, run
from graph_fixtures import write_tu
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load, save

from curvfed.extensions.graph_baselines.methods.gcfl import (
    GcflServer,
    Keys,
    Updates,
    min_cut,
    sequence_weights,
    time_warping,
)
from curvfed.strategies.base.aggregation import Average
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.codec import decode_arrays

EPS = float(np.finfo(np.float64).eps)
EPS32 = float(np.finfo(np.float32).eps)
numbers = st.lists(st.integers(-9, 9).map(float), min_size=1, max_size=5)


@st.composite
def complete_graphs(draw):
    n = draw(st.integers(2, 7))
    matrix = draw(hnp.arrays(np.float64, (n, n), elements=st.integers(0, 9).map(float)))
    upper = np.triu(matrix, 1)
    return upper + upper.T


def across(weights, half):
    outside = [i for i in range(len(weights)) if i not in half]
    return weights[np.ix_(half, outside)].sum()


@given(complete_graphs())
def test_the_cut_is_the_least_of_all(weights):
    n = len(weights)
    halves = [list(half) for size in range(1, n) for half in itertools.combinations(range(n), size)]
    larger, smaller = min_cut(weights)
    assert sorted(larger + smaller) == list(range(n))
    assert larger == sorted(larger)
    assert smaller == sorted(smaller)
    assert (len(larger), -larger[0]) > (len(smaller), -smaller[0])
    assert across(weights, larger) == min(across(weights, half) for half in halves)


def walks(n, m):
    """All ways through n and m entries, from the first of both to the last of both."""
    if (n, m) == (1, 1):
        return [[(0, 0)]]
    before = [(n - 1, m - 1), (n - 1, m), (n, m - 1)]
    return [[*walk, (n - 1, m - 1)] for i, j in before if i and j for walk in walks(i, j)]


@given(numbers, numbers)
def test_time_warping_is_the_least_of_all_walks(first, second):
    lengths = [
        sum((first[i] - second[j]) ** 2 for i, j in walk) for walk in walks(len(first), len(second))
    ]
    shortest = min(lengths)
    assert time_warping(first, second) == pytest.approx(math.sqrt(shortest), rel=4 * EPS)
    assert time_warping(second, first) == time_warping(first, second)
    assert time_warping(first, [first[0], *first]) == 0


@given(st.lists(st.lists(st.floats(0, 10), min_size=3, max_size=3), min_size=2, max_size=5))
def test_sequences_that_are_near_weigh_more(sequences):
    weights = sequence_weights(sequences)
    distances = np.array(
        [[time_warping(first, second) for second in sequences] for first in sequences]
    )
    np.testing.assert_array_equal(weights, distances.max() - distances)
    assert weights.min() == 0


def arrays_of(vector):
    """Three numbers as the parameters of a model."""
    return {
        "b": np.array(vector[:2], np.float32).reshape(1, 2),
        "a": np.array(vector[2], np.float32),
    }


def vector_of(arrays):
    return np.append(arrays["b"].ravel(), arrays["a"]).astype(np.float64)


triples = hnp.arrays(np.float64, 3, elements=st.floats(-8, 8, width=16))


@given(triples, st.lists(triples, min_size=1, max_size=5))
def test_updates_are_measured_as_in_plain_numpy(start, models):
    measures = Updates.of(arrays_of(start), [arrays_of(model) for model in models])
    updates = np.array(models) - start
    np.testing.assert_allclose(measures.products, updates @ updates.T, rtol=8 * EPS, atol=1e-12)
    np.testing.assert_allclose(
        measures.mean_norm, np.linalg.norm(updates.mean(axis=0)), rtol=8 * EPS, atol=1e-12
    )
    np.testing.assert_allclose(measures.norms, np.linalg.norm(updates, axis=1), rtol=8 * EPS)
    weights = measures.weights()
    for i, j in itertools.product(range(len(models)), repeat=2):
        size = np.linalg.norm(updates[i]) * np.linalg.norm(updates[j])
        cosine = updates[i] @ updates[j] / size if size else 0
        assert weights[i, j] == pytest.approx(1 + cosine, abs=1e-12)
    assert weights.min() >= 0


def clusters(eps1=1.0, eps2=1.0, warmup=0, window=0):
    keys = Keys.model_construct(eps1=eps1, eps2=eps2, warmup=warmup, window=window)
    return GcflServer(arrays_of((0, 0, 0)), keys, RunKeys(learning_rate=1.0))


def replies_to(aggregation, updates, examples=None):
    """Replies of clients that each add their update to what they were sent."""
    return {
        p: Statistics(
            arrays_of(vector_of(aggregation.sent_to(p)) + update), (examples or {}).get(p, 1)
        )
        for p, update in sorted(updates.items())
    }


def go(aggregation, updates, examples=None):
    aggregation.aggregate(replies_to(aggregation, updates, examples))
    return aggregation.figures["clusters"]


LEFT = np.array([-3.0, 0, 0])
RIGHT = np.array([3.0, 0, 0])
UP = np.array([0, 0, 0.5])
STILL = np.zeros(3)
OPPOSED = {0: RIGHT, 1: RIGHT + UP, 2: LEFT, 3: LEFT - UP}


def members(aggregation):
    """The clusters as sets of partitions."""
    table = aggregation.state()["members"]
    return [
        set(table[table[:, 1] == number, 0].tolist()) for number in range(table[:, 1].max() + 1)
    ]


def test_a_cluster_that_disagrees_is_split_and_each_half_averages():
    aggregation = clusters()
    assert go(aggregation, OPPOSED, {0: 1, 1: 3, 2: 2, 3: 2}) == 2
    assert members(aggregation) == [{0, 1}, {2, 3}]
    assert aggregation.sent_to(0) is aggregation.sent_to(1)
    np.testing.assert_array_equal(vector_of(aggregation.sent_to(0)), RIGHT + 0.75 * UP)
    np.testing.assert_array_equal(vector_of(aggregation.sent_to(2)), LEFT - 0.5 * UP)
    go(aggregation, dict.fromkeys(range(4), UP))
    np.testing.assert_array_equal(vector_of(aggregation.sent_to(0)), RIGHT + 1.75 * UP)
    np.testing.assert_array_equal(vector_of(aggregation.sent_to(2)), LEFT + 0.5 * UP)


@pytest.mark.parametrize(
    ("settings", "updates", "split"),
    [
        ({"eps2": 2.9}, OPPOSED, True),
        ({"eps2": 3.1}, OPPOSED, False),  # the largest update is √(9 + 1/4) = 3.04
        ({"eps1": 1e-9}, OPPOSED, True),  # the mean is 0
        ({"eps1": 1.1}, {0: RIGHT, 1: RIGHT, 2: RIGHT, 3: LEFT}, False),  # the mean is 1.5
        ({"eps1": 1.6, "eps2": 1.6}, {0: RIGHT, 1: RIGHT, 2: RIGHT, 3: LEFT}, True),
        ({"eps1": 0.0}, OPPOSED, False),  # below, not at
        ({"warmup": 1}, OPPOSED, False),
        ({}, {0: RIGHT, 1: LEFT}, False),  # two are not parted
        ({}, {0: RIGHT, 1: LEFT, 2: STILL}, True),
        ({}, dict.fromkeys(range(4), STILL), False),
        ({}, {0: RIGHT}, False),
    ],
)
def test_when_a_cluster_is_split(settings, updates, split):
    assert go(clusters(**settings), updates) == 1 + split


@given(st.lists(triples, min_size=1, max_size=5), st.data())
def test_what_never_splits_is_the_average_to_the_bit(starts, data):
    aggregation = clusters(eps2=math.inf)
    average = Average(arrays_of((0, 0, 0)))
    for update in starts:
        count = data.draw(st.integers(1, 4))
        examples = {p: data.draw(st.integers(0, 5)) for p in range(count)}
        replies = replies_to(aggregation, {p: update * (p - 1) for p in range(count)}, examples)
        aggregation.aggregate(replies)
        average.aggregate(replies)
        for name, array in average.sent_to(0).items():
            assert aggregation.sent_to(0)[name].tobytes() == array.tobytes()
    assert aggregation.figures["clusters"] == 1


def test_gcfl_plus_parts_by_the_course_of_the_norms():
    """Directions say {0, 1} and {2, 3}; norms, which GCFL+ looks at, say {0, 2} and {1, 3}."""
    steady = [3.0, 3.0, 3.0]
    growing = [1.0, 2.0, 6.0]
    aggregation = clusters(eps1=10, eps2=5, window=3)
    way = {0: (RIGHT, steady), 1: (RIGHT, growing), 2: (LEFT, steady), 3: (LEFT, growing)}
    counts = [
        go(aggregation, {p: direction / 3 * norms[i] for p, (direction, norms) in way.items()})
        for i in range(3)
    ]
    assert counts == [1, 1, 2]
    assert members(aggregation) == [{0, 2}, {1, 3}]
    assert not any(name.startswith("sequence/") for name in aggregation.state())


def test_gcfl_plus_waits_for_whole_sequences_and_starts_them_anew():
    aggregation = clusters(window=2)
    eight = {p: RIGHT * (1 + p % 2) if p < 4 else LEFT * (1 + p % 2) for p in range(8)}
    # one split ends the sequences of all
    assert [go(aggregation, eight) for _ in range(4)] == [1, 2, 2, 3]
    aggregation = clusters(eps2=math.inf, window=2)
    for size in (1, 2, 3):
        go(aggregation, {0: RIGHT * size, 1: LEFT})
    state = aggregation.state()
    sequences = {
        name: array.tolist() for name, array in state.items() if name.startswith("sequence/")
    }
    assert sequences == {"sequence/0": [6.0, 9.0], "sequence/1": [3.0, 3.0]}


@pytest.mark.parametrize("window", [0, 2])
def test_a_stored_state_goes_on_to_the_same_bits(window):
    rng = np.random.default_rng(1)
    undisturbed = clusters(2, 2, window=window)
    stored = clusters(2, 2, window=window)
    updates = [{p: rng.normal(size=3) * 3 for p in range(12)} for _ in range(8)]
    for round_updates in updates[:4]:
        go(undisturbed, round_updates)
    stored.load(load(save(undisturbed.state())))
    for round_updates in updates[4:]:
        replies = replies_to(undisturbed, round_updates)
        undisturbed.aggregate(replies)
        stored.aggregate(replies)
    assert undisturbed.figures["clusters"] > 2
    assert stored.figures == undisturbed.figures
    assert save(stored.state()) == save(undisturbed.state())


def test_thresholds_that_would_part_equals_are_refused():
    with pytest.raises(ConfigError, match="eps1 <= eps2"):
        parse({"method": "gcfl", "gcfl.eps1": 0.2, "gcfl.eps2": 0.1})


def splitting(folder, **settings):
    """Settings of a run whose clients part in its second round."""
    settings["learning_rate"] = 0.01
    figures = run(folder, "look", method="gcfl", num_rounds=2, **settings).summary["metrics"]
    assert figures["mean_update_norm"] < figures["largest_update_norm"]
    threshold = (
        (figures["mean_update_norm"] + figures["largest_update_norm"])
        / 2
        / settings["learning_rate"]
    )
    return {
        "method": "gcfl",
        "gcfl__eps1": threshold,
        "gcfl__eps2": threshold,
        "gcfl__warmup": 1,
    } | settings


def parts(result: Run):
    table = result.model["members"]
    return [
        set(table[table[:, 1] == number, 0].tolist()) for number in range(table[:, 1].max() + 1)
    ]


def test_a_run_averages_within_the_clusters(tmp_path):
    recorder = Recorder()
    result = run(tmp_path, num_rounds=3, intercept=recorder, **splitting(tmp_path, clients=5))
    count = result.summary["metrics"]["clusters"]
    assert count == len(parts(result)) > 1
    stored = {name for name in result.model if name.startswith("cluster/")}
    names = array_names(recorder.requests("train")[0])
    assert stored == {f"cluster/{number}/{name}" for number in range(count) for name in names}
    pairs = {
        number: {
            partition_of(reply): (
                decode_arrays(request["arrays"]),
                reply["header"]["num_examples"],
                decode_arrays(reply["arrays"]),
            )
            for request, reply in recorder.pairs
            if request["header"]["round"] == number and "arrays" in request
        }
        for number in (1, 2, 3)
    }
    halves: dict[bytes, list[int]] = {}  # who is sent the same in the third round
    for p, (sent, _, _) in sorted(pairs[3].items()):
        halves.setdefault(sent["first.weight"].tobytes(), []).append(p)
    assert len(halves) == 2
    for half in halves.values():
        replies = [pairs[2][p] for p in half]
        for name, array in pairs[3][min(half)][0].items():
            total = sum(n * reply[name].astype(np.float64) for _, n, reply in replies)
            expected = total / sum(n for _, n, _ in replies)
            np.testing.assert_allclose(array, expected, rtol=2 * EPS32, atol=1e-9)
    updates = {
        p: np.concatenate([(reply[n].astype(np.float64) - sent[n]).ravel() for n in sent])
        for p, (sent, _, reply) in sorted(pairs[2].items())
    }
    unit = np.stack([update / np.linalg.norm(update) for update in updates.values()])
    weights = 1 + unit @ unit.T
    smallest_cut = min(
        across(weights, list(half))
        for size in (1, 2)
        for half in itertools.combinations(range(5), size)
    )
    assert across(weights, next(iter(halves.values()))) == pytest.approx(smallest_cut, rel=1e-9)


@pytest.mark.parametrize("rate", [0.0001, 0.01, 3.0])
def test_the_thresholds_go_with_the_learning_rate(rate):
    config = resolve_defaults(
        parse({"method": "gcfl", "dataset": "trees", "learning-rate": rate, "gcfl.warmup": 0}),
        "nodes",
    )
    for length, count in ((90, 1), (110, 2)):
        server = GcflServer(arrays_of((0, 0, 0)), config.own_keys, config)
        unit = rate * length / 3.0
        updates = {p: unit * update for p, update in enumerate((RIGHT, RIGHT, LEFT, LEFT))}
        assert go(server, updates) == count


@pytest.mark.parametrize("sets", ["MUTAG", "MUTAG,BZR"])
def test_of_networks_for_graphs_only_graph_layers_are_shared(sets, tmp_path):
    for name in sets.split(","):
        write_tu(tmp_path / "data", name, attributes=name == "MUTAG")
    recorder = Recorder()
    result = run(
        tmp_path,
        clients=4,
        method="gcfl",
        dataset=sets,
        data_dir=str(tmp_path / "data"),
        intercept=recorder,
    )
    sent = set().union(*map(array_names, recorder.replies("train")))
    assert sent
    assert not any(name.startswith(("input.", "head.")) for name in sent)
    assert {
        name.removeprefix("cluster/0/") for name in result.model if name.startswith("cluster/")
    } == sent
    assert result.summary["metrics"]["largest_update_norm"] > 0


def test_the_warm_up_ends():
    aggregation = clusters(warmup=2)
    assert [go(aggregation, OPPOSED) for _ in range(4)] == [1, 1, 2, 2]


def test_who_has_no_say_stays_with_the_larger_half():
    aggregation = clusters(eps1=2, eps2=2)
    go(aggregation, dict.fromkeys(range(7), UP), {6: 0})
    updates = {0: RIGHT, 1: LEFT, 3: LEFT, 4: LEFT, 6: STILL}
    assert go(aggregation, updates, {6: 0}) == 2
    assert members(aggregation) == [{1, 2, 3, 4, 5, 6}, {0}]
    np.testing.assert_array_equal(vector_of(aggregation.sent_to(2)), LEFT + UP)
    assert aggregation.sent_to(99) is aggregation.sent_to(6)


def test_fewer_than_most_of_the_known_decide_nothing():
    aggregation = clusters()
    go(aggregation, dict.fromkeys(range(8), UP))
    assert go(aggregation, OPPOSED) == 1
    assert go(aggregation, OPPOSED | {4: LEFT}) == 2


def test_clusters_are_split_again():
    aggregation = clusters()
    assert go(aggregation, {p: RIGHT if p < 4 else LEFT for p in range(8)}) == 2
    assert go(aggregation, {p: UP if p > 3 else (1 - 2 * (p % 2)) * 8 * UP for p in range(8)}) == 3
    assert members(aggregation) == [{0, 2}, {4, 5, 6, 7}, {1, 3}]
