"""What a client gets of raw files: cleaned, split, partitioned, measured, hashed, stored."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from errors import refuses
from graph_fixtures import (
    PLANTED_MAIN,
    load_all,
    pairs,
    planted,
    user_fields,
    write_minesweeper,
    write_planetoid,
    write_user_graph,
)

from curvfed.tasks.graphs.data.graph_spec import GraphSpec, normalize_rows
from curvfed.tasks.graphs.dataset import GraphDataset

CLIENTS = 4


def rows(graph):
    return [tuple(row) for row in graph.features.to_dense().tolist()]


@pytest.mark.parametrize("partition", ["metis", "random"])
def test_clients_hold_the_largest_component_once(cora_dir, tmp_path, partition):
    truth = planted()
    # no two rows are alike
    number = {tuple(row): node for node, row in enumerate(truth.features.tolist())}
    seen = []
    for graph in load_all(
        GraphSpec("Cora", cora_dir, partition, normalize="none"), tmp_path, CLIENTS
    ):
        nodes = [number[row] for row in rows(graph)]
        seen += nodes
        assert graph.labels.tolist() == truth.labels[nodes].tolist()
        edges = [(nodes[i], nodes[j]) for i, j in pairs(graph)]
        inside = {(i, j) for i, j in truth.edges if {i, j} <= set(nodes)}
        assert set(edges) == inside | {(j, i) for i, j in inside}
        assert pairs(graph) == sorted(set(pairs(graph)))
        assert (graph.class_names, graph.metric) == (("0", "1", "2"), "accuracy")
    assert len(seen) == PLANTED_MAIN
    assert set(seen) == truth.main


def test_one_split_over_all_clients(cora_dir, tmp_path):
    graphs = load_all(GraphSpec("cora", cora_dir, train_size=0.3, test_size=0.5), tmp_path, CLIENTS)
    masks = torch.cat(
        [torch.stack([graph.train, graph.val, graph.test]) for graph in graphs], dim=1
    )
    assert (masks.sum(dim=0) == 1).all()
    assert masks.sum(dim=1).tolist() == [180, 120, 300]
    # Split over the whole, not in every client: the shares of clients differ.
    assert len({int(graph.train.sum()) / len(graph.train) for graph in graphs}) > 1


@pytest.mark.parametrize("norm", ["l2", "l1"])
def test_rows_of_zeros_stay_and_no_scale_is_too_large_or_small(norm):
    largest, smallest = torch.finfo(torch.float32).max, torch.finfo(torch.float32).tiny
    unit = normalize_rows(
        torch.tensor([[0.0, 0.0], [largest, 0.0], [0.0, -smallest], [3e30, 4e30]]), norm
    )
    expected = {"l2": [0.6, 0.8], "l1": [3 / 7, 4 / 7]}[norm]
    assert torch.allclose(
        unit, torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, -1.0], expected]), rtol=1e-6, atol=0
    )


def test_features_are_sparse_where_few_are_not_zero(cora_dir, tmp_path):
    dense = user_fields()["x"]
    sparse = torch.where(torch.arange(dense.numel()).reshape(dense.shape) % 5 == 0, dense, 0.0)
    for x, layout in ((dense, torch.strided), (sparse, torch.sparse_csr)):
        write_user_graph(tmp_path / "own.pt", x=x)
        graph = GraphDataset(GraphSpec("own.pt", tmp_path, normalize="none")).own(
            tmp_path / "own.pt"
        )
        assert graph.features.layout == layout
        assert graph.features.dtype == torch.float32
        assert torch.equal(graph.features.to_dense(), x)


def test_minesweeper_has_its_own_splits_and_roc_auc(minesweeper_dir, tmp_path):
    arrays = np.load(minesweeper_dir / "heterophilous/minesweeper/raw/minesweeper.npz")
    for seed, split in ((0, 0), (13, 3)):
        graph = GraphDataset(GraphSpec("Minesweeper", minesweeper_dir, seed=seed), tmp_path).client(
            0, 1
        )
        for name in ("train", "val", "test"):
            assert getattr(graph, name).tolist() == arrays[f"{name}_masks"][split].tolist()
    assert graph.metric == "roc_auc"
    assert graph.labels.tolist() == arrays["node_labels"].tolist()
    assert graph.edge_index.shape[1] == 2 * len(arrays["edges"])


def test_raw_files_are_found_without_the_collections_folder_and_left_alone(tmp_path):
    write_planetoid(tmp_path / "data", folder=".")
    write_minesweeper(tmp_path / "data", folder=".")
    before = sorted((tmp_path / "data").rglob("*"))
    for dataset in ("cora", "minesweeper"):
        GraphDataset(GraphSpec(dataset, tmp_path / "data"), tmp_path / "cache").client(0, 2)
    assert sorted((tmp_path / "data").rglob("*")) == before


def test_citeseer_with_gaps_in_its_test_index(tmp_path):
    truth = write_planetoid(tmp_path, "CiteSeer", seed=3)
    index = np.loadtxt(tmp_path / "planetoid/CiteSeer/raw/ind.citeseer.test.index", dtype=int)
    assert len(index) < index.max() - index.min() + 1
    graph = GraphDataset(
        GraphSpec("citeseer", tmp_path, normalize="none"), tmp_path / "cache"
    ).client(0, 1)
    assert rows(graph) == [tuple(row) for row in truth.features[sorted(truth.main)].tolist()]
    assert graph.labels.tolist() == truth.labels[sorted(truth.main)].tolist()


# A user's own graph


def own_masks(splits=None):
    role = torch.arange(60) % 4
    masks = {"train_mask": role == 0, "val_mask": role == 1, "test_mask": role == 2}
    if splits:
        masks = {
            name: torch.stack([mask.roll(shift) for shift in range(splits)], 1)
            for name, mask in masks.items()
        }
    return masks


def test_own_graph_stays_whole(tmp_path):
    fields = write_user_graph(tmp_path / "own.pt", class_names=["left", "right", "unseen"])
    spec = GraphSpec("", tmp_path, normalize="none")
    graph = GraphDataset(spec).own(tmp_path / "own.pt")
    assert torch.equal(graph.features.to_dense(), fields["x"])
    assert torch.equal(graph.labels, fields["y"])
    assert int(graph.edge_index.max()) == 56  # 57..59 are isolated, and kept
    given = {(i, j) for i, j in fields["edge_index"].T.tolist() if i != j}
    assert pairs(graph) == sorted(given | {(j, i) for i, j in given})
    assert graph.class_names == ("left", "right", "unseen")
    assert graph.partition_digest == ""
    assert [int(mask.sum()) for mask in (graph.train, graph.val, graph.test)] == [12, 24, 24]
    assert GraphDataset(spec).own(tmp_path / "own.pt").digest == graph.digest
    assert GraphDataset(replace(spec, seed=1)).own(tmp_path / "own.pt").digest != graph.digest


def test_own_masks_are_used(tmp_path):
    write_user_graph(tmp_path / "own.pt", **own_masks())
    graph = GraphDataset(GraphSpec("", tmp_path)).own(tmp_path / "own.pt")
    assert torch.equal(graph.train, own_masks()["train_mask"])
    write_user_graph(tmp_path / "own.pt", **own_masks(splits=3))
    graph = GraphDataset(GraphSpec("", tmp_path, seed=5)).own(tmp_path / "own.pt")
    assert torch.equal(graph.test, own_masks()["test_mask"].roll(2))
    clients = load_all(GraphSpec(str(tmp_path / "own.pt"), tmp_path), tmp_path / "cache", CLIENTS)
    assert sum(int(client.train.sum()) for client in clients) == int(
        own_masks()["train_mask"].sum()
    )


@pytest.mark.parametrize(("partition", "cut"), [("metis", 0), ("random", 50)])
def test_an_own_graph_of_many_components_keeps_every_node(partition, cut, tmp_path, caplog):
    """Fifty rings of twenty nodes, dealt whole; what was done stands in the log of every run."""
    rings = torch.arange(1000)
    edge_index = torch.stack([rings, rings // 20 * 20 + (rings + 1) % 20])
    x = torch.eye(1000)
    write_user_graph(tmp_path / "own.pt", x=x, y=rings % 3, edge_index=edge_index)
    spec = GraphSpec(str(tmp_path / "own.pt"), tmp_path, partition)
    for _ in range(2):  # read from the cache the second time
        caplog.clear()
        with caplog.at_level("INFO", "curvfed"):
            parts = load_all(spec, tmp_path / "cache", 10)
        (notes,) = (line for line in caplog.messages if "own.pt" in line)
        assert "all 1000 nodes, partitioned among 10 clients" in notes
        assert f"connected components cut: {cut} of 50" in notes
    assert sorted(row.index(1) for part in parts for row in rows(part)) == list(range(1000))
    assert [len(part.labels) for part in parts] == [100] * 10
    edges = sum(part.edge_index.shape[1] for part in parts) // 2
    assert edges == 1000 if partition == "metis" else edges < 1000


# What is refused


@pytest.mark.parametrize(("dataset", "nodes"), [("cora", 600), ("minesweeper", 400)])
def test_more_clients_than_nodes(cora_dir, minesweeper_dir, tmp_path, dataset, nodes):
    spec = GraphSpec(dataset, cora_dir if dataset == "cora" else minesweeper_dir)
    with refuses("too-many-clients", nodes + 1, nodes):
        GraphDataset(spec, tmp_path).client(0, nodes + 1)
