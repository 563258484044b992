"""FedSage+ against small NumPy programs: losses, gradients across clients, mending, a run."""

import numpy as np
import pytest
import torch
from app_runs import (
    Recorder,
    array_names,
    dotted_keys,
    parameters_in,
    partition_of,
    real_nodes,
    run,
)
from errors import refuses
from graph_fixtures import user_fields
from tiny_learning import assert_near, gradient, local_of, state

from curvfed.extensions.graph_baselines.methods import fedsage
from curvfed.extensions.graph_baselines.methods.fedsage import (
    GRADIENT,
    KEPT,
    MISSING,
    PACKAGE,
    REPRESENTATIONS,
    FedSageClient,
    package,
)
from curvfed.extensions.graph_baselines.methods.fedsage import FedSageServer as Server
from curvfed.extensions.graph_baselines.neighbour_generator import (
    feature_loss,
    hide_nodes,
    impaired,
    mended,
)
from curvfed.strategies.base.aggregation import AggregationError, split_average
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Statistics, named_state
from curvfed.strategies.base.training import make_optimizer
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.codec import decode_arrays
from curvfed.strategies.wire.exchange import FederationError
from curvfed.tasks.graphs.client_task import NodeTask
from curvfed.tasks.graphs.data.client_graph import client_graph
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.model_spec import ModelSpec

NODES = 10
FEATURES = 3
CLASSES = 2
EDGES = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 5), (3, 6), (4, 7), (5, 8), (2, 3)]  # node 9 has none
SMALL = {"fedsage__width": 4, "fedsage__sample": 3, "fedsage__hidden": 0.3, "embedding_dim": 5}


@pytest.fixture(autouse=True)
def few_neighbours(monkeypatch):
    monkeypatch.setattr(fedsage, "NEIGHBOURS", 2)


def graph(train=(0, 1, 2), dtype=torch.float64, seed=0):
    rng = np.random.default_rng(seed)
    edges = torch.tensor(sorted([*EDGES, *((j, i) for i, j in EDGES)])).T
    features = torch.from_numpy(rng.normal(0, 0.5, (NODES, FEATURES))).to(dtype)
    masks = torch.zeros(3, NODES, dtype=torch.bool)
    masks[0, list(train)] = True
    masks[2] = ~masks[0]
    return client_graph(
        features, edges, torch.arange(NODES) % CLASSES, masks, ("a", "b"), "accuracy", ""
    )


def inputs_of(dtype=torch.float64):
    return GraphInputs.of(graph(dtype=dtype), torch.device("cpu"))


def learner(partition=0, dtype=torch.float64, train=(0, 1, 2), **settings):
    keys = dotted_keys(SMALL | settings)
    config = resolve_defaults(
        parse({"method": "fedsage+", "dataset": "trees", "dropout": 0.0} | keys), "nodes"
    )
    model = ModelSpec("nodes", "gcn", FEATURES, CLASSES, 5, 0.0, True, False).build(0).to(dtype)
    parameters = dict(model.named_parameters())
    tensors = named_state(model)
    data = graph(train, dtype, seed=partition)
    task = NodeTask(data, data.class_names, torch.device("cpu"))
    optimizer = make_optimizer(parameters, config)
    return FedSageClient(
        local_of(config, model, task, tensors, tuple(tensors), parameters, optimizer, partition)
    )


def server(client, rounds=2):
    """The server of a learner's run, with its start."""
    shared = {
        name: np.array(tensor.numpy(force=True)) for name, tensor in client.local.tensors.items()
    }
    config = client.local.config
    run = RunKeys(num_rounds=rounds + 1)
    keys = config.fedsage.model_copy(update={"generator_rounds": rounds})
    return Server(shared, keys, run)


def normalised(matrix):
    with_loops = matrix + np.eye(len(matrix))
    scale = 1 / np.sqrt(with_loops.sum(axis=1))
    return scale[:, None] * with_loops * scale


def as_matrix(edge_index, nodes):
    matrix = np.zeros((nodes, nodes))
    matrix[edge_index[0], edge_index[1]] = 1
    return matrix


def generated_features(arrays, noisy, neighbours=2):
    """fGen."""
    hidden = np.maximum(noisy @ arrays["hidden.weight"].T + arrays["hidden.bias"], 0)
    features = np.tanh(hidden @ arrays["out.weight"].T + arrays["out.bias"])
    return features.reshape(len(noisy), neighbours, -1)


