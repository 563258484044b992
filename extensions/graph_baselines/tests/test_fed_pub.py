"""FED-PUB against small programs of this test's own, in its limits, and as a whole."""

import math

import numpy as np
import pytest
import torch
from app_runs import Recorder, array_names, parameters_in, partition_of, run
from graph_fixtures import write_tu
from hypothesis import given
from hypothesis import strategies as st

from curvfed.extensions.graph_baselines.functional_embedding import (
    EMBEDDING,
    FedPubParts,
    embed,
    random_graph,
)
from curvfed.extensions.graph_baselines.methods.fed_pub import FedPubServer, Keys, mixing_weights
from curvfed.strategies.base.aggregation import split_average
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.wire.codec import decode_arrays
from curvfed.tasks.graphs.model_spec import ModelSpec

EPS32 = float(np.finfo(np.float32).eps)
FLAT = [("nodes", "gcn"), ("graphs", "gin"), ("graphs", "gcn")]
MASKS = {"first.mask", "second.mask", "head.mask"}
SHARED = {
    "first.weight",
    "first.bias",
    "second.weight",
    "second.bias",
    "head.weight",
    "head.bias",
    EMBEDDING,
}


def spec(task, kind, threshold=0.1, features=7):
    addition = None if threshold is None else FedPubParts(threshold)
    return ModelSpec(task, kind, features, 3, 5, 0.5, True, False, addition=addition)


def scattered(model, seed=0):
    """Masks on both sides of the threshold 0.1, and at it."""
    values = torch.tensor([-1.5, -0.1, -0.09, 0.0, 0.05, 0.1, 0.7, 1.0])
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(".mask"):
                parameter.copy_(
                    values[torch.randint(len(values), parameter.shape, generator=generator)]
                )


def multiplied(masked, task, kind, pruned):
    """A network without masks whose weights are the masked ones', multiplied in NumPy."""
    plain = spec(task, kind, None).build(0)
    given_names = {
        name: parameter.detach().numpy() for name, parameter in masked.named_parameters()
    }
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            value = given_names[name]
            mask = (
                given_names.get(name.removesuffix("weight") + "mask")
                if name.endswith("weight")
                else None
            )
            if mask is not None:
                if pruned:
                    factors = np.where(np.abs(mask) < np.float32(0.1), np.float32(0), mask)
                else:
                    factors = mask
                value = value * factors
            parameter.copy_(torch.tensor(value))
    return plain


