"""AdaFGL's second stage against small NumPy programs, in its limits, and as a whole."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from app_runs import Recorder, dotted_keys, newest, parameters_in, partition_of, run
from errors import refuses
from tiny_learning import assert_near, cross_entropy, gradient, local_of, state

from curvfed.extensions.graph_baselines.adaptive import (
    LABEL_STEPS,
    UNKNOWN,
    AdaptiveNet,
    AdaptiveSpec,
    homophily_confidence,
    pass_messages,
    predicted_alike,
    signed_weights,
    smoothed_features,
)
from curvfed.extensions.graph_baselines.methods import adafgl as stage_two
from curvfed.extensions.graph_baselines.methods.adafgl import AdaFglClient
from curvfed.strategies.base.statistics import named_state
from curvfed.strategies.base.training import make_optimizer
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.graphs.client_task import NodeTask
from curvfed.tasks.graphs.data.client_graph import client_graph
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.model_spec import ModelSpec
from curvfed.tasks.graphs.sparse import Constant

NODES = 9
FEATURES = 4
CLASSES = 3
EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 6), (6, 4), (6, 7)]  # node 8 has none
SPEC = AdaptiveSpec(FEATURES, CLASSES, width=5, dropout=0.5, steps=2, alpha=0.3, beta=0.4)


def graph(labels=None, train=(0, 1, 3, 4, 6, 8), dtype=torch.float64, seed=0):
    """Nine nodes; those that are not trained on are tested on."""
    rng = np.random.default_rng(seed)
    edges = torch.tensor(sorted([*EDGES, *((j, i) for i, j in EDGES)])).T
    features = torch.from_numpy(rng.normal(size=(NODES, FEATURES))).to(dtype)
    labels = torch.arange(NODES) % CLASSES if labels is None else torch.tensor(labels)
    masks = torch.zeros(3, NODES, dtype=torch.bool)
    masks[0, list(train)] = True
    masks[2] = ~masks[0]
    return client_graph(features, edges, labels, masks, tuple("abc"), "accuracy", "")


def inputs_of(dtype=torch.float64, seed=0):
    return GraphInputs.of(graph(dtype=dtype, seed=seed), torch.device("cpu"))


def soft(logits):
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def edges_as_matrix():
    matrix = np.zeros((NODES, NODES))
    for i, j in EDGES:
        matrix[i, j] = matrix[j, i] = 1
    return matrix


def normalised(weights):
    with_loops = weights + np.eye(len(weights))
    scale = 1 / np.sqrt(with_loops.sum(axis=1))
    return scale[:, None] * with_loops * scale


def alike(predictions):
    rows = soft(predictions)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows @ rows.T > 0.999).astype(float) - np.eye(NODES)


def smoothed(pairs, features, alpha, steps):
    matrix = alpha * edges_as_matrix() + (1 - alpha) * pairs
    adjacency = normalised(matrix)
    powers = [np.linalg.matrix_power(adjacency, step) for step in range(steps + 1)]
    return np.hstack([power @ features for power in powers])


def weights_of(matrix, logits, beta):
    rows = soft(logits)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = rows @ rows.T
    np.fill_diagonal(cosines, 0)
    mixed = beta * matrix + (1 - beta) * cosines
    mean = mixed.mean()
    weights = np.where(mixed > mean, (mixed - mean) / (mixed.max() - mean), (mixed - mean) / mean)
    np.fill_diagonal(weights, 1)
    return weights


def prelu(x, slope):
    return np.where(x > 0, x, slope * x)


def passed(weights, logits, slope):
    heard, opposed = (soft(prelu(signed, slope) @ logits) for signed in (weights, -weights))
    return (logits + heard - opposed) / 2


def mlp(arrays, name, x):
    layers = sorted({key.split(".")[2] for key in arrays if key.startswith(f"{name}.layers.")})
    for layer in layers:
        if layer != "0":
            x = prelu(x, arrays[f"{name}.slope.weight"])
        weight = arrays[f"{name}.layers.{layer}.weight"]
        x = x @ weight.T + arrays[f"{name}.layers.{layer}.bias"]
    return x


def parts_of(arrays, features, predictions, spec=SPEC):
    """Logits of the four parts of the network of these parameters, the homophilous one first."""
    pairs = alike(predictions)
    wide = smoothed(pairs, features, spec.alpha, spec.steps)
    logits = mlp(arrays, "passing", wide)
    last = passed(weights_of(pairs, logits, spec.beta), logits, arrays["passing.slope.weight"])
    return (
        mlp(arrays, "smooth", wide),
        mlp(arrays, "deep", wide),
        mlp(arrays, "plain", features),
        last,
    )


def mixture(arrays, features, predictions):
    """log Ŷ of the network of these parameters."""
    smooth, deep, plain, last = map(soft, parts_of(arrays, features, predictions))
    share = arrays["confidence"]
    of_homophily = (smooth + soft(predictions)) / 2
    of_heterophily = (deep + plain + last) / 3
    return np.log(share * of_homophily + (1 - share) * of_heterophily)


def loss_of(arrays, features, predictions, rows, labels):
    parts = parts_of(arrays, features, predictions)
    of_labels = sum(cross_entropy(logits[rows], labels.numpy()) for logits in parts)
    of_predictions = ((parts[0] - predictions) ** 2).mean()
    return of_labels + of_predictions


def shared_model(dtype=torch.float64, seed=3):
    return ModelSpec("nodes", "gcn", FEATURES, CLASSES, 6, 0.5, True, False).build(seed).to(dtype)


def network(confidence=0.6, dtype=torch.float64, spec=SPEC):
    torch.manual_seed(5)
    net = AdaptiveNet(shared_model(), spec, confidence).to(dtype)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if parameter.requires_grad:
                parameter.add_(
                    0.2
                    * torch.randn(parameter.shape, dtype=dtype)
                    * ("bias" in name or "slope" in name)
                )
    return net


def learner(data, dtype=torch.float64, **settings):
    """The learner of AdaFGL on a small graph."""
    keys = dotted_keys(settings)
    config = resolve_defaults(
        parse({"method": "adafgl", "dataset": "trees", "adafgl.width": 5} | keys), "nodes"
    )
    model = shared_model(dtype)
    parameters = dict(model.named_parameters())
    tensors = named_state(model)
    task = NodeTask(data, data.class_names, torch.device("cpu"))
    return AdaFglClient(
        local_of(
            config,
            model,
            task,
            tensors,
            tuple(tensors),
            parameters,
            make_optimizer(parameters, config),
        )
    )


def predictions_of(seed=1, dtype=np.float64):
    return soft(np.random.default_rng(seed).normal(0, 2, (NODES, CLASSES))).astype(dtype)


def tolerance(dtype):
    if dtype == torch.float64:
        return 1e-12
    return 100 * float(np.finfo(np.float32).eps)


@pytest.mark.parametrize("alpha", [0.0, 0.05, 0.7, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_who_is_predicted_alike_and_what_it_makes_of_features(alpha, dtype):
    predictions = predictions_of()
    inputs = inputs_of(dtype)
    pairs = alike(predictions)
    assert 0 < pairs.sum() < NODES * (NODES - 1)
    likeness = predicted_alike(torch.from_numpy(predictions).to(dtype))
    assert np.array_equal(likeness.numpy(force=True), pairs)
    assert likeness.dtype == dtype
    wide = smoothed_features(likeness, inputs, alpha, 3)
    expected = smoothed(pairs, inputs.features.matrix.numpy(force=True), alpha, 3)
    np.testing.assert_allclose(wide.numpy(force=True), expected, rtol=0, atol=tolerance(dtype))


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_signed_weights_and_what_is_passed_on(beta, dtype):
    matrix = alike(predictions_of())
    logits = np.random.default_rng(2).normal(0, 2, (NODES, CLASSES))
    weights = signed_weights(
        torch.from_numpy(matrix).to(dtype), torch.from_numpy(logits).to(dtype), beta
    )
    expected = weights_of(matrix, logits, beta)
    np.testing.assert_allclose(weights.numpy(force=True), expected, rtol=0, atol=tolerance(dtype))
    off = expected[~np.eye(NODES, dtype=bool)]
    assert expected.max() == 1
    assert -1 <= off.min() < 0 < off.max()
    sign = torch.nn.PReLU(init=0.25).to(dtype)
    np.testing.assert_allclose(
        pass_messages(weights, torch.from_numpy(logits).to(dtype), sign).numpy(force=True),
        passed(expected, logits, 0.25),
        rtol=0,
        atol=10 * tolerance(dtype),
    )


def labelled_and_masked(rows, seed):
    torch.manual_seed(seed)
    order = torch.randperm(len(rows)).numpy()
    shuffled = np.array(rows)[order]
    half = len(rows) // 2
    return shuffled[:half], shuffled[half:]


@pytest.mark.parametrize("seed", range(2))
def test_the_confidence_score_is_that_of_label_propagation(seed):
    """With rows of 1/C where no label is known, as in the authors' code."""
    labels = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])
    rows = [0, 1, 2, 3, 4, 5, 6, 7]
    labelled, masked = labelled_and_masked(rows, seed)
    start = np.full((NODES, CLASSES), 1 / CLASSES)
    start[labelled] = np.eye(CLASSES)[labels[labelled]]
    spread = start
    for _ in range(LABEL_STEPS):
        spread = 0.5 * start + 0.5 * normalised(edges_as_matrix()) @ spread
    expected = np.mean(spread[masked].argmax(axis=1) == labels[masked])
    torch.manual_seed(seed)
    assert (
        homophily_confidence(
            inputs_of(), torch.tensor(rows), torch.from_numpy(labels[rows]), CLASSES
        )
        == expected
    )