def distances(generated, missing, candidates, linked=None):
    """L^f by its definition."""
    total = 0.0
    for v in range(len(generated)):
        for p in range(min(int(missing[v]), generated.shape[1])):
            squares = [
                ((generated[v, p] - x) ** 2).sum()
                for u, x in enumerate(candidates)
                if linked is None or linked[v, u]
            ]
            total += min(squares, default=0.0)
    return total


def test_what_an_impaired_graph_lacks():
    lacking = impaired(inputs_of(), torch.tensor([3, 5, 7]))
    stays = [0, 1, 2, 4, 6, 8, 9]
    matrix = as_matrix(inputs_of().edge_index.numpy(), NODES)
    assert np.array_equal(
        as_matrix(lacking.inputs.edge_index.numpy(), len(stays)), matrix[np.ix_(stays, stays)]
    )
    assert np.array_equal(lacking.inputs.features.matrix, inputs_of().features.matrix[stays])
    assert np.array_equal(lacking.hidden, inputs_of().features.matrix[[3, 5, 7]])
    assert np.array_equal(lacking.linked, matrix[np.ix_(stays, [3, 5, 7])] == 1)
    assert lacking.missing.tolist() == [1, 0, 2, 1, 1, 1, 0]
    assert lacking.position[stays].tolist() == list(range(len(stays)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("limited", [False, True])
def test_the_feature_loss_is_the_distance_to_the_nearest(dtype, limited):
    rng = np.random.default_rng(3)
    generated = rng.normal(size=(6, 2, FEATURES))
    candidates = rng.normal(size=(5, FEATURES))
    missing = np.array([0, 1, 2, 5, 0, 1])
    linked = rng.random((6, 5)) < 0.5
    linked[5] = False  # nothing to compare with
    mask = torch.from_numpy(linked) if limited else None
    loss = feature_loss(
        torch.from_numpy(generated).to(dtype),
        torch.from_numpy(missing),
        torch.from_numpy(candidates).to(dtype),
        mask,
    )
    expected = distances(generated, missing, candidates, linked if limited else None)
    assert loss.item() == pytest.approx(expected, rel=1e-12 if dtype == torch.float64 else 1e-5)
    assert loss.dtype == dtype


def test_a_mended_graph_has_the_generated_nodes_after_its_own():
    inputs = inputs_of()
    generated = torch.randn(NODES, 2, FEATURES, dtype=torch.float64, requires_grad=True)
    counts = torch.tensor([-3.0, 0.4, 0.6, 1.4, 1.6, 9.0, 0.0, 0.0, 0.0, 2.0])
    graph = mended(inputs, counts, generated)
    places = [(2, 0), (3, 0), (4, 0), (4, 1), (5, 0), (5, 1), (9, 0), (9, 1)]
    expected = np.zeros((NODES + len(places),) * 2)
    expected[:NODES, :NODES] = as_matrix(inputs.edge_index.numpy(), NODES)
    for new, (owner, _) in enumerate(places, NODES):
        expected[owner, new] = expected[new, owner] = 1
    assert np.array_equal(as_matrix(graph.edge_index.numpy(), graph.num_nodes), expected)
    assert graph.edge_index.shape[1] == expected.sum()
    columns = [tuple(pair) for pair in graph.edge_index.T.tolist()]
    assert columns == sorted(columns)
    matrix = graph.features.matrix
    assert torch.equal(matrix[:NODES], inputs.features.matrix)
    assert torch.equal(matrix[NODES:], torch.stack([generated[place] for place in places]))
    np.testing.assert_allclose(graph.adjacency.matrix.to_dense(), normalised(expected), atol=1e-12)
    # What is made of the new rows leads back to where they came from.
    sums = graph.features @ torch.ones(FEATURES, 1, dtype=torch.float64)
    (graph.adjacency @ sums)[:NODES].sum().backward()
    assert {place for place in np.ndindex(NODES, 2) if generated.grad[place].any()} == set(places)


def noisy_rows(seed, shape):
    torch.manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64).numpy()


def encoded(arrays, inputs):
    adjacency = normalised(as_matrix(inputs.edge_index.numpy(), inputs.num_nodes))
    linear = adjacency @ inputs.features.matrix.numpy() @ arrays["first.weight"].T
    hidden = np.maximum(linear + arrays["first.bias"], 0)
    return np.maximum(adjacency @ hidden @ arrays["second.weight"].T + arrays["second.bias"], 0)


def fgen(arrays):
    return {
        name.removeprefix("features."): array
        for name, array in arrays.items()
        if name.startswith("features.")
    }


def classified(arrays, matrix, features):
    adjacency = normalised(matrix)
    hidden = np.maximum(adjacency @ features @ arrays["first.weight"].T + arrays["first.bias"], 0)
    hidden = np.maximum(adjacency @ hidden @ arrays["second.weight"].T + arrays["second.bias"], 0)
    return hidden @ arrays["head.weight"].T + arrays["head.bias"]


def generator_loss(client, arrays, classifier, noise):
    """L^d + L^f + L^c of the NumPy program; the classifier sees as many neighbours as dGen says."""
    lacking = client._impaired
    representations = encoded(arrays, lacking.inputs)
    counts = (representations @ arrays["count.weight"].T + arrays["count.bias"])[:, 0]
    generated = generated_features(fgen(arrays), representations + noise)
    off = np.abs(counts - lacking.missing.numpy())
    of_counts = np.where(off < 1, off**2 / 2, off - 0.5).mean()
    of_features = distances(
        generated, lacking.missing, lacking.hidden.numpy(), lacking.linked.numpy()
    ) / len(counts)
    owners = [(v, p) for v in range(len(counts)) for p in range(2) if p < np.round(counts[v])]
    matrix = np.zeros((len(counts) + len(owners),) * 2)
    matrix[: len(counts), : len(counts)] = as_matrix(lacking.inputs.edge_index.numpy(), len(counts))
    for new, (owner, _) in enumerate(owners, len(counts)):
        matrix[owner, new] = matrix[new, owner] = 1
    features = np.vstack(
        [lacking.inputs.features.matrix.numpy(), *[generated[place] for place in owners]]
    )
    logits = classified(classifier, matrix, features)[lacking.position[client._inputs_rows].numpy()]
    logits = logits - logits.max(axis=1, keepdims=True)
    labels = client.local.task.train_labels.numpy()
    log_sums = np.log(np.exp(logits).sum(axis=1))
    of_labels = (log_sums - logits[np.arange(len(labels)), labels]).mean()
    return of_counts + of_features + of_labels, len(owners)


def stepped(client, seed=11, gradient_on_own=None):
    """Train the generator once as in a round, and by the NumPy program."""
    generator = client._generator
    with torch.no_grad():  # so that some neighbours are asked for
        generator.count.bias.fill_(0.8)
    batch = next(iter(client.local.task.batches(client.local.model)))
    client._inputs_rows = batch.rows
    before = state(generator)
    classifier = state(client.local.model)
    noise = noisy_rows(seed, (client._impaired.inputs.num_nodes, 4))
    torch.manual_seed(seed)
    arrays = client.share() if client._gradient is not None else {}
    start = {name: array for name, array in arrays.items() if name in client.local.shared}
    start |= {f"{GRADIENT}{name}": array for name, array in gradient_on_own.items()}
    client.receive(start)
    torch.manual_seed(seed)
    client._train_generator(client._gradient)
    return before, classifier, noise


def own_gradient(client, size=0.7):
    rng = np.random.default_rng(5)
    return {
        name: rng.normal(0, size, tuple(parameter.shape))
        for name, parameter in client._fgen.items()
    }


@pytest.mark.parametrize("cross", [0.0, 0.5])
def test_a_step_of_the_generator_goes_along_all_its_losses(cross):
    """And along the other clients' gradient on fGen, of as many rows as a package holds: here all
    that lack a neighbour."""
    rate = 0.05
    client = learner(
        optimizer="sgd",
        momentum=0.0,
        weight_decay=0.0,
        learning_rate=rate,
        fedsage__epochs=1,
        fedsage__cross=cross,
        fedsage__sample=9,
    )
    client.receive(blank(client))
    received = own_gradient(client)
    before, classifier, noise = stepped(client, gradient_on_own=received)
    _, num_generated = generator_loss(client, before, classifier, noise)
    assert num_generated > 0
    slopes = gradient(lambda moved: generator_loss(client, moved, classifier, noise)[0], before)
    for name, array in received.items():
        slopes[f"features.{name}"] += cross * array / client._impaired.inputs.num_nodes
    expected = {name: array - rate * slopes[name] for name, array in before.items()}
    assert_near(state(client._generator), expected, 1e-8)
    assert_near(state(client.local.model), classifier, 0)  # what it was trained with is a copy


def test_the_others_gradient_is_taken_once_and_stands_for_all_rows():
    rate = 0.01
    ends = []
    for epochs, size in ((1, 0.0), (1, 1.0), (4, 0.0), (4, 1.0)):
        client = learner(
            optimizer="sgd",
            momentum=0.0,
            weight_decay=0.0,
            learning_rate=rate,
            fedsage__epochs=epochs,
            fedsage__sample=1,
        )
        client.receive(blank(client))
        stepped(
            client,
            gradient_on_own={
                name: np.full(tuple(p.shape), size) for name, p in client._fgen.items()
            },
        )
        ends.append(state(client._generator)["features.out.bias"])
    lacking = int((client._impaired.missing > 0).sum())
    moved = rate * lacking / client._impaired.inputs.num_nodes
    assert lacking > 1
    np.testing.assert_allclose(ends[0] - ends[1], moved, atol=1e-12)
    assert np.abs(ends[2] - ends[3]).max() < 2 * moved  # and not four times that


def blank(client):
    """What a client is sent in the first round."""
    return server(client).sent_to(client.local.partition)


def other_package(dtype=np.float64, seed=2):
    rng = np.random.default_rng(seed)
    template = learner_template(dtype)
    content = {
        name: rng.normal(0, 0.5, array.shape).astype(dtype) for name, array in template.items()
    }
    content[MISSING] = np.array([1, 2, 0], dtype)
    return content


def learner_template(dtype=np.float64):
    client = learner(dtype=torch.float64 if dtype == np.float64 else torch.float32)
    return package(
        {name: tensor.numpy(force=True) for name, tensor in client.local.tensors.items()},
        client.local.config.fedsage,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_for_another_client_is_that_of_the_distance_to_the_own_nodes(dtype):
    client = learner(dtype=dtype)
    content = other_package(np.float64 if dtype == torch.float64 else np.float32)
    package_of_7 = {f"{PACKAGE}7/{name}": array for name, array in content.items()}
    client.receive(blank(client) | package_of_7)
    torch.manual_seed(4)
    answers = {
        name.removeprefix(f"{GRADIENT}7/"): array for name, array in client._answers().items()
    }
    torch.manual_seed(4)
    noise = torch.randn(3, 4, dtype=dtype).numpy().astype(np.float64)
    features = client._features.numpy(force=True).astype(np.float64)
    representations = content[REPRESENTATIONS].astype(np.float64) + noise
    parameters = {name: array.astype(np.float64) for name, array in content.items() if "." in name}
    expected = gradient(
        lambda moved: distances(
            generated_features(moved, representations), content[MISSING], features
        ),
        parameters,
    )
    assert_near(answers, expected, 1e-7 if dtype == torch.float64 else 1e-4)
    assert any(np.abs(array).max() > 0.1 for array in expected.values())


def test_a_package_tells_of_nodes_with_hidden_neighbours():
    client = learner(fedsage__sample=20)
    client.receive(blank(client))
    torch.manual_seed(0)
    content = {name.removeprefix(PACKAGE): array for name, array in client._package().items()}
    assert_near({name: content[name] for name in client._fgen}, fgen(state(client._generator)), 0)
    missing = client._impaired.missing.numpy()
    lacking = missing > 0
    assert sorted(content[MISSING][: lacking.sum()]) == sorted(missing[lacking])
    assert not content[MISSING][lacking.sum() :].any()
    expected = encoded(state(client._generator), client._impaired.inputs)[lacking]
    rows = content[REPRESENTATIONS][: lacking.sum()]
    np.testing.assert_allclose(np.sort(rows, axis=0), np.sort(expected, axis=0), atol=1e-12)


def test_nodes_that_are_trained_on_are_not_hidden_and_the_others_are_at_random():
    hidden = [
        hide_nodes(inputs_of(), torch.arange(7), 0.3, [0, partition]).tolist()
        for partition in range(8)
    ]
    assert all(rows == [7, 8, 9] for rows in hidden)
    chosen = {
        tuple(hide_nodes(inputs_of(), torch.arange(3), 0.3, [0, partition]).tolist())
        for partition in range(8)
    }
    assert all(len(rows) == 3 and min(rows) >= 3 for rows in chosen)
    assert len(chosen) > 1


def test_the_classifier_is_trained_and_scored_on_the_mended_graph():
    client = learner(
        optimizer="sgd", momentum=0.0, weight_decay=0.0, learning_rate=0.1, local_epochs=1
    )
    assert client._mend(client._inputs) is client._inputs  # whose generator was never trained
    client._rounds += 1
    with torch.no_grad():
        client._generator.count.bias.fill_(1.3)
    graph = client._mend(client._inputs)
    assert graph.num_nodes > NODES
    before = state(client.local.model)
    matrix = as_matrix(graph.edge_index.numpy(), graph.num_nodes)
    features = graph.features.matrix.numpy()
    expected = classified(before, matrix, features)[:NODES]
    np.testing.assert_allclose(client.local.task.logits(client.scored), expected, atol=1e-12)
    rows = [0, 1, 2]
    labels = client.local.task.train_labels.numpy()

    def loss(arrays):
        logits = classified(arrays, matrix, features)[rows]
        shifted = logits - logits.max(axis=1, keepdims=True)
        log_sums = np.log(np.exp(shifted).sum(axis=1))
        return (log_sums - shifted[np.arange(3), labels]).mean()

    slopes = gradient(loss, before)
    shared = {name: array for name, array in client.share().items() if "/" not in name}
    client.receive({name: np.array(array) for name, array in shared.items()})
    client.train()
    descended = {name: array - 0.1 * slopes[name] for name, array in before.items()}
    assert_near(state(client.local.model), descended, 1e-8)
    later_graph = client._mend(client._inputs)
    assert torch.equal(
        later_graph.features.matrix, graph.features.matrix
    )  # the same in every round


def replied(client, sent, examples=3):
    client.receive(sent)
    torch.manual_seed(0)
    client.train()
    return Statistics({name: np.array(array) for name, array in client.share().items()}, examples)


def test_packages_and_gradients_go_their_way():
    clients = {partition: learner(partition, fedsage__epochs=1) for partition in (0, 1, 2)}
    aggregation = server(clients[0], rounds=3)
    start = aggregation.global_model()
    first = {p: replied(client, aggregation.sent_to(p)) for p, client in clients.items()}
    for p, update in first.items():
        assert update.arrays.keys() == aggregation.expected_reply(p).keys()
    aggregation.aggregate(first)
    models = [
        Statistics({name: update.arrays[name] for name in start}, 3) for update in first.values()
    ]
    assert_near(aggregation.global_model(), split_average(start, models), 0)
    sent = {p: aggregation.sent_to(p) for p in clients}
    for p, arrays in sent.items():
        senders = {name.split("/")[1] for name in arrays if name.startswith(PACKAGE)}
        assert senders == {str(sender) for sender in clients if sender != p}
        for sender in senders:
            content = {name: arrays[f"{PACKAGE}{sender}/{name}"] for name in learner_template()}
            expected = {name: first[int(sender)].arrays[PACKAGE + name] for name in content}
            assert_near(content, expected, 0)
        assert not any(array.any() for name, array in arrays.items() if name.startswith(GRADIENT))
    # Client 1 is away, client 2 has no examples.
    second = {0: replied(clients[0], sent[0]), 2: replied(clients[2], sent[2], examples=0)}
    assert second[0].arrays.keys() == aggregation.expected_reply(0).keys()
    aggregation.aggregate(second)
    for p, answers in ((1, [0]), (2, [0]), (0, [])):
        for name, array in clients[0]._fgen.items():
            total = sum(
                (second[a].arrays[f"{GRADIENT}{p}/{name}"] for a in answers), np.zeros(array.shape)
            )
            assert np.array_equal(aggregation.sent_to(p)[f"{GRADIENT}{name}"], total)
    # Its package is the one of before.
    assert np.array_equal(
        aggregation.sent_to(0)[f"{PACKAGE}2/out.bias"], first[2].arrays[f"{PACKAGE}out.bias"]
    )
    stored = aggregation.state()
    resumed = server(clients[0], rounds=0)
    resumed.load(stored)
    for p in clients:
        assert_near(resumed.sent_to(p), aggregation.sent_to(p), 0)
        assert list(resumed.sent_to(p)) == list(aggregation.sent_to(p))
        assert resumed.expected_reply(p).keys() == aggregation.expected_reply(p).keys()
    third = {1: replied(clients[1], aggregation.sent_to(1))}
    for continued in (aggregation, resumed):
        continued.aggregate(third)
        # packages are forgotten
        assert continued.sent_to(0).keys() == continued.expected_reply(0).keys() == start.keys()
        assert continued.state().keys() == start.keys() | {"rounds-left"}
        replies = {0: Statistics({name: 2 * array for name, array in start.items()}, 1)}
        continued.aggregate(replies)
        assert_near(continued.global_model(), {name: 2 * array for name, array in start.items()}, 0)
    with refuses("parameters", "package/out.bias", error=AggregationError):
        aggregation.aggregate(first)


def test_the_mean_is_that_of_all_who_answered():
    aggregation = server(learner(), rounds=5)
    shared = aggregation.global_model()
    template = learner_template()
    reply = shared | {PACKAGE + name: array for name, array in template.items()}
    replies = {p: Statistics(reply, 2) for p in (0, 1, 2)}
    aggregation.aggregate(replies)
    names = [name for name in template if "." in name]

    def with_gradients(p):
        return reply | {
            f"{GRADIENT}{o}/{n}": np.full(template[n].shape, 10.0 * p + o)
            for o in range(3)
            if o != p
            for n in names
        }

    replies = {p: Statistics(with_gradients(p), 2) for p in (0, 1, 2)}
    aggregation.aggregate(replies)
    for p, expected in ((0, (10 + 20) / 2), (1, (1 + 21) / 2), (2, (2 + 12) / 2)):
        assert all((aggregation.sent_to(p)[GRADIENT + name] == expected).all() for name in names)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {f"{PACKAGE}0/out.bias": np.zeros(6)},
            "package of '0'; allowed are those of other clients",
        ),
        ({f"{PACKAGE}x/out.bias": np.zeros(6)}, "package of 'x'"),
        ({f"{PACKAGE}1/out.bias": np.zeros(6)}, "missing .*package/1/hidden.bias"),
        (
            {f"{GRADIENT}out.bias": np.zeros(5)},
            r"gradient/out.bias is float64\[5\], expected float64\[6\]",
        ),
        (
            {f"{GRADIENT}out.bias": np.full(6, np.nan)},
            "gradient/out.bias has values that are not finite",
        ),
        ({"variate/x": np.zeros(1)}, "unexpected .*variate/x"),
    ],
)
def test_other_messages_are_refused(change, reason):
    client = learner()
    with pytest.raises(MessageError, match=reason):
        client.receive(blank(client) | change)


