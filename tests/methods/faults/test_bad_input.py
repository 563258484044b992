"""Data, nodes and configurations that will not do are named; the others go on."""

import io
import logging
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from app_runs import Fault, Recorder, Run, forged, real_nodes, run
from equal_runs import same_arrays
from flwr.app import Context, RecordDict
from flwr.supercore.logger import FLOWER_LOGGER
from graph_fixtures import user_fields, user_graphs
from rich.console import Console

from curvfed.client_app.app import app as client
from curvfed.deployments import inprocess
from curvfed.deployments.commands.command import main
from curvfed.deployments.terminal import summary_table
from curvfed.server_app.app import main as server_main
from curvfed.server_app.facts import DIFFERENT_PARTITION
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.exchange import FederationError


def graph(seed: int = 0, **changes) -> dict:
    return user_fields(seed=seed) | changes


def masks(train: torch.Tensor) -> dict[str, torch.Tensor]:
    """The given nodes to train on, of the others every second to validate and test on."""
    rest = (~train).cumsum(0) % 2 == 0
    return {"train_mask": train, "val_mask": ~train & rest, "test_mask": ~train & ~rest}


def failed(path: Path) -> dict:
    """A failed run's summary."""
    summary = Run(path).summary
    assert summary["status"] == "failed"
    return summary


@pytest.mark.parametrize("method", ["fedavg", "local"])
@pytest.mark.parametrize("task", ["nodes", "graphs"])
def test_a_client_without_training_examples_weighs_nothing(task, method, tmp_path):
    """A fifth of two graphs may be none."""
    none = masks(torch.zeros(60, dtype=torch.bool))
    nodes = real_nodes(tmp_path / "nodes", [graph(1), graph(2), graph(3, **none)])
    if task == "graphs":
        for node, graphs in zip(nodes, ((12, 0), (15, 1), (2, 4)), strict=True):
            torch.save(user_graphs(*graphs), node["data-path"])
    result = run(tmp_path, nodes=nodes, method=method)
    rows = [row for row in result.clients if row["partition"] == "2"]
    notes = [(row["num_examples"], row["loss"], row["dropped"]) for row in rows]
    assert notes == [("0", "", "")] * 2
    assert all(row["score"] for row in rows)
    assert result.summary["metrics"]["clients_left_out"] == 0
    others = run(tmp_path, "others", nodes=nodes[:2], method=method)
    assert same_arrays(result.model, others.model)


def test_a_client_without_test_nodes_is_left_out(tmp_path):
    train = {
        "train_mask": torch.ones(60, dtype=torch.bool),
        "val_mask": torch.zeros(60, dtype=torch.bool),
        "test_mask": torch.zeros(60, dtype=torch.bool),
    }
    result = run(
        tmp_path, nodes=real_nodes(tmp_path / "nodes", [graph(1), graph(2, **train), graph(3)])
    )
    last = [float(row["score"]) for row in result.clients if row["round"] == "2" and row["score"]]
    assert len(last) == 2
    assert result.summary["metrics"]["clients_left_out"] == 1
    assert result.summary["personal_accuracy_mean"] == pytest.approx(np.mean(last))


def test_a_client_with_one_class(tmp_path):
    one = torch.zeros(60, dtype=torch.int64)
    result = run(
        tmp_path,
        nodes=real_nodes(tmp_path / "nodes", [graph(1), graph(2, y=one), graph(3)]),
        share_statistics=True,
    )
    assert result.summary["status"] == "completed"
    assert result.described["clients"][1]["class_names"] == ["0"]
    assert result.described["facts"]["class_names"] == ["0", "1"]
    assert result.model["head.weight"].shape == (2, 8)


def test_roc_auc_of_a_client_with_one_class_is_left_out(minesweeper_dir, tmp_path):
    """Twenty nodes a client, a fifth of them mines: some clients have none to test on."""
    result = run(
        tmp_path, clients=20, dataset="minesweeper", data_dir=str(minesweeper_dir), num_rounds=1
    )
    figures = result.summary["metrics"]
    defined = [float(row["score"]) for row in result.clients if row["score"]]
    assert 0 < len(defined) < 20
    assert figures["roc_auc_clients_left_out"] == 20 - len(defined)
    assert figures["roc_auc"] == pytest.approx(np.mean(defined))
    assert figures["clients_left_out"] == 0


