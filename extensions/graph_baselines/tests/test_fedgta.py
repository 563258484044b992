"""FedGTA's soft labels, moments and averages against NumPy, in their limits, and as a whole."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from app_runs import Recorder, array_names, partition_of, real_nodes, run
from graph_fixtures import user_fields
from safetensors.numpy import load, save
from tiny_learning import local_of

from curvfed.extensions.graph_baselines.methods import fedgta
from curvfed.extensions.graph_baselines.methods.fedgta import (
    CONFIDENCE,
    MOMENTS,
    FedGtaClient,
    FedGtaServer,
    Keys,
)
from curvfed.strategies.base.aggregation import AggregationError, split_average
from curvfed.strategies.base.statistics import Statistics, named_state
from curvfed.strategies.base.training import make_optimizer
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.exchange import FederationError
from curvfed.tasks.graphs.client_task import NodeTask
from curvfed.tasks.graphs.data.client_graph import client_graph
from curvfed.tasks.graphs.model_spec import ModelSpec

NODES = 30
FEATURES = 7
CLASSES = 4
ORDER = 3
DTYPES = [(torch.float32, 2e-6), (torch.float64, 1e-13)]
EPS32 = float(np.finfo(np.float32).eps)


def random_graph(seed=0, edges=40, dtype=torch.float64):
    """A client's graph of 30 nodes, the last of them alone, a third of them to train on."""
    rng = np.random.default_rng(seed)
    pairs = {tuple(sorted(rng.choice(NODES - 1, 2, replace=False).tolist())) for _ in range(edges)}
    columns = sorted([*pairs, *((j, i) for i, j in pairs)])
    both = torch.tensor(columns, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    labels = torch.from_numpy(rng.integers(CLASSES - 1, size=NODES))
    masks = torch.arange(NODES) % 3 == torch.arange(3)[:, None]
    features = torch.from_numpy(rng.normal(size=(NODES, FEATURES))).to(dtype)
    return client_graph(features, both, labels, masks, ("a", "b", "c"), "accuracy", "")


def on_graph(graph, dtype=torch.float64, **keys):
    """A learner in a federation that knows one class more than it, in another order."""
    settings = {f"fedgta.{name}": value for name, value in keys.items()}
    config = resolve_defaults(
        parse({"method": "fedgta", "dataset": "trees", "fedgta.moments": ORDER} | settings), "nodes"
    )
    model = ModelSpec("nodes", "gcn", FEATURES, CLASSES, 5, 0.5, True, False).build(3).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.linspace(-0.3, 0.4, parameter.numel()).reshape(parameter.shape))
    task = NodeTask(graph, ("d", "c", "a", "b"), torch.device("cpu"))
    parameters = dict(model.named_parameters())
    tensors = named_state(model)
    optimizer = make_optimizer(parameters, config)
    return FedGtaClient(
        local_of(config, model, task, tensors, tuple(tensors), parameters, optimizer)
    )


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def expected(graph, arrays, steps, alpha, temperature):
    """Moments and confidence, by dense NumPy in float64."""
    edges = np.zeros((NODES, NODES))
    edges[tuple(graph.edge_index.numpy())] = 1
    looped = edges + np.eye(NODES)
    adjacency = looped / np.sqrt(np.outer(looped.sum(axis=1), looped.sum(axis=1)))
    hidden = graph.features.numpy().astype(np.float64)
    for layer in ("first", "second"):
        linear = adjacency @ hidden @ arrays[f"{layer}.weight"].T
        hidden = np.maximum(linear + arrays[f"{layer}.bias"], 0)
    labels = softmax(hidden @ arrays["head.weight"].T + arrays["head.bias"])
    train = graph.train.numpy()
    truth = np.eye(CLASSES)[np.array([2, 3, 1])[graph.labels.numpy()]][train]
    labels[train] = truth
    now = labels
    for _ in range(steps):
        now = alpha * labels + (1 - alpha) * adjacency @ now
    soft = softmax(now)
    softer = softmax(now / temperature)
    soft[train] = truth
    softer[train] = truth
    moments = np.array(
        [[sum(soft[:, c] ** k) / NODES for c in range(CLASSES)] for k in range(1, ORDER + 1)]
    )
    confidence = 0.0
    for v in range(NODES):
        for c in range(CLASSES):
            p = softer[v, c]
            confidence += edges[v].sum() * (np.exp(-1) + (p * np.log(p) if p > 0 else 0.0))
    return moments, confidence


