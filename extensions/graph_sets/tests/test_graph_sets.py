"""Graph classification: named, dealt out, split, standardised, stored; and own graphs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from errors import refuses
from graph_fixtures import (
    TUGraph,
    load_all,
    pairs,
    tu_graphs,
    user_fields,
    user_graphs,
    write_tu,
)
from torch_geometric.data import Data, InMemoryDataset

from curvfed.extensions.graph_sets.rows import GROUPS
from curvfed.extensions.graph_sets.tu_files import read_tu
from curvfed.tasks.graphs.data.clients import partition_graphs, standardize
from curvfed.tasks.graphs.data.graph_spec import GraphSpec
from curvfed.tasks.graphs.data.raw import MAX_DEGREE
from curvfed.tasks.graphs.data.user_file import check_graphs, read_user_file
from curvfed.tasks.graphs.dataset import GraphDataset
from curvfed.tasks.registry import graph_sets

GRAPHS = 24
CLIENTS = 5


@pytest.fixture(scope="module")
def mutag_dir(tmp_path_factory):
    """A data folder with `tu_graphs()` in the place of MUTAG. Read only."""
    root = tmp_path_factory.mktemp("data-mutag")
    write_tu(root, "MUTAG")
    return root


def truth_of(client, graphs):
    """Places of the client's graphs in `graphs`, by the first attribute of their nodes."""
    number = {row[0]: place for place, graph in enumerate(graphs) for row in graph.attributes}
    first = client.features.to_dense()[:, 0].tolist()
    owner = client.graph_of_node.tolist()
    return [
        {number[value] for value, own in zip(first, owner, strict=True) if own == graph}
        for graph in range(len(client.labels))
    ]


# Names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("mutag", ("MUTAG",)),
        ("proteins, dd", ("PROTEINS", "DD")),
        ("tox21_ar-lbd_testing", ("Tox21_AR-LBD_testing",)),
        ("chem", ("MUTAG", "BZR", "COX2", "DHFR", "PTC_MR", "AIDS", "NCI1")),
        ("CHEM,enzymes", (*GROUPS["CHEM"], "ENZYMES")),
        ("bio-chem-sn", (*GROUPS["CHEM"], *GROUPS["BIO"], "COLLAB", "IMDB-BINARY", "IMDB-MULTI")),
        ("/data/toxins", None),
        ("./a,b", None),
    ],
)
def test_sets_by_name(text, names):
    assert graph_sets(text) == names


# Clients of one data set


def test_every_graph_is_dealt_once_and_whole(tmp_path):
    graphs = write_tu(tmp_path, "AIDS", node_labels=False, folder=".")
    raw = read_tu(tmp_path / "AIDS/raw", "AIDS")
    # As if the attributes were no measurements: the first tells a node's graph.
    spec = GraphSpec("aids", tmp_path, normalize="none")
    clients = list(partition_graphs(replace(raw, measured=False), spec, CLIENTS, "digest"))
    numbers = [truth_of(client, graphs) for client in clients]
    seen = [number for client in numbers for held in client for number in held]
    assert all(len(held) == 1 for client in numbers for held in client)
    assert sorted(seen) == list(range(GRAPHS))
    assert sorted(len(client.labels) for client in clients) == [4, 5, 5, 5, 5]
    for client, own in zip(clients, numbers, strict=True):
        assert client.numbers.tolist() == [number for (number,) in own]
        start, edges = 0, []
        for label, (number,) in zip(client.labels.tolist(), own, strict=True):
            graph = graphs[number]
            assert client.class_names[label] == str(graph.label)
            rows = client.features.to_dense()[start : start + len(graph.node_labels)]
            assert torch.equal(rows, torch.tensor(graph.attributes))
            edges += [(start + a, start + b) for i, j in graph.edges for a, b in ((i, j), (j, i))]
            start += len(rows)
        assert start == len(client.features) == len(client.graph_of_node)
        assert pairs(client) == sorted(edges)
        assert client.graph_of_node.tolist() == sorted(client.graph_of_node.tolist())
        assert (client.metric, client.task, client.space) == ("accuracy", "graphs", "")
        assert client.class_names == ("-1", "2", "10")