def test_classes_are_matched_by_name(tmp_path):
    """Nodes that know some of the classes, in their own order; labels mean the same."""
    own = graph(1)
    renamed = graph(2, class_names=["cat", "dog"])
    swapped = renamed | {"y": 1 - renamed["y"], "class_names": ["dog", "cat"]}
    subset = own | {"y": torch.zeros(60, dtype=torch.int64), "class_names": ["dog"]}
    kinds = own | {"class_names": ["dog", "emu"]}
    recorder = Recorder()
    settings = {"method": "fedavg", "num_rounds": 2, "share_statistics": True}
    result = run(
        tmp_path,
        nodes=real_nodes(tmp_path / "a", [renamed, subset, kinds]),
        intercept=recorder,
        **settings,
    )
    assert result.described["facts"]["class_names"] == ["cat", "dog", "emu"]
    assert result.model["head.bias"].shape == (3,)
    assert result.summary["status"] == "completed"
    one = run(tmp_path, "one", nodes=real_nodes(tmp_path / "b", [renamed, renamed]), **settings)
    other = run(tmp_path, "other", nodes=real_nodes(tmp_path / "c", [renamed, swapped]), **settings)
    assert one.model.keys() == other.model.keys()
    assert all(np.array_equal(one.model[name], other.model[name]) for name in one.model)


@pytest.mark.parametrize("method", ["flatland", "flatland-euclidean", "fedavg"])
def test_isolated_nodes_and_a_graph_without_edges(method, tmp_path):
    bare = graph(2, edge_index=torch.zeros(2, 0, dtype=torch.int64))
    result = run(
        tmp_path,
        nodes=real_nodes(tmp_path / "nodes", [graph(1), bare]),
        method=method,
        share_statistics=True,
    )
    assert result.summary["metrics"]["replies_dropped"] == 0
    assert all(np.isfinite(array).all() for array in result.model.values())
    assert result.described["clients"][1]["statistics"]["num_edges"] == 0
    assert result.described["clients"][1]["statistics"]["forman"] == 0


def test_nan_in_the_file_of_one_node_refuses_that_node_by_name(tmp_path, caplog):
    x = graph(2)["x"].clone()
    x[3, 4] = math.nan
    nodes = real_nodes(tmp_path / "nodes", [graph(1), graph(2, x=x), graph(3)])
    result = run(tmp_path, nodes=nodes)
    reason = "partition-id 1: data-path: x has NaN or infinite values in … of … rows"
    assert (result.summary["status"], result.summary["num_clients"]) == ("completed", 2)
    assert len(result.described["refused"]) == 1
    assert next(iter(result.described["refused"].values())).startswith(reason)
    assert {row["partition"] for row in result.clients} == {"0", "2"}
    assert reason in caplog.text


def test_a_node_that_cuts_the_public_data_set_otherwise_is_refused_and_reported_why(tmp_path):
    nodes = [{"partition-id": number, "num-partitions": 3} for number in range(3)]
    result = run(tmp_path, dataset="trees", nodes=[*nodes[:2], nodes[2] | {"num-partitions": 4}])
    (notes,) = result.described["refused"].items()
    assert notes[0] == "partition-id 2"
    assert "num-partitions and the data set's files must be the same at all nodes" in notes[1]
    mixed = real_nodes(tmp_path / "nodes", [graph(1)])[0] | {"partition-id": 2}
    result = run(tmp_path, "mixed", dataset="trees", nodes=[*nodes[:2], mixed])
    assert list(result.described["refused"]) == ["partition-id 2"]
    assert ", part of a public data set" in result.described["refused"]["partition-id 2"]


@pytest.mark.parametrize(
    ("changes", "name", "reason"),
    [
        ({"num_partitions": 4}, "partition-id 2", DIFFERENT_PARTITION),
        ({"num_partitions": 2}, "node 2", "num_partitions is 2"),
        ({"task": "tables"}, "node 2", "tables"),
        ({"metric": "roc_auc"}, "partition-id 2", "roc_auc"),
    ],
)
def test_a_node_that_describes_other_data_than_the_others_is_refused(
    changes, name, reason, tmp_path
):
    """However alike the partitions are by their hash."""
    change = forged(lambda r: replace(r, description=replace(r.description, **changes)))
    result = run(tmp_path, dataset="trees", intercept=Fault(2, change, "describe", 0), num_rounds=1)
    assert list(result.described["refused"]) == [name]
    assert reason in result.described["refused"][name]
    assert result.summary["num_clients"] == 2


WRONG_NODES = [
    ({"partition-id": None}, "there is no partition-id"),
    ({"partition-id": -1}, "partition-id is -1"),
    ({"partition-id": "1"}, "partition-id is '1'"),
    ({"partition-id": True}, "partition-id is True"),
    ({"data-path": None}, "partition-id 4: this node's --node-config has neither data-path"),
    ({"data-path": "/nowhere/x.pt"}, "partition-id 5: no file data-path;"),
    ({"device": "cuda:99"}, 'partition-id 6: device = "cuda:99": allowed on this machine is'),
]