@pytest.mark.parametrize(
    ("steps", "alpha", "temperature"), [(5, 0.5, 20.0), (2, 0.9, 1.0), (0, 0.5, 3.0)]
)
@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_what_is_sent_is_that_of_the_equations(
    dtype, tolerance, steps, alpha, temperature, monkeypatch
):
    monkeypatch.setattr(fedgta, "TEMPERATURE", temperature)
    graph = random_graph(dtype=dtype)
    sent = on_graph(graph, dtype, steps=steps, alpha=alpha).share()
    moments, confidence = expected(graph, sent, steps, alpha, temperature)
    assert sent[MOMENTS].dtype == sent[CONFIDENCE].dtype == sent["head.bias"].dtype
    np.testing.assert_allclose(sent[MOMENTS], moments, rtol=0, atol=tolerance)
    np.testing.assert_allclose(sent[CONFIDENCE], confidence, rtol=20 * tolerance, atol=0)


def test_a_client_without_edges_has_no_confidence_and_only_its_own_labels():
    graph = random_graph(edges=0)
    sent = on_graph(graph).share()
    assert sent[CONFIDENCE] == 0
    np.testing.assert_allclose(
        sent[MOMENTS], expected(graph, sent, 5, 0.5, 20.0)[0], rtol=0, atol=1e-13
    )


def test_moments_are_of_the_model_as_it_is_after_training():
    client = on_graph(random_graph())
    before = client.share()
    client.train()
    after = client.share()
    np.testing.assert_allclose(
        after[MOMENTS], expected(random_graph(), after, 5, 0.5, 20.0)[0], rtol=0, atol=1e-13
    )
    assert not np.allclose(after[MOMENTS], before[MOMENTS])


def test_what_arrives_is_parameters_alone():
    client = on_graph(random_graph())
    sent = {name: array.copy() for name, array in client.share().items()}
    with pytest.raises(MessageError, match="unexpected"):
        client.receive(sent)
    arrays = {name: array + 1 for name, array in sent.items() if name not in (MOMENTS, CONFIDENCE)}
    client.receive(arrays)
    np.testing.assert_array_equal(client.share()["head.bias"], sent["head.bias"] + 1)


def model(rng, dtype=np.float64):
    return {
        "w": rng.normal(size=(2, 3)).astype(dtype),
        "head.bias": rng.normal(size=CLASSES).astype(dtype),
    }


def reply(rng, examples=3, dtype=np.float64, moments=None, confidence=None):
    figures = {
        MOMENTS: (
            rng.random((ORDER, CLASSES))
            if moments is None
            else np.broadcast_to(moments, (ORDER, CLASSES))
        ),
        CONFIDENCE: np.array(rng.uniform(1, 9) if confidence is None else confidence),
    }
    return Statistics(
        model(rng, dtype) | {name: array.astype(dtype) for name, array in figures.items()}, examples
    )


def parameters(update):
    return {
        name: array for name, array in update.arrays.items() if name not in (MOMENTS, CONFIDENCE)
    }


def brute_force(replies, threshold, name):
    """Every client's start, by a loop over pairs."""
    starts = {}
    for i, centre in replies.items():
        total = 0.0
        weight = 0.0
        for j, neighbour in replies.items():
            a, b = (
                update.arrays[MOMENTS].ravel().astype(np.float64) for update in (centre, neighbour)
            )
            if i == j or a @ b / np.sqrt((a @ a) * (b @ b)) >= threshold:
                share = float(neighbour.arrays[CONFIDENCE])
                total = total + share * neighbour.arrays[name].astype(np.float64)
                weight = weight + share
        starts[i] = total / weight
    return starts


@pytest.mark.parametrize("threshold", [-1.0, 0.7, 0.75, 0.8, 1.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, EPS32), (np.float64, 1e-14)])
def test_starts_are_those_of_a_loop_over_pairs(threshold, dtype, tolerance):
    rng = np.random.default_rng(5)
    start = model(rng, dtype)
    replies = {partition: reply(rng, dtype=dtype) for partition in (0, 2, 3, 7, 8)}
    server = FedGtaServer(start, Keys(threshold=threshold, moments=ORDER))
    server.aggregate(replies)
    for name in start:
        for partition, expected_start in brute_force(replies, threshold, name).items():
            np.testing.assert_allclose(
                server.sent_to(partition)[name], expected_start, rtol=0, atol=4 * tolerance
            )
            assert server.sent_to(partition)[name].dtype == dtype
    average = split_average(
        start, [replace(update, arrays=parameters(update)) for update in replies.values()]
    )
    np.testing.assert_array_equal(server.sent_to(99)["w"], average["w"])
    sources = server.figures["models_per_start"]
    assert sources == {-1.0: 5, 1.0: 1}.get(threshold, sources)
    assert threshold in (-1.0, 1.0) or 1 < sources < 5


