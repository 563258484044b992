"""Batches, sums and memberships against brute force, and what a task makes of them."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from task_losses import losses as task_losses
from tiers import examples
from torch import Tensor, nn

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.client_task import NodeTask, WholeGraphTask, client_task
from curvfed.tasks.graphs.data.client_graph import ClientGraph, client_graph
from curvfed.tasks.graphs.inputs import GraphBatches, GraphInputs
from curvfed.tasks.graphs.model_spec import MODELS, ModelSpec
from curvfed.tasks.graphs.sparse import Constant, _ordered_product, memberships, neighbour_sums

CPU = torch.device("cpu")
NAMES = ("one", "three", "two")


@st.composite
def simple_edges(draw, most_nodes: int = 7) -> tuple[int, list[tuple[int, int]]]:
    """Number of nodes and the edges (i, j), i < j, of a graph."""
    size = draw(st.integers(1, most_nodes))
    pairs = [(i, j) for i, j in product(range(size), repeat=2) if i < j]
    return size, sorted(draw(st.sets(st.sampled_from(pairs)))) if pairs else []


def index_of(edges: list[tuple[int, int]]) -> Tensor:
    """Both directions, sorted."""
    both = sorted([*edges, *((j, i) for i, j in edges)])
    return torch.tensor(both, dtype=torch.int64).reshape(-1, 2).t().contiguous()


def client_of(
    graphs: list[tuple[int, list[tuple[int, int]]]], one_hot: bool, masks: Tensor | None = None
) -> ClientGraph:
    """Node n has a row that no other has; one-hot rows stay sparse where that pays."""
    owner = [number for number, (size, _) in enumerate(graphs) for _ in range(size)]
    starts = np.cumsum([0, *(size for size, _ in graphs)])
    edges = [
        (int(start) + i, int(start) + j)
        for start, (_, pairs) in zip(starts, graphs)
        for i, j in pairs
    ]
    numbers = torch.arange(len(owner), dtype=torch.float32)
    rows = (
        torch.eye(max(len(owner), 6))[: len(owner)]
        if one_hot
        else torch.stack([numbers, 1 + numbers.sqrt()], dim=1)
    )
    masks = torch.zeros(3, len(graphs), dtype=torch.bool) if masks is None else masks
    labels = torch.arange(len(graphs)) % 3
    return client_graph(
        rows, index_of(edges), labels, masks, NAMES, "accuracy", graph_of_node=torch.tensor(owner)
    )


def dense(matrix: Tensor) -> Tensor:
    return matrix.to_dense() if matrix.layout == torch.sparse_csr else matrix


def assert_cut(client: ClientGraph, chosen: list[int], batch: GraphInputs) -> None:
    """The batch has the chosen graphs and nothing else, node by node and edge by edge."""
    assert client.graph_of_node is not None
    owner = client.graph_of_node.tolist()
    nodes = [node for node, number in enumerate(owner) if number in chosen]
    place = {node: position for position, node in enumerate(nodes)}
    edges = [(place[i], place[j]) for i, j in client.edge_index.t().tolist() if i in place]
    assert (
        batch.edge_index.t().tolist()
        == [[i, j] for i, j in edges]
        == sorted([i, j] for i, j in edges)
    )
    assert batch.edge_index.dtype == torch.int64
    assert batch.graph_of_node is not None
    assert batch.graph_of_node.tolist() == [chosen.index(owner[node]) for node in nodes]
    assert (batch.num_graphs, batch.num_nodes) == (len(chosen), len(nodes))
    assert torch.equal(dense(batch.features.matrix), dense(client.features)[nodes])
    assert torch.equal(batch.features.transpose.to_dense(), dense(client.features)[nodes].t())


sets_of_graphs = st.lists(simple_edges(), min_size=1, max_size=6)


@examples(60)
@given(st.data(), sets_of_graphs, st.booleans())
def test_a_batch_is_cut_out_node_by_node(data, graphs, one_hot):
    client = client_of(graphs, one_hot)
    chosen = sorted(data.draw(st.sets(st.integers(0, len(graphs) - 1))))
    assert_cut(
        client, chosen, GraphBatches(client, CPU).of(torch.tensor(chosen, dtype=torch.int64))
    )


@examples(40)
@given(st.data(), sets_of_graphs, st.integers(0, 7))
def test_batches_are_the_choice_in_its_order_and_each_ascending(data, graphs, size):
    client = client_of(graphs, one_hot=True)
    chosen = data.draw(st.permutations(sorted(data.draw(st.sets(st.integers(0, len(graphs) - 1))))))
    batches = list(GraphBatches(client, CPU).each(torch.tensor(chosen, dtype=torch.int64), size))
    step = size or max(len(chosen), 1)
    expected = [sorted(chosen[start : start + step]) for start in range(0, len(chosen), step)]
    assert [numbers.tolist() for numbers, _ in batches] == expected
    for numbers, batch in batches:
        assert_cut(client, numbers.tolist(), batch)


@given(simple_edges(9), st.sampled_from([torch.float32, torch.float64]))
def test_neighbour_sums_are_the_adjacency_matrix(graph, dtype):
    size, edges = graph
    expected = torch.zeros(size, size, dtype=dtype)
    for i, j in edges:
        expected[i, j] = expected[j, i] = 1
    sums = neighbour_sums(index_of(edges), size, dtype)
    assert sums.matrix.layout == torch.sparse_csr
    assert torch.equal(sums.matrix.to_dense(), expected)
    assert torch.equal(sums.transpose.to_dense(), expected)


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=6),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_memberships_sum_over_groups_and_their_gradient_is_spread_over_the_rows(sizes, dtype):
    """Groups of no rows among them, and matrices of every shape."""
    owner = torch.tensor(
        [group for group, size in enumerate(sizes) for _ in range(size)], dtype=torch.int64
    )
    members = memberships(owner, len(sizes), dtype)
    expected = torch.zeros(len(sizes), len(owner), dtype=dtype)
    for row, group in enumerate(owner.tolist()):
        expected[group, row] = 1
    assert torch.equal(members.matrix.to_dense(), expected)
    assert torch.equal(members.transpose.to_dense(), expected.t())
    generator = torch.Generator().manual_seed(len(owner))
    rows = torch.randint(-9, 9, (len(owner), 2), generator=generator).to(dtype).requires_grad_()
    upstream = torch.randint(-9, 9, (len(sizes), 2), generator=generator).to(dtype)
    totals = members @ rows
    assert totals.tolist() == [
        [
            sum(row[i] for row, group in zip(rows.tolist(), owner.tolist()) if group == number)
            for i in range(2)
        ]
        for number in range(len(sizes))
    ]
    (gradient,) = torch.autograd.grad(totals, rows, upstream)
    assert torch.equal(gradient, upstream[owner])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("one_hot", [True, False])
def test_what_is_made_lazily_is_made_once_and_right(one_hot, dtype):
    client = client_of([(2, [(0, 1)]), (5, [])], one_hot)
    assert (client.features.layout == torch.sparse_csr) == one_hot
    inputs = GraphInputs.of(replace(client, features=client.features.to(dtype)), CPU)
    for name in ("adjacency", "sums", "members", "norms"):
        assert getattr(inputs, name) is getattr(inputs, name)
    assert [norm for (norm,) in inputs.norms.tolist()] == pytest.approx(
        [math.hypot(*row) for row in dense(client.features).tolist()], rel=1e-6
    )
    assert inputs.members.matrix.to_dense().sum(dim=1).tolist() == [2, 5]
    assert inputs.sums.matrix.to_dense().nonzero().tolist() == [[0, 1], [1, 0]]
    assert inputs.adjacency.matrix.to_dense()[2:, 2:].tolist() == torch.eye(5).tolist()
    assert {
        inputs.norms.dtype,
        *(constant.matrix.dtype for constant in (inputs.members, inputs.sums, inputs.adjacency)),
    } == {dtype}


class Lookup(nn.Module):
    """Logits of a graph from a table; what graph it is, the one-hot rows of its nodes tell."""

    def __init__(self, client: ClientGraph, num_classes: int, seed: int = 0) -> None:
        super().__init__()
        assert client.graph_of_node is not None
        self.owner = client.graph_of_node
        size = len(client.labels), num_classes
        self.table = nn.Parameter(torch.randn(size, generator=torch.Generator().manual_seed(seed)))
        self.asked: list[list[int]] = []
        self.trains: list[bool] = []

    def forward(self, inputs: GraphInputs) -> Tensor:
        assert inputs.graph_of_node is not None
        nodes = dense(inputs.features.matrix).argmax(dim=1)
        numbers = {
            int(place): int(self.owner[node]) for place, node in zip(inputs.graph_of_node, nodes)
        }
        self.asked.append([numbers[place] for place in range(inputs.num_graphs)])
        self.trains.append(self.training)
        return self.table[self.asked[-1]]


def many_graphs(num_graphs: int = 13) -> ClientGraph:
    """Small paths; two in four train, one in four is for validation, one for testing."""
    role = torch.arange(num_graphs) % 4
    masks = torch.stack([role < 2, role == 2, role == 3])
    return client_of(
        [(1 + number % 3, [(i, i + 1) for i in range(number % 3)]) for number in range(num_graphs)],
        True,
        masks,
    )


def passes(task: WholeGraphTask, model: Lookup, seed: int, count: int = 1) -> list[list[list[int]]]:
    """The graphs of every step, pass by pass."""
    torch.manual_seed(seed)
    orders = []
    for _ in range(count):
        model.asked = []
        list(task_losses(task, model))
        orders.append(model.asked)
    return orders


@pytest.mark.parametrize("batch_size", [0, 1, 3, 7, 100])
def test_a_pass_takes_every_training_graph_once(batch_size):
    client = many_graphs()
    task, model = WholeGraphTask(client, NAMES, CPU, batch_size), Lookup(client, 3)
    train = client.train.nonzero().flatten().tolist()
    assert task.num_examples == len(train) == 7
    for steps in passes(task, model, seed=0, count=5):
        assert sorted(number for step in steps for number in step) == train
        assert all(step == sorted(step) for step in steps)
        assert len(steps) == task.num_steps
        size = batch_size or len(train)
        assert [len(step) for step in steps] == [
            min(size, 7 - start) for start in range(0, 7, size)
        ]


def test_the_order_of_a_pass_is_shuffled_anew_and_depends_on_the_seed_alone():
    client = many_graphs(40)
    task = WholeGraphTask(client, NAMES, CPU, 4)
    first, repeated, reseeded = (
        passes(task, Lookup(client, 3), seed, count=2) for seed in (0, 0, 1)
    )
    assert first == repeated
    assert first != reseeded
    assert first[0] != first[1]
    fresh = WholeGraphTask(client, NAMES, CPU, 4)
    fresh.scores(Lookup(client, 3))
    assert passes(fresh, Lookup(client, 3, seed=9), seed=0, count=2) == first


def test_losses_are_mean_cross_entropies_in_the_federations_numbering():
    client, names = many_graphs(), ("zero", *sorted(NAMES, reverse=True))
    task, model = WholeGraphTask(client, names, CPU, 3), Lookup(client, 4)
    labels = [names.index(NAMES[label]) for label in client.labels.tolist()]
    assert task.labels.tolist() == labels
    for loss in task_losses(task, model):
        rows = model.table.detach().double().log_softmax(dim=1)
        expected = -np.mean([float(rows[number, labels[number]]) for number in model.asked[-1]])
        assert loss.item() == pytest.approx(expected, rel=1e-6)
        assert loss.requires_grad


@pytest.mark.parametrize("batch_size", [0, 1, 3, 100])
def test_scores_are_the_shares_of_right_answers(batch_size):
    client = many_graphs(41)
    task, model = WholeGraphTask(client, NAMES, CPU, batch_size), Lookup(client, 3)
    model.train()
    logits = task.logits(model)
    assert torch.equal(logits, model.table)
    assert not logits.requires_grad
    scores = task.scores(model)
    assert scores.keys() == {"validation", "score"}
    for name, mask in (("validation", client.val), ("score", client.test)):
        of_part = [number for number in range(41) if mask[number]]
        right = [
            int(model.table[number].argmax()) == int(client.labels[number]) for number in of_part
        ]
        assert scores[name] == pytest.approx(sum(right) / len(right))
        assert 0 < scores[name] < 1
    assert not any(model.trains)


def test_scores_of_no_examples_are_left_out():
    client = many_graphs(3)  # two to train, one for validation
    task, model = WholeGraphTask(client, NAMES, CPU), Lookup(client, 3)
    assert task.scores(model).keys() == {"validation"}
    without = WholeGraphTask(replace(client, val=client.test), NAMES, CPU)
    assert without.scores(model) == {}
    idle = WholeGraphTask(replace(client, train=client.test), NAMES, CPU, 2)
    assert list(task_losses(idle, model)) == []


def one_graph(num_nodes: int = 30, metric: str = "accuracy") -> ClientGraph:
    """A ring, its nodes in two classes and three roles."""
    edges = [(i, i + 1) for i in range(num_nodes - 1)] + [(0, num_nodes - 1)]
    rows = torch.randn(num_nodes, 5, generator=torch.Generator().manual_seed(0))
    role, labels = torch.arange(num_nodes) % 3, torch.arange(num_nodes) // 3 % 2
    masks = torch.stack([role == number for number in range(3)])
    return client_graph(rows, index_of(edges), labels, masks, ("left", "right"), metric, "")


class Rows(nn.Module):
    """Logits of nodes: a table."""

    def __init__(self, num_nodes: int, num_classes: int) -> None:
        super().__init__()
        self.table = nn.Parameter(
            torch.randn(num_nodes, num_classes, generator=torch.Generator().manual_seed(1))
        )
        self.asked: list[tuple[GraphInputs, bool]] = []

    def forward(self, inputs: GraphInputs) -> Tensor:
        self.asked.append((inputs, self.training))
        return self.table * 1


@pytest.mark.parametrize("names", [("left", "right"), ("right", "middle", "left")])
def test_nodes_are_one_step_over_the_whole_graph(names):
    graph = one_graph()
    task, model = NodeTask(graph, names, CPU), Rows(30, len(names))
    (loss,) = task_losses(task, model)
    labels = [names.index(graph.class_names[label]) for label in graph.labels.tolist()]
    rows = model.table.detach().double().log_softmax(dim=1)
    assert loss.item() == pytest.approx(
        -np.mean([float(rows[node, labels[node]]) for node in range(0, 30, 3)]), rel=1e-6
    )
    assert (task.num_examples, task.num_steps) == (10, 1)
    scores = task.scores(model)
    answers = model.table.argmax(dim=1).tolist()
    for start, name in ((1, "validation"), (2, "score")):
        right = [answers[node] == labels[node] for node in range(start, 30, 3)]
        assert scores[name] == pytest.approx(sum(right) / 10)
    assert scores.keys() == {"validation", "score"}
    assert torch.equal(task.logits(model), model.table)
    (trained, trains), *scored = model.asked
    assert trains
    assert scored == [(task.inputs, False), (task.inputs, False)]
    assert trained is task.inputs
    assert trained.graph_of_node is None
    assert torch.equal(dense(trained.features.matrix), graph.features)
    assert torch.equal(trained.edge_index, graph.edge_index)


def test_where_the_metric_is_another_the_accuracy_is_scored_beside_it():
    graph = one_graph(metric="roc_auc")
    task, model = NodeTask(graph, graph.class_names, CPU), Rows(30, 2)
    scores = task.scores(model)
    margin = (model.table[:, 1] - model.table[:, 0]).tolist()
    tested = range(2, 30, 3)
    pairs = [
        margin[i] > margin[j]
        for i in tested
        for j in tested
        if graph.labels[i] == 1 and graph.labels[j] == 0
    ]
    assert scores.keys() == {"validation", "score", "accuracy"}
    assert scores["score"] == pytest.approx(sum(pairs) / len(pairs))
    assert scores["accuracy"] == pytest.approx(
        np.mean([(margin[node] > 0) == (graph.labels[node] == 1) for node in tested])
    )


def test_a_class_that_the_federation_does_not_know_is_named():
    for client in (one_graph(), many_graphs()):
        with pytest.raises(DataError, match=f"'{client.class_names[0]}'"):
            client_task(client, client.class_names[1:], CPU)


def gradients(task: NodeTask | WholeGraphTask, model: nn.Module) -> dict[str, Tensor]:
    """Of the losses of one pass."""
    model.train()
    model.zero_grad()
    torch.manual_seed(0)
    for loss in task_losses(task, model):
        loss.backward()
    return {
        name: parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


@pytest.mark.parametrize(
    ("task_kind", "kind"), [(about, kind) for about in MODELS for kind in MODELS[about]]
)
def test_scoring_first_does_not_spoil_training(task_kind, kind):
    """What scoring makes on its way, without autograd, training goes on with."""
    client = one_graph() if task_kind == "nodes" else many_graphs()
    spec = ModelSpec(
        task_kind, kind, client.features.shape[1], 3, 4, dropout=0.0, gate=True, curvature=None
    )
    expected = gradients(
        client_task(client, (*client.class_names, "more")[:3], CPU, 3), spec.build(seed=0)
    )
    task, model = (
        client_task(client, (*client.class_names, "more")[:3], CPU, 3),
        spec.build(seed=0),
    )
    first = task.scores(model)
    after_scoring = gradients(task, model)
    assert after_scoring.keys() == expected.keys()
    assert all(torch.equal(after_scoring[name], expected[name]) for name in expected)
    assert any(bool(gradient.any()) for gradient in after_scoring.values())
    assert task.scores(model) == first


def test_a_product_in_the_order_of_the_entries_equals_the_dense_one():
    """The form that a GPU uses; rows without entries are zeros."""
    dense = torch.rand(40, 30)
    dense[dense < 0.8] = 0
    dense[[3, 39]] = 0
    constant = Constant.of(dense.to_sparse_csr())
    x = torch.rand(30, 5)
    torch.testing.assert_close(_ordered_product(constant.matrix, x), dense @ x)
    gradient = torch.rand(5, 40).t()
    torch.testing.assert_close(_ordered_product(constant.transpose, gradient), dense.t() @ gradient)
