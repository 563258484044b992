"""What the readers make of raw files, against what was written and PyTorch Geometric."""

import warnings

import numpy as np
import pytest
import torch
from graph_fixtures import PLANTED_NODES, planted, write_amazon, write_heterophilous

from curvfed.extensions.public_data.rows import NODES as SOURCES
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.data.partition import clean_edges
from curvfed.tasks.graphs.dataset import GraphDataset

HETEROPHILOUS = [
    ("roman-empire", "roman_empire", 3, "accuracy"),
    ("amazon-ratings", "amazon_ratings", 3, "accuracy"),
    ("minesweeper", "minesweeper", 2, "roc_auc"),
    ("tolokers", "tolokers", 2, "roc_auc"),
    ("questions", "questions", 2, "roc_auc"),
]
MASKS = ("train_mask", "val_mask", "test_mask")


def both_ways(edge_index):
    """Neighbouring pairs in order: direction, doubles and self-loops do not count."""
    return clean_edges(np.asarray(edge_index), PLANTED_NODES).T.tolist()


def known_pairs():
    return sorted([i, j] for edge in planted().edges for i, j in (edge, edge[::-1]))


def by_geometric(make):
    """The only graph of a PyTorch Geometric data set, without its warnings and a network."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()[0]


@pytest.mark.parametrize(("dataset", "folder", "num_classes", "metric"), HETEROPHILOUS)
def test_heterophilous(tmp_path, dataset, folder, num_classes, metric):
    from torch_geometric.datasets import HeterophilousGraphDataset

    arrays = write_heterophilous(tmp_path, folder, num_classes)
    graph = GraphDataset(GraphSpec(dataset, tmp_path)).locate().read()
    assert torch.equal(graph.features, torch.from_numpy(arrays["node_features"]))
    assert torch.equal(graph.labels, torch.from_numpy(arrays["node_labels"]))
    assert graph.edge_index.T.tolist() == arrays["edges"].tolist()
    for mask, name in zip(
        graph.split.masks, ("train_masks", "val_masks", "test_masks"), strict=True
    ):
        assert mask.T.tolist() == arrays[name].tolist()
    assert (graph.class_names, graph.metric) == (tuple(map(str, range(num_classes))), metric)

    theirs = by_geometric(
        lambda: HeterophilousGraphDataset(str(tmp_path / "heterophilous"), SOURCES[dataset].title)
    )
    assert torch.equal(graph.features, theirs.x)
    assert torch.equal(graph.labels, theirs.y)
    assert both_ways(graph.edge_index) == both_ways(theirs.edge_index) == known_pairs()
    for mask, name in zip(graph.split.masks, MASKS, strict=True):
        assert torch.equal(mask, theirs[name])


@pytest.mark.parametrize("name", ["Photo", "Computers"])
def test_amazon(tmp_path, name):
    from torch_geometric.datasets import Amazon

    truth, arrays = write_amazon(tmp_path, name)
    assert arrays["attr_data"].max() > 1  # the file has counts, the graph has ones
    graph = GraphDataset(GraphSpec(f"amazon-{name.lower()}", tmp_path)).locate().read()
    assert graph.features.tolist() == truth.features.tolist()
    assert graph.labels.tolist() == truth.labels.tolist()
    assert (graph.class_names, graph.metric, graph.split) == (("0", "1", "2"), "accuracy", None)

    theirs = by_geometric(lambda: Amazon(str(tmp_path / "amazon"), name))
    assert torch.equal(graph.features, theirs.x)
    assert torch.equal(graph.labels, theirs.y)
    assert both_ways(graph.edge_index) == theirs.edge_index.T.tolist() == known_pairs()
