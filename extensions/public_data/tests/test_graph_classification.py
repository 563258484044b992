"""Runs on many small graphs: what is shared, data that differ between clients, and refusals."""

import logging
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from app_runs import Recorder, Run, array_names, parameters_in, real_nodes, run, untimed
from graph_fixtures import tu_graphs, user_fields, user_graphs, write_tu
from method_page import check_parameters
from tiers import only

pytestmark = pytest.mark.usefixtures("own_home")

SETS = "MUTAG,BZR,PROTEINS"
SPACES = {  # features, classes
    "MUTAG": (9, ["-1", "2", "10"]),
    "BZR": (6, ["0", "1"]),
    "PROTEINS": (6, ["7"]),
}
ENDS = ("input.", "head.")
CASES = only(
    [
        *("flatland", "flatland-constant", "flatland-shared", "local", "local-lorentz", "fedavg"),
        *("fedprox", "fedper", "fedavg-bias"),
    ],
    {"flatland", "fedper"}.__contains__,
)


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """A data folder with the three data sets of `SPACES`: attributes and labels, labels alone,
    neither. Read only."""
    root = tmp_path_factory.mktemp("data-sets")
    write_tu(root, "MUTAG")
    bzr = [replace(graph, label=number % 2) for number, graph in enumerate(tu_graphs(16, seed=1))]
    write_tu(root, "BZR", bzr, attributes=False)
    write_tu(
        root, "PROTEINS", [replace(graph, label=7) for graph in tu_graphs(12, seed=2)], False, False
    )
    return root


def measured(result: Run) -> list[dict[str, str]]:
    return [untimed(row) for row in result.clients]


def on_the_wire(recorder: Recorder) -> list[set[str]]:
    return [
        array_names(content)
        for content in [*recorder.requests("train"), *recorder.replies("train")]
    ]


@pytest.mark.parametrize("method", CASES)
def test_where_data_sets_differ_only_layers_are_shared(method, sets, tmp_path):
    """Of what the method shares where all clients have one data set."""
    settings = {"method": method, "data_dir": str(sets)}
    of_one = Recorder()
    one = run(tmp_path, "one", dataset="mutag", intercept=of_one, **settings)
    check_parameters(method, one, of_one)
    facts = one.described["facts"]
    assert (facts["num_features"], facts["own_ends"]) == (9, False)
    assert facts["class_names"] == ["-1", "2", "10"]
    assert [about["statistics"]["num_graphs"] for about in one.described["clients"]] == [8, 8, 8]
    assert one.summary["metrics"]["heterogeneity"] >= 0

    recorder = Recorder()
    result = run(tmp_path, dataset=SETS, intercept=recorder, **settings)
    assert result.summary["status"] == "completed"
    assert result.summary["metrics"]["replies_dropped"] == 0
    facts = result.described["facts"]
    assert (facts["num_features"], facts["own_ends"], facts["class_names"]) == (0, True, [])
    layers = {name for name in one.model if not name.startswith(ENDS)}
    assert on_the_wire(recorder) == [layers] * 12
    assert result.model.keys() == layers
    assert all(math.isfinite(float(row["loss"])) for row in result.clients)
    all_names = one.model.keys() | parameters_in(one.personal(0)).keys()
    for about, (space, (features, classes)) in zip(
        result.described["clients"], SPACES.items(), strict=True
    ):
        kept = parameters_in(result.personal(about["partition"]))
        assert kept.keys() == all_names - layers
        assert (about["space"], about["class_names"]) == (space, classes)
        assert kept["input.weight"].shape == (8, features)
        assert kept["head.out.weight"].shape == (len(classes), 8)


@pytest.mark.parametrize("method", ["flatland", pytest.param("fedavg", marks=pytest.mark.long)])
def test_equal_runs_are_equal_and_so_is_a_resumed_one(method, sets, tmp_path):
    """Interrupted before and after an answer; batches are drawn anew each pass."""
    settings = {
        "method": method,
        "dataset": SETS,
        "data_dir": str(sets),
        "num_rounds": 2,
        "local_epochs": 1,
        "batch_size": 2,
    }
    whole = run(tmp_path, "whole", **settings)
    assert run(tmp_path, "again", **settings).figures == whole.figures
    assert run(tmp_path, "other", **settings | {"seed": 1}).figures != whole.figures
    for name, number, after in [("first", 1, True), ("before", 2, False), ("after", 2, True)]:

        def stop(request, handle, number=number, after=after):
            header = request.content["header"]
            if (header["phase"], header["round"], request.metadata.dst_node_id) != (
                "train",
                number,
                3,
            ):
                return handle(request)
            if after:
                handle(request)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, name, intercept=stop, **settings)
        assert run(tmp_path, name, resume=True, **settings).figures == whole.figures, name


def nodes_of(folder: Path, lists: list[list[dict]]) -> list[dict]:
    """Real nodes, each with a list of graphs of its own."""
    nodes = real_nodes(folder, [{}] * len(lists))
    for node, graphs in zip(nodes, lists, strict=True):
        torch.save(graphs, node["data-path"])
    return nodes


def changed(graphs: list[dict], **changes) -> list[dict]:
    """Each graph with the changes; None leaves a field out, a callable makes its value."""
    notes = [
        graph
        | {name: value(graph) if callable(value) else value for name, value in changes.items()}
        for graph in graphs
    ]
    return [{name: value for name, value in graph.items() if value is not None} for graph in notes]


