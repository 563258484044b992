"""Nodes in batches of clusters: what a batch holds, what is scored, and whole runs."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from app_runs import Recorder, run
from errors import refuses
from graph_fixtures import user_fields
from hypothesis import given
from hypothesis import strategies as st
from tiers import examples, only
from torch import Tensor, nn

from curvfed.deployments.predict import TrainedRun, predict
from curvfed.extensions.node_batches.clusters import (
    CLUSTERS_PER_BATCH,
    ClusteredNodeTask,
    NodeBatches,
)
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.client_task import NodeTask, client_task
from curvfed.tasks.graphs.data.client_graph import ClientGraph, client_graph
from curvfed.tasks.graphs.data.clients import clustered
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.data.partition import clean_edges
from curvfed.tasks.graphs.inputs import GraphInputs

pytestmark = pytest.mark.usefixtures("own_home")

CPU = torch.device("cpu")
WHOLE_GRAPH = ("fedgta", "adafgl", "fedsage+")


def graph(
    num_nodes: int, seed: int, share: float = 0.3, weighted: bool = False, sparse: bool = False
) -> ClientGraph:
    """Random edges and parts; node n has feature n, so that what a model sees can be told."""
    rng = np.random.default_rng(seed)
    edges = torch.from_numpy(
        clean_edges(rng.integers(num_nodes, size=(2, 3 * num_nodes)), num_nodes)
    )
    roles = torch.from_numpy(rng.choice(3, num_nodes, p=(share, 0.3, 0.7 - share)))
    features = torch.zeros(num_nodes, 8 if sparse else 1)
    features[:, 0] = torch.arange(num_nodes) + 1
    weights = edges.min(0).values.float() + edges.max(0).values / 1000 if weighted else None
    labels = torch.from_numpy(rng.integers(2, size=num_nodes))
    masks = roles == torch.arange(3).unsqueeze(1)
    return client_graph(
        features, edges, labels, masks, ("no", "yes"), "accuracy", "", edge_weights=weights
    )


def in_batches(whole: ClientGraph, size: int) -> ClientGraph:
    return clustered(whole, GraphSpec("", "", batch_size=size))


def seen(inputs: GraphInputs) -> Tensor:
    """The numbers of the nodes in the inputs."""
    matrix = inputs.features.matrix
    return (matrix.to_dense() if matrix.layout == torch.sparse_csr else matrix)[:, 0].long() - 1


class Numbers(nn.Module):
    """Logits that tell the number of a node, and that of its neighbours within the inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[GraphInputs] = []

    def forward(self, inputs: GraphInputs) -> Tensor:
        self.asked.append(inputs)
        degrees = inputs.edge_index[0].bincount(minlength=inputs.num_nodes)
        return torch.stack([seen(inputs).float(), degrees.float()], dim=1)


def assert_between(whole: ClientGraph, inputs: GraphInputs) -> None:
    """Inputs have all edges between their nodes and no other, in order and with weights."""
    nodes = seen(inputs)
    kept = torch.isin(whole.edge_index, nodes).all(dim=0)
    assert torch.equal(nodes[inputs.edge_index], whole.edge_index[:, kept])
    if whole.edge_weights is not None:
        assert torch.equal(inputs.edge_weights, whole.edge_weights[kept])