@pytest.mark.parametrize(("task", "kind"), FLAT)
def test_masks_multiply_the_weights_and_small_entries_count_in_training_alone(task, kind):
    model = spec(task, kind).build(0)
    inputs = random_graph(7, 1, task == "graphs")
    scattered(model)
    for training in (False, True):
        plain = multiplied(model, task, kind, pruned=not training).train(training)
        torch.manual_seed(3)
        expected = plain(inputs)
        torch.manual_seed(3)
        torch.testing.assert_close(model.train(training)(inputs), expected)
    assert not torch.allclose(
        multiplied(model, task, kind, False).eval()(inputs), model.eval()(inputs)
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_random_graph_is_what_the_code_draws(seed):
    graph = random_graph(11, seed, False)
    sources, targets = graph.edge_index.numpy()
    order = sources * 500 + targets
    assert (np.diff(order) > 0).all()
    expected = set(zip(targets.tolist(), sources.tolist(), strict=True))
    assert set(zip(sources.tolist(), targets.tolist(), strict=True)) == expected
    assert (sources != targets).all()
    assert (sources // 100 == targets // 100).all()
    pairs = 5 * 100 * 99 // 2
    assert abs(len(sources) / 2 - 0.1 * pairs) < 6 * math.sqrt(pairs * 0.1 * 0.9)
    features = graph.features.matrix.numpy()
    assert features.shape == (500, 11)
    assert abs(features.mean()) < 6 / math.sqrt(features.size)
    assert abs(features.var() - 1) < 6 * math.sqrt(2 / features.size)


def test_the_random_graph_depends_on_the_seed_alone():
    first = random_graph(3, 8, False)
    wide = random_graph(4, 8, True)
    reseeded = random_graph(3, 9, False)
    assert torch.equal(first.edge_index, wide.edge_index)
    assert first.edge_index.shape != reseeded.edge_index.shape or not torch.equal(
        first.edge_index, reseeded.edge_index
    )
    assert first.num_graphs == 1
    assert wide.num_graphs == 5
    assert first.graph_of_node is None
    assert wide.graph_of_node.tolist() == [node // 100 for node in range(500)]


def test_the_embedding_is_that_of_the_masked_network():
    model = spec("nodes", "gcn").build(2)
    scattered(model)
    embed(model, 7, 5, False)
    value = {
        name: parameter.detach().numpy().astype(np.float64)
        for name, parameter in model.named_parameters()
    }
    graph = random_graph(7, 5, False)
    adjacency = np.eye(500)
    adjacency[tuple(graph.edge_index.numpy())] = 1
    degree = adjacency.sum(axis=1)
    adjacency /= np.sqrt(degree[:, None] * degree)
    weight = {
        n: (
            value[f"{n}.weight"]
            * np.where(np.abs(value[f"{n}.mask"]) < np.float32(0.1), 0, value[f"{n}.mask"])
        )
        for n in ("first", "second")
    }
    smoothed = adjacency @ graph.features.matrix.numpy()
    hidden = np.maximum(smoothed @ weight["first"].T + value["first.bias"], 0)
    expected = (adjacency @ hidden @ weight["second"].T + value["second.bias"]).mean(axis=0)
    np.testing.assert_allclose(value[EMBEDDING], expected, rtol=1e-4, atol=1e-5)
    assert np.abs(expected).max() > 0.01


@pytest.mark.parametrize("kind", ["gin", "gcn"])
def test_the_embedding_of_a_network_for_graphs_is_the_mean_of_what_the_classifier_reads(kind):
    model = spec("graphs", kind).build(2)
    scattered(model)
    read = []
    model.head.register_forward_pre_hook(
        lambda module, arguments: read.append(arguments[0].detach())
    )
    model.eval()(random_graph(7, 5, True))
    embed(model.train(), 7, 5, True)
    torch.testing.assert_close(model.embedding.detach(), read[0].mean(dim=0))
    assert read[0].shape == (5, 5)


vectors = st.lists(
    st.lists(st.floats(-100, 100, width=32), min_size=3, max_size=3), min_size=1, max_size=5
)


def softmax_of_cosines(embeddings, sources, scale):
    """In plain Python."""
    rows = []
    for embedding in embeddings:
        scores = []
        for source in sources:
            scalar = math.fsum(a * b for a, b in zip(embedding, source, strict=True))
            norms = math.hypot(*embedding) * math.hypot(*source)
            scores.append(math.exp(scale * scalar / norms) if norms else 1.0)
        rows.append([score / math.fsum(scores) for score in scores])
    return rows


@given(vectors, vectors, st.floats(0, 50))
def test_mixing_weights_are_the_softmax_of_cosines(embeddings, sources, scale):
    weights = mixing_weights(np.array(embeddings), np.array(sources), scale)
    np.testing.assert_allclose(
        weights, softmax_of_cosines(embeddings, sources, scale), rtol=1e-11, atol=1e-300
    )
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-14)


def replies_of(rng, partitions, examples, shift=None):
    """Replies with a matrix, a scalar and an embedding."""
    return {
        p: Statistics(
            {
                "w": rng.normal(size=(2, 3)).astype(np.float32),
                "k": np.array(rng.normal(), np.float32),
                EMBEDDING: rng.normal(size=4).astype(np.float32) if shift is None else shift[p],
            },
            number,
        )
        for p, number in zip(partitions, examples, strict=True)
    }


def fresh(scale=3.0):
    start = {
        "w": np.zeros((2, 3), np.float32),
        "k": np.array(0, np.float32),
        EMBEDDING: np.zeros(4, np.float32),
    }
    return FedPubServer(start, Keys(scale=scale))


def close(start, expected):
    assert start.keys() == expected.keys()
    for name, array in start.items():
        assert array.dtype == np.float32
        assert array.shape == np.shape(expected[name])
        np.testing.assert_allclose(array, expected[name], rtol=2 * EPS32, atol=2 * EPS32)


def mixtures(replies, scale):
    """Partition -> what it should start from, in plain float64."""
    models = [reply.arrays for reply in replies.values() if reply.weight]
    rows = softmax_of_cosines(
        *(
            [a[EMBEDDING].astype(float).tolist() for a in group]
            for group in ([reply.arrays for reply in replies.values()], models)
        ),
        scale,
    )
    return {
        p: {
            name: sum(
                share * arrays[name].astype(np.float64)
                for share, arrays in zip(row, models, strict=True)
            )
            for name in models[0]
        }
        for p, row in zip(replies, rows, strict=True)
    }


@given(
    st.integers(0, 2**32),
    st.lists(st.integers(0, 3), min_size=1, max_size=5).filter(any),
    st.floats(0, 20),
)
def test_starts_are_mixtures_of_those_who_learnt(seed, examples, scale):
    replies = replies_of(np.random.default_rng(seed), range(2, 2 + len(examples)), examples)
    aggregation = fresh(scale)
    aggregation.aggregate(replies)
    for p, expected in mixtures(replies, scale).items():
        close(aggregation.sent_to(p), expected)
    close(aggregation.sent_to(99), split_average(fresh().sent_to(0), list(replies.values())))


def test_the_starts_of_a_run_are_those_of_its_replies(tmp_path):
    recorder = Recorder()
    result = run(tmp_path, method="fed-pub", num_rounds=2, fed_pub__scale=5.0, intercept=recorder)
    pairs = [(request, reply) for request, reply in recorder.pairs if "arrays" in request]
    first = {
        partition_of(reply): Statistics(
            decode_arrays(reply["arrays"]), reply["header"]["num_examples"]
        )
        for request, reply in pairs
        if request["header"]["round"] == 1
    }
    expected = mixtures(dict(sorted(first.items())), 5.0)
    for request, reply in pairs:
        assert array_names(request) == array_names(reply) == SHARED
        if request["header"]["round"] == 2:
            close(decode_arrays(request["arrays"]), expected[partition_of(reply)])
    starts = {f"client/{p}/{name}" for p in range(3) for name in SHARED}
    assert result.model.keys() == SHARED | starts
    for p in range(3):
        personal = parameters_in(result.personal(p))
        assert personal.keys() == MASKS
        assert all(np.abs(array - 1).max() > 0 for array in personal.values())


@pytest.mark.parametrize("sets", ["MUTAG", "MUTAG,BZR"])
def test_networks_for_graphs_have_masks_too(sets, tmp_path):
    """Clients of several data sets have input layers, classifiers and masks of their own."""
    for name in sets.split(","):
        write_tu(tmp_path / "data", name, attributes=name == "MUTAG")
    recorder = Recorder()
    result = run(
        tmp_path,
        clients=4,
        method="fed-pub",
        dataset=sets,
        data_dir=str(tmp_path / "data"),
        intercept=recorder,
    )
    assert result.summary["status"] == "completed"
    sent = set().union(*map(array_names, recorder.replies("train")))
    personal = parameters_in(result.personal(0)).keys()
    ends = {
        name
        for name in sent | personal
        if name.startswith(("input.", "head.")) and not name.endswith(".mask")
    }
    masks = {name for name in personal if name.endswith(".mask")}
    assert {"input.mask", "head.out.mask"} < masks
    expected = {n for n in sent | personal if n.endswith(".weight")}
    assert {name.removesuffix("mask") + "weight" for name in masks} == expected
    has_shared_ends = sets == "MUTAG"
    assert ends & sent == (ends if has_shared_ends else set())
    assert ends & personal == (set() if has_shared_ends else ends)
    assert EMBEDDING in sent
    embeddings = [decode_arrays(reply["arrays"])[EMBEDDING] for reply in recorder.replies("train")]
    assert len({array.tobytes() for array in embeddings}) == 8


def test_who_is_absent_keeps_its_start_and_a_newcomer_gets_the_average():
    rng = np.random.default_rng(3)
    aggregation = fresh()
    aggregation.aggregate(replies_of(rng, [0, 1, 2], [1, 2, 3]))
    start = aggregation.sent_to(1)
    later = replies_of(rng, [0, 2], [4, 1])
    aggregation.aggregate(later)
    assert aggregation.sent_to(1) is start
    assert aggregation.sent_to(7) is aggregation.sent_to(8)
    close(aggregation.sent_to(7), split_average(later[0].arrays, list(later.values())))


def test_mixing_weights_overflow_nowhere():
    embeddings = np.array([[1e30, 0.0], [0.0, 1e-30]])
    weights = mixing_weights(embeddings, embeddings, 1e6)
    np.testing.assert_array_equal(weights, np.eye(2))