def test_a_node_that_no_label_reaches_is_wrong_and_too_few_labels_say_nothing():
    apart = GraphInputs(Constant.of(torch.zeros(4, 1)), torch.zeros(2, 0, dtype=torch.int64))
    assert homophily_confidence(apart, torch.arange(4), torch.zeros(4, dtype=torch.int64), 2) == 0
    for rows in ([], [2]):
        assert (
            homophily_confidence(
                apart, torch.tensor(rows, dtype=torch.int64), torch.zeros(len(rows)), 2
            )
            == UNKNOWN
        )


@pytest.mark.parametrize("confidence", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_network_and_its_loss_are_those_of_the_authors(confidence, dtype):
    net = network(confidence, dtype)
    inputs = inputs_of(dtype)
    net.eval()
    predictions = soft(net.extractor(inputs).numpy(force=True).astype(np.float64))
    arrays = {name: array.astype(np.float64) for name, array in state(net).items()}
    features = inputs.features.matrix.numpy(force=True).astype(np.float64)
    expected = mixture(arrays, features, predictions)
    np.testing.assert_allclose(
        net(inputs).numpy(force=True), expected, rtol=0, atol=10 * tolerance(dtype)
    )
    np.testing.assert_allclose(np.exp(expected).sum(axis=1), 1)
    rows = torch.tensor([0, 4, 7])
    labels = torch.tensor([2, 1, 0])
    loss = loss_of(arrays, features, predictions, rows, labels)
    assert net.loss(inputs, labels, rows).item() == pytest.approx(loss, abs=10 * tolerance(dtype))


def test_a_step_goes_along_the_gradient_and_the_extractor_rests():
    """Without dropout, by differences in NumPy; P̂ and the confidence score are constants."""
    net = network(spec=replace(SPEC, dropout=0.0))
    inputs = inputs_of()
    rows = torch.tensor([0, 4, 7])
    labels = torch.tensor([2, 1, 0])
    predictions = soft(net.extractor(inputs).numpy(force=True))
    features = inputs.features.matrix.numpy(force=True)
    arrays = state(net)
    trained = {
        name: arrays[name] for name, parameter in net.named_parameters() if parameter.requires_grad
    }

    def loss(moved):
        return loss_of(arrays | moved, features, predictions, rows, labels)

    net.train()
    net.loss(inputs, labels, rows).backward()
    slopes = {
        name: parameter.grad.numpy(force=True)
        for name, parameter in net.named_parameters()
        if parameter.grad is not None
    }
    assert_near(slopes, gradient(loss, trained), 1e-7)
    assert not any(name.startswith("extractor.") or name == "confidence" for name in slopes)


def test_its_parameters_are_its_checkpoint():
    """Also where it was asked first without gradients, and of another graph before."""
    net = network()
    inputs = inputs_of()
    second_graph = inputs_of(seed=4)
    fresh = AdaptiveNet(
        ModelSpec("nodes", "gcn", FEATURES, CLASSES, 6, 0.5, True, False).build(9).double(),
        SPEC,
        0.0,
    )
    fresh = fresh.double()
    with torch.no_grad():
        for name, tensor in named_state(fresh).items():
            tensor.copy_(named_state(net)[name])
    net.eval()
    fresh.eval()
    with torch.inference_mode():
        first = net(inputs).clone()
        assert not torch.allclose(net(second_graph), first)
    assert torch.equal(net(inputs), first)
    assert torch.equal(fresh(inputs), first)
    net.train()
    net.loss(inputs, torch.tensor([0]), torch.tensor([1])).backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fine_tuning_leaves_the_shared_model_alone_and_starts_anew(dtype):
    client = learner(graph(dtype=dtype), dtype, fine_tune_epochs=100, dropout=0.0)
    before = state(client.local.model)
    outcomes = []
    for _ in range(2):
        torch.manual_seed(1)
        tuned = client.fine_tune()
        outcomes.append(state(tuned.model))
    assert_near(outcomes[0], outcomes[1], 0)
    assert_near(state(client.local.model), before, 0)
    extractor = {
        name.removeprefix("extractor."): array
        for name, array in outcomes[0].items()
        if name.startswith("extractor.")
    }
    assert_near(extractor, before, 0)
    assert np.isfinite(tuned.loss)
    assert tuned.model.confidence.dtype == dtype
    inputs = client.local.task.inputs
    rows = client.local.task.parts["train"]
    labels = client.local.task.train_labels
    assert (tuned.model.eval()(inputs)[rows].argmax(dim=1) == labels).double().mean() > 0.9
    assert client.scored is client.local.model


def test_test_labels_say_nothing():
    data = graph()
    relabelled = replace(
        data, labels=torch.where(data.test, (data.labels + 1) % CLASSES, data.labels)
    )
    outcomes = []
    for variant in (data, relabelled):
        client = learner(variant, fine_tune_epochs=5)
        torch.manual_seed(1)
        outcomes.append(state(client.fine_tune().model))
    assert_near(outcomes[0], outcomes[1], 0)


def test_what_the_rounds_share_is_fedavgs_and_the_own_network_stays(tmp_path):
    recorder = Recorder()
    settings = {"num_rounds": 2, "seed": 1}
    adafgl = run(
        tmp_path, "adafgl", method="adafgl", fine_tune_epochs=5, intercept=recorder, **settings
    )
    fedavg = run(tmp_path, "fedavg", method="fedavg", **settings)
    assert adafgl.model.keys() == fedavg.model.keys()
    assert all(np.array_equal(adafgl.model[name], array) for name, array in fedavg.model.items())
    assert [row["phase"] for row in adafgl.rounds] == ["train", "train", "fine-tune"]
    assert sorted(partition_of(reply) for reply in recorder.replies("fine-tune")) == [0, 1, 2]
    assert not any(reply.get("arrays") for reply in recorder.replies("fine-tune"))
    tuned = newest(adafgl.path / "checkpoint" / "clients" / "00000" / "tuned")
    network = parameters_in(tuned)
    assert all(
        np.array_equal(network[f"extractor.{name}"], array) for name, array in adafgl.model.items()
    )
    assert 0 <= network["confidence"] <= 1
    assert network["smooth.layers.0.weight"].shape[1] == 4 * 300


def test_a_graph_that_is_too_large_is_refused_before_the_rounds(monkeypatch):
    monkeypatch.setattr(stage_two, "MAX_NODES", NODES - 1)
    with refuses("too-many-nodes", NODES - 1, NODES, error=ConfigError):
        learner(graph())
    learner(graph(), fine_tune_epochs=0)
