"""A data set of another package that cannot be used: the error names it and the fault."""

from importlib.metadata import EntryPoint

import pytest
import torch
from errors import refuses

from curvfed.tasks import plugins
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.data.raw import RawGraph
from curvfed.tasks.graphs.dataset import GraphDataset


def fail(folder):
    raise RuntimeError("no network")


def graph(**changes):
    parts = {
        "features": torch.ones(6, 2),
        "edge_index": torch.tensor([[0, 1], [1, 5]]),
        "labels": torch.arange(6) % 2,
        "class_names": ("a", "b"),
        "metric": "accuracy",
    }
    return lambda folder: RawGraph(**parts | changes)


@pytest.mark.parametrize(
    ("load", "key", "words"),
    [
        (fail, "plugin-data-set", "(RuntimeError: no network)"),
        (graph(features=torch.full((6, 2), float("nan"))), "not-finite", "6 of 6 rows"),
        (graph(edge_index=torch.tensor([[0], [6]])), "node-range", "0..5"),
        (graph(labels=torch.zeros(4, dtype=torch.int64)), "labels", "(6,)"),
    ],
)
def test_an_unfit_data_set_of_a_package(load, key, words, tmp_path, monkeypatch):
    place = f"{__name__}:MINE"
    monkeypatch.setitem(plugins._OBJECTS, place, plugins.DataSet("nodes", load))
    point = EntryPoint("mine", place, "curvfed.datasets")
    monkeypatch.setitem(plugins.registered("datasets"), "mine", [point])
    dataset = GraphDataset(GraphSpec("mine", tmp_path), tmp_path / "cache")
    with refuses(key, 'the data set "mine"', words):
        dataset.client(0, 2)
