"""`trees`: hierarchies that differ in curvature and topics, and can be learned."""

from dataclasses import replace

import torch
from graph_fixtures import load_all

from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.dataset import GraphDataset


def test_trees_differ_from_client_to_client_and_not_with_their_number(tmp_path):
    spec = GraphSpec("trees", tmp_path / "absent")
    graphs = load_all(spec, tmp_path / "unused", num_clients=10)
    assert not (tmp_path / "unused").exists()
    curvature = [graph.forman for graph in graphs]
    assert max(curvature) - min(curvature) > 3
    shares = torch.stack(
        [torch.bincount(graph.labels, minlength=6) / len(graph.labels) for graph in graphs]
    )
    assert (shares.amax(dim=0) - shares.amin(dim=0)).max() > 0.4
    assert GraphDataset(spec, tmp_path).client(7, 1000).digest == graphs[7].digest
    assert GraphDataset(replace(spec, seed=1), tmp_path).client(7, 10).digest != graphs[7].digest
    for graph in graphs:
        assert 150 <= len(graph.labels) <= 300
        assert graph.features.layout == torch.sparse_csr
        assert graph.class_names == ("0", "1", "2", "3", "4", "5")
        assert ((graph.train.int() + graph.val.int() + graph.test.int()) == 1).all()
