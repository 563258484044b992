"""Graphs of PyTorch Geometric: unknown classes, two masks, collated, several kinds of nodes."""

import pytest
import torch
from errors import refuses
from graph_fixtures import load_all, user_fields, user_graphs
from torch_geometric.data import HeteroData, InMemoryDataset
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.data.user_file import check_graphs, read_user_file
from curvfed.tasks.graphs.dataset import GraphDataset
from curvfed.tasks.graphs.inputs import GraphInputs

NODES = 60
UNKNOWN = torch.arange(NODES) % 3 == 0


@pytest.mark.parametrize("kind", ["-1", "NaN"])
@pytest.mark.parametrize("has_masks", [True, False])
def test_unknown_nodes_keep_their_edges_and_are_in_no_part(tmp_path, kind, has_masks):
    fields = user_fields()
    known = fields["y"].clone()
    fields["y"] = (
        known.float().masked_fill(UNKNOWN, torch.nan)
        if kind == "NaN"
        else known.masked_fill(UNKNOWN, -1)
    )
    if has_masks:
        train = torch.arange(NODES) < 30
        fields |= {
            "train_mask": train,
            "val_mask": torch.zeros(NODES, dtype=torch.bool),
            "test_mask": ~train,
        }
    torch.save(fields, tmp_path / "own.pt")
    made = GraphDataset(GraphSpec("", tmp_path)).own(tmp_path / "own.pt")
    torch.save(fields | {"y": known}, tmp_path / "whole.pt")
    assert torch.equal(
        made.edge_index, GraphDataset(GraphSpec("", tmp_path)).own(tmp_path / "whole.pt").edge_index
    )
    assert torch.equal(made.train | made.val | made.test, ~UNKNOWN)
    assert torch.equal(made.labels, known.masked_fill(UNKNOWN, -1))
    assert made.statistics()["class_counts"] == tuple(
        known[~UNKNOWN].bincount(minlength=2).tolist()
    )
    clients = load_all(GraphSpec(str(tmp_path / "own.pt"), tmp_path), tmp_path / "cache", 3)
    numbers = torch.cat([client.numbers for client in clients if client.numbers is not None])
    assert sorted(numbers.tolist()) == list(range(NODES))
    for client in clients:
        assert client.numbers is not None
        assert torch.equal(client.labels, made.labels[client.numbers])
        assert torch.equal(client.train, made.train[client.numbers])


@pytest.mark.parametrize("kind", ["nodes", "graphs"])
def test_classes_of_plus_and_minus_one_are_reported(tmp_path, kind):
    signs = 2 * (torch.arange(NODES) % 2) - 1
    stored = user_fields() | {"y": signs}
    if kind == "graphs":
        stored = [graph | {"y": signs[number]} for number, graph in enumerate(user_graphs())]
    torch.save(stored, tmp_path / "own.pt")
    made = GraphDataset(GraphSpec("", tmp_path)).own(tmp_path / "own.pt")
    hint = "The label -1 means an unknown class: write 0 in its place if it is a class"
    assert made.history.count(hint) == 1


def test_a_validation_part_is_drawn_by_the_seed_and_reported(tmp_path, caplog):
    train = torch.arange(NODES) < 30
    torch.save(user_fields() | {"train_mask": train, "test_mask": ~train}, tmp_path / "own.pt")
    drawn = []
    for seed in (0, 0, 1):
        made = GraphDataset(GraphSpec("", tmp_path, seed=seed)).own(tmp_path / "own.pt")
        drawn.append(made.val)
        assert int(made.val.sum()) == 6
        assert torch.equal(made.train | made.val, train)
        assert torch.equal(made.test, ~train)
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    with caplog.at_level("INFO", "curvfed"):
        GraphDataset(GraphSpec(str(tmp_path / "own.pt"), tmp_path), tmp_path / "cache").client(0, 2)
    assert "no val_mask, so 6 of the training nodes are drawn for validation" in caplog.text
    train = torch.arange(NODES) < 5
    torch.save(user_fields() | {"train_mask": train, "test_mask": ~train}, tmp_path / "own.pt")
    made = GraphDataset(GraphSpec("", tmp_path)).own(tmp_path / "own.pt")
    assert "so 1 of the training nodes is drawn for validation" in made.history