@examples(40)
@given(
    st.integers(2, 60),
    st.integers(1, 59),
    st.integers(0, 99),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.05, 0.3]),
)
def test_a_pass_has_every_training_node_once_and_batches_have_their_edges(
    size, batch, seed, weighted, sparse, share
):
    whole = graph(size, seed, share, weighted, sparse)
    parts = in_batches(whole, min(batch, size - 1))
    task = client_task(parts, whole.class_names, CPU, min(batch, size - 1))
    assert isinstance(task, ClusteredNodeTask)
    assert parts.digest == parts.computed_digest() == whole.digest
    trained, everything = [], []
    for inputs, labels, rows in task.batches(nn.Identity()):
        nodes = seen(inputs)
        assert_between(whole, inputs)
        assert torch.equal(rows, whole.train[nodes].nonzero()[:, 0])
        assert len(rows)
        assert torch.equal(labels, whole.labels[nodes[rows]])
        trained += nodes[rows].tolist()
        everything.append(nodes)
    assert sorted(trained) == whole.train.nonzero()[:, 0].tolist()
    assert len(everything) == task.num_steps
    assert len(torch.cat([*everything, torch.zeros(0, dtype=torch.int64)]).unique()) == sum(
        map(len, everything)
    )


@examples(40)
@given(st.integers(2, 60), st.integers(1, 59), st.integers(0, 99))
def test_every_node_is_scored_once_with_the_neighbours_that_a_batch_has_room_for(size, batch, seed):
    whole, batch = graph(size, seed), min(batch, size - 1)
    parts, model = in_batches(whole, batch), Numbers()
    logits = client_task(parts, whole.class_names, CPU, batch).logits(model)
    assert torch.equal(logits[:, 0], torch.arange(size).float())
    degrees = whole.edge_index[0].bincount(minlength=size)
    owner, most = parts.clusters, 0
    for inputs in model.asked:
        assert_between(whole, inputs)
        most = max(most, inputs.num_nodes)
    # A piece is half of the clusters of a batch, rounded up, and METIS's parts differ in size.
    largest = int(owner.bincount().max())
    assert most <= CLUSTERS_PER_BATCH * largest + batch // 2
    assert bool((logits[:, 1] <= degrees).all())
    whole_pieces = [n for n in model.asked if n.num_nodes == size]
    if len(whole_pieces) == len(model.asked):
        assert torch.equal(logits[:, 1], degrees.float())


def test_with_room_for_all_neighbours_none_is_left_out():
    ring = torch.arange(400)
    edges = torch.from_numpy(clean_edges(torch.stack([ring, (ring + 1) % 400]).numpy(), 400))
    masks = (ring % 3) == torch.arange(3).unsqueeze(1)
    whole = client_graph(
        ring.float().unsqueeze(1) + 1, edges, ring % 2, masks, ("a", "b"), "accuracy", ""
    )
    model = Numbers()
    logits = client_task(in_batches(whole, 100), whole.class_names, CPU, 100).logits(model)
    assert len(model.asked) == 8
    assert logits[:, 1].tolist() == [2.0] * 400


def test_what_does_not_fit_is_the_least_linked():
    # Two cliques of 8; node 16 has three edges to the first, 17 one.
    pairs = [
        pair for first in (0, 8) for pair in itertools.combinations(range(first, first + 8), 2)
    ]
    pairs += [(0, 16), (1, 16), (2, 16), (3, 17), (16, 17), (17, 8)]
    edges = torch.from_numpy(clean_edges(np.array(pairs).T, 18))
    masks = torch.ones(3, 18, dtype=torch.bool) & (torch.arange(3) == 0).unsqueeze(1)
    whole = client_graph(
        torch.arange(18).float().unsqueeze(1) + 1,
        edges,
        torch.zeros(18, dtype=torch.int64),
        masks,
        ("a",),
        "accuracy",
        "",
    )
    owner = torch.tensor([0] * 8 + [1] * 8 + [2] * 2)
    batches = NodeBatches(replace(whole, clusters=owner), CPU)
    for room, near in ((0, []), (1, [16]), (2, [16, 17]), (9, [16, 17])):
        nodes, rows, inputs = batches.around(torch.tensor([0]), room)
        assert nodes.tolist() == list(range(8))
        assert seen(inputs).tolist() == [*range(8), *near]
        assert torch.equal(seen(inputs)[rows], nodes)
        assert_between(whole, inputs)