def test_a_run_trains_generators_first_and_then_the_classifier_alone(tmp_path):
    recorder = Recorder()
    result = run(
        tmp_path, method="fedsage+", num_rounds=4, fedsage__generator_rounds=2, intercept=recorder
    )
    assert result.summary["status"] == "completed"
    kinds = []
    for request, reply in recorder.pairs:
        header = request.config_records["header"]
        if header["phase"] == "train" and partition_of(reply) == 0:
            prefixes = [
                {name.split("/")[0] for name in array_names(message) if "/" in name}
                for message in (request, reply)
            ]
            kinds.append((int(header["round"]), *prefixes))
    both = {"package", "gradient"}
    expected = [
        (1, {"gradient"}, {"package"}),
        (2, both, both),
        (3, set(), set()),
        (4, set(), set()),
    ]
    assert kinds == expected
    requests = recorder.requests("train")
    sent = [
        decode_arrays(message["arrays"])
        for message in requests
        if int(message.config_records["header"]["round"]) == 2
    ]
    assert len(sent) == 3
    assert {
        name.split("/")[1] for arrays in sent for name in arrays if name.startswith(PACKAGE)
    } == {"0", "1", "2"}
    personal = parameters_in(result.personal(0))
    assert personal[f"{KEPT}rounds"] == 2
    assert set(result.model) == {name for name in sent[0] if "/" not in name} | {"rounds-left"}


def test_real_nodes_show_their_nodes_only_where_they_share_statistics(tmp_path):
    graphs = [user_fields(60 + 10 * index, seed=index) for index in range(2)]
    nodes = real_nodes(tmp_path / "nodes", graphs)
    with pytest.raises(FederationError, match="share-statistics"):
        run(tmp_path, "private", nodes=nodes, method="fedsage+")
    result = run(tmp_path, "told", nodes=nodes, method="fedsage+", share_statistics=True)
    assert result.summary["status"] == "completed"