def test_no_known_class_is_refused_in_training_alone(tmp_path):
    torch.save(user_fields() | {"y": torch.full((NODES,), -1)}, tmp_path / "own.pt")
    with refuses("no-labels"):
        read_user_file(tmp_path / "own.pt")
    read = read_user_file(tmp_path / "own.pt", ("left", "right"))
    assert (read.class_names, set(read.labels.tolist())) == (("left", "right"), {-1})


@pytest.mark.parametrize("collated", [True, False])
def test_several_kinds_of_nodes_are_refused(tmp_path, collated):
    graph = HeteroData()
    graph["paper"].x = graph["author"].x = torch.ones(2, 2)
    graph["author", "writes", "paper"].edge_index = torch.tensor([[0], [1]])
    if collated:
        InMemoryDataset.save([graph, graph], tmp_path / "own.pt")
    else:
        torch.save(graph, tmp_path / "own.pt")
    with refuses("several-kinds", "HeteroData"):
        read_user_file(tmp_path / "own.pt")


@pytest.mark.parametrize("name", ["edge_weight", "edge_attr"])
def test_edge_weights_are_normalised_as_by_pytorch_geometric(tmp_path, name):
    fields = user_fields()
    low, high = fields["edge_index"].unique(dim=1)
    edges = torch.stack([low, high])[:, low < high].unique(dim=1)
    weights = torch.rand(edges.shape[1], generator=torch.Generator().manual_seed(0)) + 0.1
    given = weights.unsqueeze(1) if name == "edge_attr" else weights
    torch.save(fields | {"edge_index": edges, name: given}, tmp_path / "own.pt")
    made = GraphDataset(GraphSpec("", tmp_path)).own(tmp_path / "own.pt")
    both, doubled = torch.cat([edges, edges.flip(0)], dim=1), torch.cat([weights, weights])
    places, entries = gcn_norm(both, doubled, NODES)
    expected = torch.zeros(NODES, NODES).index_put((places[0], places[1]), entries)
    result = GraphInputs.of(made, torch.device("cpu")).adjacency.matrix.to_dense()
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-7)
    for client in load_all(GraphSpec(str(tmp_path / "own.pt"), tmp_path), tmp_path / "cache", 3):
        assert client.numbers is not None
        assert "networks gcn, gated, mean, lorentz, split use" in client.history
        assert client.edge_weights is not None
        dense = torch.zeros(NODES, NODES).index_put((both[0], both[1]), doubled)
        assert torch.equal(client.edge_weights, dense[tuple(client.numbers[client.edge_index])])


def test_an_edge_given_twice_has_the_mean_weight_and_a_negative_one_is_refused(tmp_path):
    edges = torch.tensor([[0, 1, 2], [1, 0, 1]])
    fields = user_fields() | {"edge_index": edges, "edge_weight": torch.tensor([1.0, 3.0, 5.0])}
    torch.save(fields, tmp_path / "own.pt")
    made = GraphDataset(GraphSpec("", tmp_path)).own(tmp_path / "own.pt")
    assert made.edge_weights is not None
    assert dict(
        zip(map(tuple, made.edge_index.t().tolist()), made.edge_weights.tolist(), strict=True)
    ) == {(0, 1): 2.0, (1, 0): 2.0, (1, 2): 5.0, (2, 1): 5.0}
    torch.save(fields | {"edge_weight": torch.tensor([1.0, -3.0, 5.0])}, tmp_path / "own.pt")
    with refuses("edge-weights", "edge_weight", "1", "3"):
        read_user_file(tmp_path / "own.pt")


@pytest.mark.parametrize(
    "y", [-1, float("nan"), torch.tensor(-1), torch.tensor([float("nan")]), None]
)
def test_graphs_of_unknown_class_are_predicted_however_it_is_written(y):
    graph = {"x": torch.ones(2, 3), "edge_index": torch.tensor([[0], [1]]), "y": y}
    result = check_graphs("here", [graph, graph], ("a", "b"))
    assert (result.labels.tolist(), result.class_names) == ([-1, -1], ("a", "b"))
    with pytest.raises(DataError):
        check_graphs("here", [graph, graph])