def test_seed_decides_and_partition_and_folder_do_not(mutag_dir, tmp_path):
    spec = GraphSpec("mutag", mutag_dir)
    first = load_all(spec, tmp_path / "a", CLIENTS)
    assert len({client.digest for client in first}) == CLIENTS
    assert len({client.partition_digest for client in first}) == 1
    write_tu(tmp_path, "MUTAG", folder=".")
    again = load_all(GraphSpec("Mutag", tmp_path, partition="random"), tmp_path / "b", CLIENTS)
    assert [client.digest for client in again] == [client.digest for client in first]
    assert again[0].partition_digest == first[0].partition_digest
    other = load_all(replace(spec, seed=1), tmp_path / "a", CLIENTS)
    assert {client.digest for client in other}.isdisjoint(client.digest for client in first)
    assert other[0].partition_digest != first[0].partition_digest
    assert GraphDataset(spec, tmp_path).client(0, 4).partition_digest != first[0].partition_digest
    whole = [GraphDataset(replace(spec, seed=seed), tmp_path).client(0, 1) for seed in (0, 1)]
    assert torch.equal(whole[0].labels, whole[1].labels)
    assert not torch.equal(whole[0].train, whole[1].train)


# Clients of several data sets


def test_a_client_holds_one_of_the_data_sets(tmp_path):
    sizes = {"MUTAG": 24, "BZR": 9, "DD": 6}
    for seed, (name, size) in enumerate(sizes.items()):
        write_tu(tmp_path, name, tu_graphs(size, seed), attributes=name != "DD")
    clients = load_all(GraphSpec("mutag,BZR,dd", tmp_path), tmp_path / "cache", 6)
    assert [client.space for client in clients] == ["MUTAG", "BZR", "DD"] * 2
    assert [len(client.labels) for client in clients] == [12, 5, 3, 12, 4, 3]
    assert [client.features.shape[1] for client in clients] == [9, 9, 6] * 2
    assert len({client.digest for client in clients}) == 6
    assert len({client.partition_digest for client in clients}) == 1
    # As alone, but for what says that it is not alone.
    alone = GraphDataset(GraphSpec("bzr", tmp_path), tmp_path / "cache").client(1, 2)
    assert (alone.digest, alone.space) == (clients[4].digest, "")
    assert alone.partition_digest != clients[4].partition_digest
    # No client needs the data of others: those of ENZYMES are not there.
    lone = GraphDataset(GraphSpec("enzymes,mutag", tmp_path), tmp_path / "cache").client(1, 2)
    assert (lone.space, len(lone.labels)) == ("MUTAG", GRAPHS)


# Features


def standardized_by_hand(rows, known):
    mean, spread = rows[known].mean(axis=0), rows[known].std(axis=0)
    constant = np.ptp(rows[known], axis=0) == 0
    return np.where(constant, 0, (rows - mean) / np.where(constant, 1, spread))


@pytest.mark.parametrize("train_size", [0.5, 0.0])
def test_attributes_are_standardised_by_the_clients_training_graphs(tmp_path, train_size):
    graphs = write_tu(tmp_path, "BZR")
    rows = np.array([row for graph in graphs for row in graph.attributes])
    spec = GraphSpec("bzr", tmp_path, train_size=train_size, normalize="none")
    raw = read_tu(tmp_path / "tu/BZR/raw", "BZR")
    plain = list(partition_graphs(replace(raw, measured=False), spec, CLIENTS, ""))
    for client, unscaled in zip(load_all(spec, tmp_path / "cache", CLIENTS), plain, strict=True):
        own = rows[unscaled.features.to_dense()[:, 0].long()]
        train = client.train.numpy()
        assert train.any() == (train_size > 0)
        known = (
            train[client.graph_of_node.numpy()] if train.any() else np.ones(len(own), dtype=bool)
        )
        expected = standardized_by_hand(own.astype(np.float32).astype(np.float64), known)
        result = client.features.to_dense()
        assert np.allclose(result[:, :3], expected, rtol=2e-7, atol=1e-12)
        assert (result[:, 1] == 0).all()
        assert torch.equal(result[:, 3:], unscaled.features.to_dense()[:, 3:])