def test_a_bad_node_config_refuses_that_node(tmp_path):
    nodes = real_nodes(tmp_path / "nodes", map(graph, range(len(WRONG_NODES) + 2)))
    for node, (change, _) in zip(nodes, WRONG_NODES):
        node |= change
        for key in [key for key, value in change.items() if value is None]:
            del node[key]
    result = run(tmp_path, nodes=nodes)
    refused = list(result.described["refused"].values())
    assert len(refused) == len(WRONG_NODES)
    for _, reason in WRONG_NODES:
        assert any(notes.startswith(reason) for notes in refused), reason
    assert result.summary["num_clients"] == 2


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"method": "flatlands"}, 'method = "flatlands" is not known; did you mean "flatland"?'),
        ({"num-rounds": -1}, "num-rounds = -1: allowed is a whole number >= 0 and <= 1000000"),
        ({"num-rounds": "many"}, "num-rounds = 'many': allowed is a whole number"),
        ({"dataset": "mnust"}, 'dataset = "mnust": no such data set'),
    ],
)
def test_a_bad_configuration_starts_no_client_and_leaves_a_summary(settings, text, named, tmp_path):
    places = {"results-dir": str(tmp_path / "results"), "run-name": "run" if named else ""}
    recorder = Recorder()
    grid = inprocess.InProcessGrid(client, {}, inprocess.simulated_nodes(2), recorder)
    with pytest.raises(ConfigError) as caught:
        server_main(grid, Context(1, 1, {}, RecordDict(), settings | places))
    assert str(caught.value).startswith(text)
    assert not recorder.pairs
    (folder,) = (tmp_path / "results").iterdir()
    assert folder.name == "run" if named else folder.name.startswith("refused-")
    assert failed(folder)["error"] == str(caught.value)


def test_flower_prints_the_traceback_of_unforeseen_errors_alone(tmp_path, monkeypatch):
    settings = {"num-rounds": -1, "results-dir": str(tmp_path)}
    with pytest.raises(ConfigError) as refused:
        server_main(
            inprocess.InProcessGrid(client, {}, []), Context(1, 1, {}, RecordDict(), settings)
        )
    stream = io.StringIO()
    monkeypatch.setattr(FLOWER_LOGGER, "handlers", [logging.StreamHandler(stream)])
    for error in (refused.value, ValueError("unforeseen")):
        FLOWER_LOGGER.error("ServerApp raised an exception", exc_info=error)
    lines = stream.getvalue().splitlines()
    assert lines == ["ServerApp raised an exception"] * 2 + ["ValueError: unforeseen"]


@pytest.mark.parametrize(
    "given",
    [
        *("method=fedagv", "seed=-1", "learning-rate=nan", "run-name=../x", "resume=true"),
        *("method=spherefed dataset=trees", "method=hull num-supernodes=1"),
        *("dataset=MUTAG,BZR num-supernodes=3", "sinks=tensorboard,prose"),
    ],
)
def test_a_command_that_can_never_run_is_wrong_usage_said_once(
    given, tmp_path, own_home, capfd, caplog
):
    assert main(["simulate", f"results-dir={tmp_path / 'results'}", *given.split()]) == 2
    notes = capfd.readouterr()
    (line,) = notes.err.splitlines()
    assert line.startswith("error: ")
    assert given.split()[0].partition("=")[0] in line or "num-supernodes" in line
    assert not notes.out
    assert not caplog.records
    assert not (tmp_path / "results").exists()
    assert not own_home.exists()


@pytest.mark.parametrize("has_own", [False, True])
def test_a_run_that_all_nodes_refuse_names_no_data_that_they_may_not_have(
    has_own, tmp_path, monkeypatch
):
    """It named the built-in data set, of which the nodes have nothing."""
    nodes = real_nodes(tmp_path / "nodes", [graph(1), graph(2)])
    for node in nodes:
        node["secure-sum"] = True
    monkeypatch.setattr("curvfed.server_app.app.has_supernodes", lambda grid: has_own)
    with pytest.raises(FederationError, match="0 of 2 nodes can take part"):
        run(tmp_path, nodes=nodes, method="fedavg")
    summary = failed(tmp_path / "run")
    assert summary["dataset"] == (None if has_own else "trees")
    console = Console(file=io.StringIO(), width=200)
    console.print(summary_table(summary))
    assert ("trees" in console.file.getvalue()) != has_own