def test_clients_that_learnt_nothing_are_in_no_start_but_are_given_one():
    rng = np.random.default_rng(0)
    axes = np.eye(CLASSES)
    replies = {
        0: reply(rng, 3, moments=axes[0], confidence=1.0),
        1: reply(rng, 1, moments=axes[1], confidence=1.0),
        2: reply(rng, 0, moments=axes[0], confidence=5.0),
        3: reply(rng, 0, moments=axes[2], confidence=5.0),
    }
    server = FedGtaServer(model(rng), Keys(threshold=0.5, moments=ORDER))
    server.aggregate(replies)
    for partition, source in ((0, 0), (1, 1), (2, 0)):
        np.testing.assert_array_equal(server.sent_to(partition)["w"], replies[source].arrays["w"])
    plain = 0.75 * replies[0].arrays["w"] + 0.25 * replies[1].arrays["w"]
    np.testing.assert_allclose(server.sent_to(3)["w"], plain, rtol=0, atol=1e-15)
    before = server.state()
    server.aggregate({2: reply(rng, 0), 3: reply(rng, 0)})
    assert all(np.array_equal(array, before[name]) for name, array in server.state().items())


def test_who_does_not_reply_keeps_its_start_and_all_of_it_is_in_the_state():
    rng = np.random.default_rng(0)
    server = FedGtaServer(model(rng), Keys(threshold=0.8, moments=ORDER))
    server.aggregate({partition: reply(rng) for partition in range(3)})
    start = server.sent_to(1)["w"].copy()
    server.aggregate({0: reply(rng), 2: reply(rng)})
    np.testing.assert_array_equal(server.sent_to(1)["w"], start)
    resumed = FedGtaServer(model(rng), Keys(threshold=0.8, moments=ORDER))
    resumed.load(load(save(server.state())))
    assert resumed.figures == server.figures
    for partition in range(4):
        for name, array in server.sent_to(partition).items():
            np.testing.assert_array_equal(resumed.sent_to(partition)[name], array)
    round3 = {0: reply(rng), 1: reply(rng)}
    server.aggregate(round3)
    resumed.aggregate(round3)
    assert all(
        np.array_equal(array, resumed.state()[name]) for name, array in server.state().items()
    )


@pytest.mark.parametrize("lacking", [MOMENTS, CONFIDENCE, "w"])
def test_replies_without_their_figures_or_parameters_are_refused(lacking):
    rng = np.random.default_rng(0)
    update = reply(rng)
    del update.arrays[lacking]
    with pytest.raises(AggregationError, match=lacking):
        FedGtaServer(model(rng), Keys(threshold=0.5, moments=ORDER)).aggregate(
            {0: reply(rng), 1: update}
        )


def test_real_nodes_tell_the_shares_of_their_classes_only_where_they_share_statistics(tmp_path):
    graphs = [user_fields(60 + 10 * index, seed=index) for index in range(3)]
    nodes = real_nodes(tmp_path / "nodes", graphs)
    with pytest.raises(FederationError, match="share-statistics"):
        run(tmp_path, "private", nodes=nodes, method="fedgta")
    assert (
        run(tmp_path, "told", nodes=nodes, method="fedgta", share_statistics=True).summary["status"]
        == "completed"
    )
    recorder = Recorder()

    def forge(request, handle):
        answer = recorder(request, handle)
        if (
            answer.content.config_records["header"]["phase"] == "describe"
            and partition_of(answer.content) == 1
        ):
            answer.content["statistics"] = recorder.replies("describe")[0]["statistics"]
        return answer

    nodes[1]["share-statistics"] = False
    result = run(
        tmp_path, "asked", nodes=nodes, method="fedgta", share_statistics=True, intercept=forge
    )
    assert (
        "it needs share-statistics"
        in next(row for row in result.clients if row["partition"] == "1")["dropped"]
    )
    assert not [
        reply
        for reply in recorder.replies("train")
        if partition_of(reply) == 1 and array_names(reply)
    ]
