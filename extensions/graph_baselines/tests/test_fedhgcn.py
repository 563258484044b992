"""FedHGCN's node selection against NumPy, and what the method becomes without it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from app_runs import run
from graph_fixtures import write_tu
from task_losses import losses as task_losses
from tiers import only

from curvfed.deployments.commands.command import main
from curvfed.extensions.graph_baselines.node_selection import MAX_RADIUS, importance, selected
from curvfed.strategies.base.method import Network
from curvfed.strategies.config.build_method import build_model
from curvfed.strategies.methods import METHODS
from curvfed.strategies.methods import flatland as flatland_file
from curvfed.tasks.graphs.client_task import NodeTask, SelectedNodeTask, client_task
from curvfed.tasks.graphs.data.client_graph import client_graph, induced
from curvfed.tasks.graphs.model_spec import ModelSpec

NODES = 30
FEATURES = 6
CPU = torch.device("cpu")
CLASSES = ("a", "b", "c")


def random_graph(seed=0, sizes=None, dense=False, scale=1.0, edges=45):
    """A client's graph of 30 nodes, the last one alone; or with `sizes` as many graphs, with no
    edges between them."""
    rng = np.random.default_rng(seed)
    if sizes is None:
        owner = np.zeros(NODES, np.int64)
    else:
        owner = np.repeat(np.arange(len(sizes)), sizes)
    drawn = (tuple(sorted(rng.choice(NODES - 1, 2, replace=False).tolist())) for _ in range(edges))
    pairs = {(i, j) for i, j in drawn if owner[i] == owner[j]}
    columns = sorted([*pairs, *((j, i) for i, j in pairs)])
    both = torch.tensor(columns, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    num = NODES if sizes is None else len(sizes)
    features = (
        scale
        * rng.normal(size=(NODES, FEATURES))
        * (1 if dense else rng.random((NODES, FEATURES)) < 0.15)
    )
    labels = torch.arange(num) % 3
    return client_graph(
        torch.from_numpy(features).float(),
        both,
        labels,
        labels == torch.arange(3)[:, None],
        CLASSES,
        graph_of_node=None if sizes is None else torch.from_numpy(owner),
    )


def adjacency(graph):
    matrix = np.zeros((len(graph.features), len(graph.features)))
    matrix[tuple(graph.edge_index.numpy())] = 1
    return matrix


def rows(graph):
    return graph.features.to_dense().numpy().astype(np.float64)


def distances(graph):
    """From every node's point to its neighbours' centroid, node by node, in float64."""
    product = np.diag([-1.0] + [1.0] * FEATURES)

    def point(v):
        norm = np.linalg.norm(v)
        radius = min(norm, MAX_RADIUS)
        return np.concatenate([[np.cosh(radius)], np.sinh(radius) * v / norm if norm else v])

    points = np.array([point(v) for v in rows(graph)])
    gaps = []
    for node, neighbours in enumerate(adjacency(graph)):
        if neighbours.any():
            mean = points[neighbours > 0].sum(axis=0)
        else:
            mean = np.eye(FEATURES + 1)[0]
        mean = mean / np.sqrt(-mean @ product @ mean)
        gaps.append(np.arccosh(max(1.0, -points[node] @ product @ mean)))
    return np.array(gaps)


@pytest.mark.parametrize("scale", [0.01, 1.0, 3.0, 100.0])
@pytest.mark.parametrize("dense", [False, True])
def test_importance_is_the_distance_to_the_neighbours_centroid(dense, scale):
    graph = random_graph(dense=dense, scale=scale)
    assert (graph.features.layout == torch.sparse_csr) == (not dense)
    # The program's arccosh of a product of points at radius r is good to the root of cosh²(r)·eps.
    furthest = min(MAX_RADIUS, np.linalg.norm(rows(graph), axis=1).max())
    bound = 2 * np.sqrt(np.finfo(np.float64).eps) * np.cosh(furthest)
    np.testing.assert_allclose(
        importance(graph.features, graph.edge_index), distances(graph), rtol=0, atol=bound
    )


@pytest.mark.parametrize(
    ("share", "count"), [(0.01, 10), (0.4, 12), (0.5, 15), (0.55, 17), (0.8, 24), (1.0, 30)]
)
def test_of_nodes_the_most_important_stay_and_all_that_are_trained_on(share, count):
    graph = random_graph(dense=True)
    mask = selected(graph, share)
    assert mask.sum() == count
    assert mask[graph.train].all()
    scores = importance(graph.features, graph.edge_index)
    untrained = ~graph.train
    chosen = scores[untrained & mask]
    left_out = scores[untrained & ~mask]
    if len(chosen) and len(left_out):
        assert chosen.min() > left_out.max()


def test_of_whole_graphs_each_keeps_its_share_and_at_least_one_node():
    sizes = [1, 2, 5, 10, 12]
    graph = random_graph(sizes=sizes, dense=True)
    scores = importance(graph.features, graph.edge_index)
    for share, counts in ((0.01, [1, 1, 1, 1, 1]), (0.5, [1, 1, 3, 5, 6]), (0.8, [1, 2, 4, 8, 10])):
        mask = selected(graph, share)
        start = 0
        for size, count in zip(sizes, counts, strict=True):
            span = slice(start, start + size)
            best = start + np.argsort(-scores[span].numpy())[:count]
            assert mask[span].nonzero().squeeze(1).tolist() == sorted((best - start).tolist())
            start += size


@pytest.mark.parametrize("sizes", [None, [10, 20]])
@pytest.mark.parametrize("dense", [False, True])
def test_what_is_left_out_takes_its_edges_along(dense, sizes):
    graph = random_graph(dense=dense, sizes=sizes)
    mask = selected(graph, 0.6)
    subgraph = induced(graph, mask)
    chosen = mask.numpy()
    assert subgraph.features.layout == graph.features.layout
    np.testing.assert_array_equal(rows(subgraph), rows(graph)[chosen])
    np.testing.assert_array_equal(adjacency(subgraph), adjacency(graph)[np.ix_(chosen, chosen)])
    assert 0 < subgraph.edge_index.shape[1] < graph.edge_index.shape[1]
    numbers = subgraph.edge_index[0] * NODES + subgraph.edge_index[1]
    assert (numbers.diff() > 0).all()
    examples = chosen if sizes is None else slice(None)
    for name in ("labels", "train", "val", "test"):
        np.testing.assert_array_equal(
            getattr(subgraph, name), getattr(graph, name).numpy()[examples]
        )
    if sizes:
        np.testing.assert_array_equal(subgraph.graph_of_node, graph.graph_of_node.numpy()[chosen])


def network():
    return build_model(ModelSpec("nodes", "lorentz", FEATURES, 3, 8, 0.0, True, False), 0)


def test_nodes_are_trained_on_what_is_left_and_scored_on_all():
    graph = random_graph(dense=True)
    model = network()
    full = NodeTask(graph, CLASSES, CPU)
    task = client_task(graph, CLASSES, CPU, node_share=0.6)
    reduced = NodeTask(induced(graph, selected(graph, 0.6)), CLASSES, CPU)
    assert isinstance(task, SelectedNodeTask)
    assert task.num_examples == full.num_examples
    assert task.num_steps == 1
    assert task.scores(model) == full.scores(model)
    losses = [next(task_losses(variant, model)).item() for variant in (task, reduced, full)]
    assert losses[0] == losses[1] != losses[2]
    assert type(client_task(graph, CLASSES, CPU)) is NodeTask


def test_whole_graphs_are_never_seen_whole():
    graph = random_graph(sizes=[10, 20], dense=True)
    model = build_model(ModelSpec("graphs", "lorentz", FEATURES, 3, 8, 0.0, True, False), 0)
    logits = client_task(graph, CLASSES, CPU, node_share=0.6).logits(model)
    reduced_logits = client_task(induced(graph, selected(graph, 0.6)), CLASSES, CPU).logits(model)
    torch.testing.assert_close(logits, reduced_logits, rtol=0, atol=0)
    assert not torch.allclose(logits, client_task(graph, CLASSES, CPU).logits(model))


@pytest.mark.parametrize("dataset", only(["trees", "mutag"], "trees".__eq__))
def test_without_selection_it_is_flatland_shared_at_constant_curvature(
    dataset, tmp_path, monkeypatch
):
    write_tu(tmp_path)
    shared = replace(METHODS["flatland-shared"], network=Network())
    monkeypatch.setitem(flatland_file.METHODS, "flatland-shared", shared)
    settings = {
        "dataset": dataset,
        "data_dir": str(tmp_path),
        "local_epochs": 2,
        "flatland__proximal": 0.0,
        "schedule": "constant",
    }
    flatland = run(tmp_path, "shared", method="flatland-shared", **settings)
    full = run(tmp_path, "whole", method="fedhgcn", fedhgcn__ratio=1.0, **settings)
    half = run(tmp_path, "part", method="fedhgcn", fedhgcn__ratio=0.5, **settings)
    assert full.model.keys() == flatland.model.keys()
    assert all(np.array_equal(array, full.model[name]) for name, array in flatland.model.items())
    expected = [(row["score"], row["loss"]) for row in flatland.clients]
    assert [(row["score"], row["loss"]) for row in full.clients] == expected
    assert [row["loss"] for row in half.clients] != [row["loss"] for row in full.clients]


def test_predictions_of_graphs_see_the_nodes_that_training_saw(tmp_path, capsys):
    """Their accuracies are those of the round that follows, which starts from the same model."""
    write_tu(tmp_path)
    settings = {
        "method": "fedhgcn",
        "dataset": "mutag",
        "data_dir": str(tmp_path),
        "embedding_dim": 32,
    }
    settings |= {"fedhgcn__ratio": 0.4}
    result = run(tmp_path, clients=2, num_rounds=5, **settings)
    printed = []
    for client in range(2):
        assert main(["predict", str(result.path), "mutag", "--client", str(client)]) == 0
        said = capsys.readouterr().err
        printed += [
            line.split(": ")[1]
            for line in said.splitlines()
            if line.startswith("accuracy on the test graphs")
        ]
    longer = run(tmp_path, clients=2, num_rounds=6, resume=True, **settings)
    after = [float(row["score_before"]) for row in longer.clients if row["round"] == "6"]
    assert printed == [f"{score:.4f}" for score in after]