@pytest.mark.parametrize(
    ("column", "known", "expected"),
    [
        ([0.1] * 7, [True] * 7, [0.0] * 7),  # the mean of 0.1s in float64 is not 0.1 in float32
        ([1.0, 1.0, 5.0], [True, True, False], [0.0] * 3),
        ([1.0, 3.0, 5.0], [True, True, False], [-1.0, 1.0, 3.0]),
        ([4.0], [True], [0.0]),
        ([3e38, -3e38], [True, True], [1.0, -1.0]),
        ([0.0, 1e-45, 3e38], [True, True, False], [-1.0, 1.0, torch.finfo(torch.float32).max]),
    ],
)
def test_columns_that_are_hard_to_standardise(column, known, expected):
    result = standardize(torch.tensor(column).unsqueeze(1), torch.tensor(known))
    assert result.dtype == torch.float32
    assert torch.allclose(result.squeeze(1), torch.tensor(expected), rtol=1e-6, atol=0)


def test_one_hot_columns_are_sparse_where_they_are_many(tmp_path):
    star = TUGraph(0, [[0.0]] * 9, [0] * 9, frozenset((0, node) for node in range(1, 9)))
    write_tu(tmp_path, "COLLAB", [star, *tu_graphs(5)], attributes=False, node_labels=False)
    write_tu(tmp_path, "DD", [star, star], attributes=False)
    wide, narrow = (
        GraphDataset(GraphSpec(name, tmp_path), tmp_path / "cache").client(0, 1).features
        for name in ("collab", "dd")
    )
    degrees = [8, *[1] * 8] + [
        sum(n in e for e in g.edges) for g in tu_graphs(5) for n in range(len(g.node_labels))
    ]
    assert wide.layout == torch.sparse_csr  # 9 columns, one in a row
    assert torch.equal(wide.to_dense(), torch.eye(9)[degrees])
    assert narrow.layout == torch.strided  # one column, which is one everywhere
    assert torch.equal(narrow, torch.ones(18, 1))


# A user's own


def as_data(graphs):
    from torch_geometric.data import Data

    return [Data(**graph) for graph in graphs]


@pytest.mark.parametrize("kind", ["dicts", "data", "tuple", "y (1,)", "y int"])
def test_own_graphs_stay_whole(tmp_path, kind):
    graphs, path = user_graphs(), tmp_path / "own.pt"
    changed = {
        "data": as_data(graphs),
        "tuple": tuple(graphs),
        "y (1,)": [graph | {"y": graph["y"].reshape(1)} for graph in graphs],
        "y int": [graph | {"y": int(graph["y"])} for graph in graphs],
    }
    torch.save(changed.get(kind, graphs), path)
    client = GraphDataset(GraphSpec("", tmp_path, normalize="none")).own(path)
    truth = tu_graphs(len(graphs))
    assert truth_of(client, truth) == [{number} for number in range(len(graphs))]
    assert torch.equal(client.features.to_dense(), torch.cat([graph["x"] for graph in graphs]))
    starts = np.cumsum([0, *(len(graph.node_labels) for graph in truth)])
    edges = [
        (s + a, s + b)
        for s, g in zip(starts, truth, strict=False)
        for i, j in g.edges
        for a, b in ((i, j), (j, i))
    ]
    assert pairs(client) == sorted(edges)
    assert client.labels.tolist() == [number % 3 for number in range(12)]
    assert (client.class_names, client.partition_digest, client.space) == (("0", "1", "2"), "", "")
    assert [int(mask.sum()) for mask in (client.train, client.val, client.test)] == [2, 5, 5]