def test_a_batch_of_all_nodes_is_the_whole_graph():
    whole = graph(50, 1)
    for size in (0, 50, 51):
        assert in_batches(whole, size) is whole
        assert type(client_task(whole, whole.class_names, CPU, size)) is NodeTask
    parts = in_batches(whole, 20)
    assert parts.clusters.bincount().tolist() == in_batches(whole, 20).clusters.bincount().tolist()
    assert len(parts.clusters.unique()) == 3 * CLUSTERS_PER_BATCH
    assert parts.bytes_on(CPU) == 0 < whole.bytes_on(CPU)


def test_without_an_extension_batches_are_refused(monkeypatch):
    monkeypatch.setattr(plugins, "additions", lambda kind: [])
    with pytest.raises(
        DataError, match="batch-size is 5, a client has 50 nodes; allowed here is 0"
    ):
        in_batches(graph(50, 1), 5)


def test_a_share_of_the_nodes_is_left_out_of_training_alone():
    whole = graph(60, 3)
    task, model = (
        client_task(in_batches(whole, 20), whole.class_names, CPU, 20, node_share=0.5),
        Numbers(),
    )
    nodes = torch.cat([seen(batch.inputs) for batch in task.batches(model)])
    assert len(nodes.unique()) == len(nodes) == max(30, int(whole.train.sum()))
    assert bool(torch.isin(whole.train.nonzero()[:, 0], nodes).all())
    assert torch.equal(task.logits(model)[:, 0], torch.arange(60).float())


def test_auto_is_all_nodes_and_128_of_anything_else():
    config = parse({"method": "fedavg", "dataset": "trees"})
    assert [
        resolve_defaults(config, task).batch_size
        for task in ("nodes", "graphs", "images", "points")
    ] == [0, 128, 128, 128]


@pytest.mark.parametrize("method", WHOLE_GRAPH)
def test_methods_of_the_whole_graph_refuse_batches(method):
    for size in (0, "auto"):
        parse({"method": method, "batch-size": size})
    with refuses("batch-size-with-method", 50, method, "auto or 0", error=ConfigError):
        parse({"method": method, "batch-size": 50})


@pytest.fixture
def own_graph(tmp_path):
    torch.save(user_fields(), tmp_path / "own.pt")
    return str(tmp_path / "own.pt")


@pytest.mark.parametrize(
    "method",
    only(["fedavg", "flatland", "fedhgcn", "fed-pub", "scaffold"], "flatland".__eq__),
)
def test_by_clusters_a_run_trains_and_goes_on_to_the_same_bits(method, own_graph, tmp_path):
    settings = {
        "method": method,
        "dataset": own_graph,
        "clients": 2,
        "num_rounds": 3,
        "batch_size": 8,
    }
    recorder = Recorder()
    whole = run(tmp_path, "whole", intercept=recorder, **settings)
    assert all(float(reply["metrics"]["steps"]) in (4, 20) for reply in recorder.replies("train"))
    left = iter([True] * (len(recorder.pairs) - 2))

    def stop(request, handle):
        if not next(left, False):
            raise KeyboardInterrupt
        return handle(request)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "stopped", intercept=stop, **settings)
    assert run(tmp_path, "stopped", resume=True, **settings).figures == whole.figures


# PyTorch Geometric warns where it is imported.
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("model", "method"),
    only([("gat", "fedavg"), ("Curved", "flatland")], lambda case: case[0] == "gat"),
)
def test_nodes_of_theirs_are_trained_and_predicted_in_batches(model, method, tmp_path):
    settings = {"method": method, "model": f"plugin_models:{model}", "batch_size": 30}
    recorder = Recorder()
    result = run(tmp_path, intercept=recorder, **settings)
    assert min(float(reply["metrics"]["steps"]) for reply in recorder.replies("train")) > 1
    predicted = predict(TrainedRun.read(result.path), "trees", client=1)
    assert len(predicted.names) == result.described["clients"][1]["statistics"]["num_nodes"] > 30