@pytest.mark.parametrize("method", ["flatland", "fedavg"])
@pytest.mark.parametrize("model", ["auto", "gcn"])
def test_graphs_without_edges(method, model, tmp_path):
    bare = changed(user_graphs(12), edge_index=torch.zeros(2, 0, dtype=torch.int64))
    nodes = nodes_of(tmp_path / "nodes", [bare, user_graphs(12, 1)])
    result = run(
        tmp_path, nodes=nodes, method=method, model=model, dataset="own.pt", share_statistics=True
    )
    assert result.summary["metrics"]["replies_dropped"] == 0
    assert result.described["clients"][0]["statistics"]["num_edges"] == 0
    assert all(np.isfinite(array).all() for array in result.model.values())


def mess(graph: dict) -> torch.Tensor:
    """The edges in either direction, some twice, with self-loops, in any order."""
    edges, generator = graph["edge_index"], torch.Generator().manual_seed(0)
    loops = torch.arange(len(graph["x"])).expand(2, -1)[:, ::2]
    turned = torch.where(
        torch.rand(edges.shape[1], generator=generator) < 0.5, edges, edges.flip(0)
    )
    messy = torch.cat([turned, turned[:, :1], edges.flip(0)[:, 1:], loops], dim=1)
    return messy[:, torch.randperm(messy.shape[1], generator=generator)]


def test_directions_doubles_and_self_loops_change_nothing(tmp_path):
    clean, messy = user_graphs(12), changed(user_graphs(12), edge_index=mess)
    assert not all(
        torch.equal(one["edge_index"], other["edge_index"])
        for one, other in zip(clean, messy, strict=True)
    )
    result = [
        run(
            tmp_path,
            name,
            nodes=nodes_of(tmp_path / "nodes", [graphs, user_graphs(12, 1)]),
            method="flatland",
        )
        for name, graphs in [("clean", clean), ("messy", messy)]
    ]
    digests = [[about["digest"] for about in each.described["clients"]] for each in result]
    assert digests[0] == digests[1]
    assert measured(result[0]) == measured(result[1])


def test_a_list_of_graphs_is_dealt_in_a_simulation_and_whole_on_a_node(tmp_path):
    torch.save(user_graphs(12), tmp_path / "own.pt")
    dealt = run(tmp_path, "dealt", dataset=str(tmp_path / "own.pt"))
    assert [about["statistics"]["num_graphs"] for about in dealt.described["clients"]] == [4, 4, 4]
    assert (dealt.described["facts"]["task"], dealt.described["facts"]["own_ends"]) == (
        "graphs",
        False,
    )
    nodes = nodes_of(tmp_path / "nodes", [user_graphs(12), user_graphs(24, 1)])
    own = run(tmp_path, "own", nodes=nodes)
    assert own.summary["status"] == "completed"
    assert own.described["clients"][1]["statistics"] == {}
    sizes = [int(row["num_examples"]) for row in own.clients]
    assert sizes[:2] == sizes[2:]
    assert all(0 < size < number / 2 for size, number in zip(sizes, (12, 24), strict=False))
    assert own.model.keys() >= {"input.weight", "head.out.weight"}


@pytest.mark.parametrize("method", ["flatland", "fedavg"])
def test_nodes_of_different_features_keep_their_ends(method, tmp_path, caplog):
    wide = changed(user_graphs(12, 1), x=lambda graph: graph["x"].repeat(1, 2))
    nodes = nodes_of(tmp_path / "nodes", [user_graphs(12), wide])
    recorder = Recorder()
    with caplog.at_level(logging.INFO, "curvfed"):
        result = run(tmp_path, nodes=nodes, method=method, intercept=recorder)
    assert result.described["facts"]["own_ends"]
    sent = set().union(*on_the_wire(recorder))
    assert "layers.2.second.weight" in sent
    assert not [name for name in sent if name.startswith(ENDS)]
    assert result.summary["metrics"]["replies_dropped"] == 0
    assert (
        "the clients' feature spaces differ (0: 3, 1: 6): input.*, head.* stay at each client"
        in caplog.text
    )
    alike = run(
        tmp_path,
        "alike",
        nodes=nodes_of(tmp_path / "equal", [user_graphs(12), user_graphs(12, 1)]),
        method=method,
    )
    assert not alike.described["facts"]["own_ends"]
    assert alike.model["input.weight"].shape == (8, 3)


def test_a_node_that_holds_nodes_is_refused_by_name(tmp_path):
    nodes = nodes_of(tmp_path / "nodes", [user_graphs(12), user_graphs(12, 1), []])
    torch.save(user_fields(), nodes[2]["data-path"])
    result = run(tmp_path, nodes=nodes)
    assert result.described["refused"] == {
        "partition-id 2": (
            "its data are nodes of 8 features scored by accuracy, the others' are graphs scored by"
            " accuracy"
        )
    }
    assert (result.summary["num_clients"], result.described["facts"]["task"]) == (2, "graphs")


@pytest.mark.parametrize("method", ["flatland", "fedavg"])
def test_training_learns(method, tmp_path):
    """Rings and stars, of one-hot degrees."""
    ring = torch.stack([torch.arange(6), torch.arange(6).roll(-1)])
    star = torch.stack([torch.zeros(5, dtype=torch.int64), torch.arange(1, 6)])
    graphs = [{"edge_index": (ring, star)[n % 2], "y": n % 2} for n in range(40)]
    torch.save(graphs, tmp_path / "own.pt")
    settings = {
        "num_rounds": 12,
        "train_size": 0.5,
        "batch_size": 4,
        "dropout": 0.0,
        "embedding_dim": 16,
    }
    result = run(tmp_path, clients=2, method=method, dataset=str(tmp_path / "own.pt"), **settings)
    assert result.summary["personal_accuracy_mean"] == 1
    assert result.summary["metrics"]["majority_accuracy"] < 0.8