def test_own_graphs_are_dealt_in_a_simulation(tmp_path):
    torch.save(user_graphs(), tmp_path / "own.pt")
    clients = load_all(GraphSpec("own.pt", tmp_path), tmp_path / "cache", 5)
    assert sorted(len(client.labels) for client in clients) == [2, 2, 2, 3, 3]
    counts = torch.stack([client.labels.bincount(minlength=3) for client in clients])
    assert counts.sum(dim=0).tolist() == [4, 4, 4]


def test_own_graphs_without_features_get_degrees(tmp_path):
    graphs = [{name: graph[name] for name in ("edge_index", "y")} for graph in user_graphs()]
    graphs = [
        graph | {"num_nodes": len(truth.node_labels)}
        for graph, truth in zip(graphs, tu_graphs(12), strict=True)
    ]
    torch.save(as_data(graphs), tmp_path / "own.pt")
    raw = read_user_file(tmp_path / "own.pt")
    degrees = [
        sum(node in edge for edge in graph.edges)
        for graph in tu_graphs(12)
        for node in range(len(graph.node_labels))
    ]
    assert raw.codes.flatten().tolist() == degrees
    # One width for all files: clients with other graphs, and new graphs, must fit the same model.
    assert (raw.num_codes, raw.attributes.shape[1]) == (MAX_DEGREE + 1, 0)
    # Without num_nodes a graph ends at the last node that has an edge.
    torch.save([{"edge_index": torch.tensor([[0, 3], [3, 1]]), "y": 0}], tmp_path / "own.pt")
    assert read_user_file(tmp_path / "own.pt").codes.flatten().tolist() == [1, 1, 0, 2]


def one_changed(**changes):
    """The graphs with the one of place 4 changed; a change to None leaves the field out."""
    graphs: list[dict[str, object]] = user_graphs()
    graphs[4] = {name: value for name, value in (graphs[4] | changes).items() if value is not None}
    return graphs


def without_x(**changes):
    sizes = [
        None if number == 4 else len(graph.node_labels)
        for number, graph in enumerate(tu_graphs(12))
    ]
    graphs = [graph | {"num_nodes": size} for graph, size in zip(user_graphs(), sizes, strict=True)]
    graphs[4] |= changes
    return [{name: value for name, value in graph.items() if name != "x"} for graph in graphs]


