"""Folders of OGB: graphs with classes, atoms, a split of their own, and what is refused."""

import numpy as np
import pytest
import torch
from errors import refuses
from format_fixtures import molecule_tables, write_citations, write_molecules, write_tables

from curvfed.tasks.formats import decide
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.data.raw import ATOMS
from curvfed.tasks.graphs.dataset import GraphDataset


def read(path):
    return decide(path).locate().read()


def test_graphs_atoms_and_classes(tmp_path):
    tables = molecule_tables()
    raw = read(write_molecules(tmp_path))
    assert raw.class_names == ("0", "1")
    assert raw.metric == "roc_auc"
    assert raw.labels.tolist() == tables["raw/graph-label"].tolist()
    assert torch.bincount(raw.graph_of_node).tolist() == tables["raw/num-node-list"].tolist()
    assert raw.edge_index.shape[1] == 2 * len(tables["raw/edge"])
    assert raw.num_codes == sum(ATOMS) == 174
    assert raw.codes[:, 0].tolist() == tables["raw/node-feat"][:, 0].tolist()
    assert (raw.codes[:, 1:] == torch.tensor(ATOMS[:-1]).cumsum(0)).all()
    assert raw.notes == ("not used: edge-feat.csv.gz",)


def test_the_split_is_the_files(tmp_path):
    tables = molecule_tables()
    path = write_molecules(tmp_path)
    for seed in (0, 1):
        client = GraphDataset(GraphSpec(str(path), tmp_path, seed=seed)).own(path)
        for mask, split in ((client.train, "train"), (client.val, "valid"), (client.test, "test")):
            members = np.flatnonzero(mask.numpy()).tolist()
            assert members == sorted(tables[f"split/scaffold/{split}"].tolist())
    spec = GraphSpec(str(path), tmp_path)
    clients = [GraphDataset(spec, tmp_path / "cache").client(number, 3) for number in range(3)]
    assert sum(int(client.test.sum()) for client in clients) == 21


def test_nodes_keep_their_split_and_all_nodes(tmp_path):
    path = write_citations(tmp_path)
    client = GraphDataset(GraphSpec(str(path), tmp_path)).own(path)
    assert [int(mask.sum()) for mask in (client.train, client.val, client.test)] == [340, 120, 180]


def test_real_numbers_are_attributes_and_a_missing_label_is_unknown(tmp_path):
    tables = molecule_tables()
    path = write_molecules(tmp_path)
    write_tables(path, {"raw/node-feat": tables["raw/node-feat"][:, :2] + 0.5})
    labels = ["nan", *tables["raw/graph-label"][1:].tolist()]
    write_tables(path, {"raw/graph-label": np.array(labels, dtype=object)})
    raw = read(path)
    assert raw.attributes.shape == (len(tables["raw/node-feat"]), 2)
    assert raw.labels[0] == -1
    assert not raw.split.masks[0 if 0 in tables["split/scaffold/train"] else 2, 0].any()


REFUSED = {
    "labels": ("raw/graph-label", np.zeros((96, 3)), "graph-label.csv.gz", "(96, 3)"),
    "unequal-lengths": ("raw/num-node-list", [4] * 95, "95 numbers of nodes", "96 labels"),
    "num-nodes": ("raw/num-node-list", [0] * 96, "must have a node"),
    "node-range": ("split/scaffold/test", [96], "test.csv.gz", "0..95"),
    "table-shape": ("raw/node-feat", np.zeros((7, 9)), "node-feat.csv.gz", "7 rows"),
    "not-finite": ("raw/node-feat", [[0.5, np.inf]] * 480, "node-feat.csv.gz", "infinite"),
    "split-overlap": ("split/scaffold/valid", range(96), "train_mask"),
}


@pytest.mark.parametrize("key", REFUSED)
def test_what_is_refused(tmp_path, key):
    name, table, *fragments = REFUSED[key]
    path = write_molecules(tmp_path)
    write_tables(path, {name: table})
    with refuses(key, "ogbg_molhiv", *fragments):
        read(path)


def test_an_edge_into_another_graph(tmp_path):
    path = write_molecules(tmp_path)
    edges = np.array(molecule_tables()["raw/edge"])
    edges[0] = 0, 4
    write_tables(path, {"raw/edge": edges})
    with refuses("node-range", "edge.csv.gz", "outside their graph"):
        read(path)