UNFIT = {
    "none": ([], ("no-graphs", "own.pt")),
    "nodes with classes": (
        [user_fields(), user_fields()],
        ("labels", "own.pt", "0", "int64", "(60,)"),
    ),
    "None in the place of one": (
        [*user_graphs(), None],
        ("empty-graphs", "own.pt", "1 of 13", "graph 12", "graph is not None"),
    ),
    "no nodes in one": (
        one_changed(x=torch.ones(0, 3), edge_index=torch.zeros(2, 0).long()),
        ("empty-graphs", "own.pt", "1 of 12", "graph 4", "num_nodes"),
    ),
    "x absent in one": (one_changed(x=None), ("graphs-differ", "1", "12")),
    "x of another width": (one_changed(x=torch.ones(9, 2)), ("graphs-differ",)),
    "x NaN": (one_changed(x=torch.full((9, 3), torch.nan)), ("not-finite", "own.pt", "4", "9")),
    "edges absent in all": (
        [{"x": graph["x"], "y": graph["y"]} for graph in user_graphs()],
        ("edge-index", "own.pt", "0", "edge_index"),
    ),
    "edge to another graph": (
        one_changed(x=torch.ones(2, 3), edge_index=torch.tensor([[0], [2]])),
        ("node-range", "own.pt", "4", "1", "edge_index", "0..1"),
    ),
    "y absent": (one_changed(y=None), ("labels", "own.pt", "4")),
    "y negative": (one_changed(y=-2), ("label-range", "own.pt", "4", "-1")),
    "names differ": (one_changed(class_names=["a", "b", "c"]), ("graphs-differ", "class_names")),
    "no nodes": (
        without_x(edge_index=torch.zeros(2, 0).long()),
        ("num-nodes", "own.pt", "4", "num_nodes", "1..100000000"),
    ),
    "edge without end": (
        without_x(edge_index=torch.tensor([[0], [10**15]])),
        ("num-nodes", "own.pt", "4"),
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_unfit_lists_of_graphs(tmp_path, case):
    graphs, facts = UNFIT[case]
    torch.save(graphs, tmp_path / "own.pt")
    for load in (
        lambda: read_user_file(tmp_path / "own.pt"),
        lambda: GraphDataset(GraphSpec("own.pt", tmp_path), tmp_path / "cache").client(0, 2),
    ):
        with refuses(*facts, tmp_path):
            load()


@pytest.mark.parametrize("edges", [{}, {"edge_index": None}, {"edge_index": torch.tensor([])}])
def test_a_graph_without_edges(edges):
    graphs = user_graphs()
    graphs[4] = {"x": torch.ones(1, 3), "y": 1, **edges}
    raw = check_graphs("here", graphs)
    assert (raw.graph_of_node == 4).sum() == 1
    node = int((raw.graph_of_node == 4).nonzero())
    assert not (raw.edge_index == node).any()
    # One number per node is a feature.
    flat, columns = (
        check_graphs("here", [graph | {"x": graph["x"][:, chosen]} for graph in graphs])
        for chosen in (0, slice(1))
    )
    assert torch.equal(flat.attributes, columns.attributes)


@pytest.mark.parametrize("collated", [False, True])
def test_positions_tell_the_number_of_nodes(tmp_path, collated):
    sizes = [len(graph.node_labels) for graph in tu_graphs(12)]
    graphs = [
        Data(pos=torch.ones(size, 3), edge_index=graph["edge_index"], y=torch.tensor([graph["y"]]))
        for size, graph in zip(sizes, user_graphs(), strict=True)
    ]
    sizes[4] = 1
    graphs[4] = Data(pos=torch.ones(1, 3), y=torch.tensor([1]))
    if collated:
        graphs[4].edge_index = torch.zeros(2, 0).long()
    torch.save(InMemoryDataset.collate(graphs) if collated else graphs, tmp_path / "own.pt")
    raw = read_user_file(tmp_path / "own.pt")
    assert raw.graph_of_node.bincount().tolist() == sizes
    assert raw.attributes.shape[1] == 0
    assert collated or raw.notes == ("not used: pos",)


@pytest.mark.parametrize(
    ("dataset", "clients", "sets"), [("MUTAG,BZR", 3, 2), ("chem", 10, 7), ("BIO-CHEM-SN", 1, 13)]
)
def test_clients_must_be_a_multiple_of_the_data_sets(tmp_path, dataset, clients, sets):
    with refuses("uneven-clients", clients, sets, "MUTAG"):
        GraphDataset(GraphSpec(dataset, tmp_path), tmp_path).client(0, clients)


def test_more_clients_than_graphs_in_one_of_several(tmp_path):
    write_tu(tmp_path, "DD", tu_graphs(2))
    with refuses("too-many-clients", "3", "2", "DD"):
        GraphDataset(GraphSpec("MUTAG,DD", tmp_path), tmp_path / "cache").client(1, 6)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("trees,CHEM", ("unknown-data-set", '"trees"', "CHEM")),
        ("MUTAG,BZR,mutag", ("doubled-data-set", "MUTAG")),
        ("MUTAG,", ("unknown-data-set",)),
        ("MUTAG,PROTIENS", ("unknown-data-set", '"PROTIENS"', '"PROTEINS"')),
    ],
)
def test_unfit_lists(text, facts):
    with refuses(*facts, f'"{text}"'):
        graph_sets(text)
