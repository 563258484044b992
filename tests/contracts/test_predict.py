"""Predictions of trained models, against independent evaluations of the same parameters."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from app_runs import Run, run
from graph_fixtures import user_fields, write_user_graph
from safetensors.numpy import load_file, save_file

import client_app.client
import server_app.app
from deployments import predict
from deployments.predict import TrainedRun
from tasks.graphs import trees

CLIENTS, ROUNDS = 3, 12
TRAINED = {"embedding_dim": 32, "num_rounds": ROUNDS}


@pytest.fixture(scope="module", autouse=True)
def own_home(tmp_path_factory):
    """A home of its own, and no report, which takes longer than the run."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        patch.setenv("HOME", str(home))
        patch.setattr(server_app.app, "_report", lambda directory: None)
        yield home
        client_app.client._live.clear()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run directory per method, on trees."""
    folder = tmp_path_factory.mktemp("runs")
    return {method: run(folder, method, method=method, **TRAINED) for method in ("flatland", "fedavg", "local")}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """A federation of two nodes with graphs and state folders of their own, and the folder of all that."""
    folder = tmp_path_factory.mktemp("nodes")
    configs = []
    for number in range(2):
        write_user_graph(folder / f"{number}.pt", **user_fields(seed=number), class_names=["left", "right"])
        configs.append({"partition-id": number, "data-path": str(folder / f"{number}.pt"), "state-path": str(folder)})
    return folder, run(folder / "results", "own", nodes=configs, method="flatland")


def ask(capsys, *arguments) -> tuple[int, list[dict[str, str]], str]:
    """Exit status, rows of the CSV, and what is said beside it."""
    code = predict.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, list(csv.DictReader(captured.out.splitlines())), captured.err


def value(said: str, name: str) -> str:
    (line,) = [line for line in said.splitlines() if line.startswith(f"{name}: ")]
    return line.removeprefix(f"{name}: ")


def gcn(arrays, features, edges) -> np.ndarray:
    """Logits of the flat network by dense NumPy in float64 (Kipf & Welling, 2017)."""
    adjacency = np.eye(len(features))
    adjacency[edges[0], edges[1]] = 1
    degrees = adjacency.sum(axis=1)
    adjacency /= np.sqrt(np.outer(degrees, degrees))
    hidden = features.astype(np.float64)
    for layer in ("first", "second"):
        hidden = np.maximum(adjacency @ hidden @ arrays[f"{layer}.weight"].T + arrays[f"{layer}.bias"], 0)
    return hidden @ arrays["head.weight"].T + arrays["head.bias"]


def test_predictions_are_those_of_the_model(runs, capsys):
    code, rows, said = ask(capsys, runs["fedavg"].path, "trees", "--client", 1)
    tree = trees.generate(seed=0, client=1)
    features = tree.features / np.linalg.norm(tree.features, axis=1, keepdims=True)
    logits = gcn(load_file(runs["fedavg"].path / "model.safetensors"), features, tree.edge_index)
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert code == 0
    assert [int(row["node"]) for row in rows] == list(range(len(tree.labels)))
    assert [row["class"] for row in rows] == [trees.CLASS_NAMES[index] for index in chances.argmax(axis=1)]
    # Sums of at most `width` terms in float32, and six digits in the file.
    bound = features.shape[1] * np.finfo(np.float32).eps * max(1, np.abs(logits).max()) + 5e-7
    np.testing.assert_allclose([float(row["probability"]) for row in rows], chances.max(axis=1), rtol=0, atol=bound)
    assert value(said, "curvature").startswith("none")


def test_personal_models_score_as_in_the_round_that_follows(runs, capsys, tmp_path):
    """`test_before` of the next round is the client's own score of the aggregated parameters with its personal ones."""
    shutil.copytree(runs["flatland"].path, tmp_path / "flatland")
    answers = [ask(capsys, runs["flatland"].path, "trees", "--client", client) for client in range(CLIENTS)]
    settings = TRAINED | {"num_rounds": ROUNDS + 1}
    longer = run(tmp_path, "flatland", method="flatland", resume=True, **settings)
    next_round, last = (
        {int(row["partition"]): row for row in longer.clients if row["round"] == str(number)}
        for number in (ROUNDS + 1, ROUNDS)
    )
    for client, (code, _, said) in enumerate(answers):
        assert code == 0
        assert value(said, "personal parameters") == f"of client {client}, after round {ROUNDS}"
        assert value(said, "accuracy on the test nodes") == f"{float(next_round[client]['test_before']):.4f}"
        assert value(said, "curvature") == f"{float(last[client]['curvature']):.4f}, learned by this client"
    assert any(last[client]["test"] != next_round[client]["test_before"] for client in range(CLIENTS))


def test_where_nothing_is_shared_the_score_is_that_of_the_run(runs, capsys):
    last = {int(row["partition"]): row for row in runs["local"].clients if row["round"] == str(ROUNDS)}
    for client in range(CLIENTS):
        code, _, said = ask(capsys, runs["local"].path, "TREES", "--client", client)
        assert code == 0
        assert value(said, "accuracy on the test nodes") == f"{float(last[client]['test']):.4f}"


def test_a_run_that_was_moved_and_renamed_still_predicts(runs, capsys, tmp_path):
    first = ask(capsys, runs["flatland"].path, "trees", "--client", 2)
    moved = shutil.copytree(runs["flatland"].path, tmp_path / "elsewhere")
    assert ask(capsys, moved, "trees", "--client", 2) == first


def test_a_real_node_uses_its_own_state(node, capsys, tmp_path):
    folder, own = node
    code, rows, said = ask(capsys, own.path, folder / "1.pt", "--client", 1, "--state-path", folder)
    assert code == 0
    assert "test nodes" in said  # the node trained on these data
    assert {row["class"] for row in rows} <= {"left", "right"}


def test_new_data_are_scored_on_all_nodes(node, capsys, tmp_path):
    folder, own = node
    fields = user_fields(num_nodes=40, seed=9)
    write_user_graph(tmp_path / "new.pt", **fields, class_names=["left", "right"])
    out = tmp_path / "out.csv"
    arguments = (own.path, tmp_path / "new.pt", "--client", 0, "--state-path", folder, "--out", out)
    code, rows, said = ask(capsys, *arguments)
    assert (code, rows) == (0, [])
    told = list(csv.DictReader(out.read_text().splitlines()))
    truth = [["left", "right"][label] for label in fields["y"].tolist()]
    right = np.mean([row["class"] == label for row, label in zip(told, truth, strict=True)])
    assert value(said, "accuracy on all nodes") == f"{right:.4f}"


# --- What cannot be done ----------------------------------------------------------------------------------------------


def refused(capsys, *arguments) -> str:
    code, rows, said = ask(capsys, *arguments)
    assert (code, rows) == (1, [])
    assert said.startswith("error: ")
    assert len(said.splitlines()) == 1
    return said


def test_personal_state_that_is_not_here_is_asked_for(runs, node, capsys, tmp_path):
    _, own = node
    said = refused(capsys, own.path, node[0] / "0.pt", "--client", 0)
    assert "no personal state of client 0" in said
    assert "flatland keeps the parameters *.time, *.gate, k at the client" in said
    assert "--state-path" in said
    gone = shutil.copytree(runs["flatland"].path, tmp_path / "gone")
    shutil.rmtree(gone / "checkpoint" / "clients" / "00001")
    assert str(gone / "checkpoint" / "clients" / "00001") in refused(capsys, gone, "trees", "--client", 1)
    assert predict.main([str(gone), "trees", "--client", "0"]) == 0


def test_a_neighbours_state_is_refused(runs, capsys, tmp_path):
    swapped = shutil.copytree(runs["flatland"].path, tmp_path / "swapped")
    folder = swapped / "checkpoint" / "clients"
    shutil.rmtree(folder / "00001")
    shutil.copytree(folder / "00002", folder / "00001")
    assert "is of partition 2; needed is 1" in refused(capsys, swapped, "trees", "--client", 1)


def test_the_client_is_asked_for(runs, capsys):
    assert "--client N is needed" in refused(capsys, runs["flatland"].path, "trees")
    assert "--client is None" in refused(capsys, runs["fedavg"].path, "trees")
    assert "0, 1, 2" in refused(capsys, runs["fedavg"].path, "trees", "--client", 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "has 8 features per node, the model of this run takes 300"),
        ({"x": torch.zeros(60, 300), "class_names": ["left", "right"]}, "classes ['left', 'right'] are not among"),
        (None, "no file"),
    ],
)
def test_data_that_do_not_fit_are_named(runs, capsys, tmp_path, changes, message):
    if changes is not None:
        write_user_graph(tmp_path / "own.pt", **changes)
    assert message in refused(capsys, runs["fedavg"].path, tmp_path / "own.pt")


def test_another_data_set_is_refused(runs, capsys):
    assert 'DATA is "cora"; allowed is "trees"' in refused(capsys, runs["fedavg"].path, "cora", "--client", 0)


def spoil_arrays(path: Path) -> None:
    arrays = load_file(path / "model.safetensors")
    with predict.safe_open(path / "model.safetensors", framework="np") as file:
        metadata = file.metadata()
    del arrays["head.bias"]
    save_file(arrays, path / "model.safetensors", metadata)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: (path / "model.safetensors").unlink(), "has not come to its end"),
        (lambda path: (path / "model.safetensors").write_bytes(b"none"), "is not the model of a run"),
        (lambda path: save_file({"x": np.zeros(1)}, path / "model.safetensors"), "is not the model of a run"),
        (spoil_arrays, "missing ['head.bias']"),
        (lambda path: (path / "clients.json").unlink(), "is not the directory of a run: no clients.json"),
        (lambda path: (path / "clients.json").write_text("{"), "is not the directory of a run"),
        (lambda path: (path / "config.toml").write_text('method = "fedavh"'), 'did you mean "fedavg"?'),
        (
            lambda path: (path / "config.toml").write_text('method = "fedprox"'),
            "is of method fedavg, config.toml beside it of fedprox",
        ),
    ],
)
def test_a_run_directory_that_is_not_whole_is_named(runs, capsys, tmp_path, spoil, message):
    copy = shutil.copytree(runs["fedavg"].path, tmp_path / "copy")
    spoil(copy)
    assert message in refused(capsys, copy, "trees", "--client", 0)


def test_data_that_have_changed_are_refused(runs, capsys, tmp_path):
    copy = shutil.copytree(runs["fedavg"].path, tmp_path / "copy")
    config = (copy / "config.toml").read_text()
    (copy / "config.toml").write_text(config.replace("seed = 0", "seed = 1"))
    assert "is not what client 0 of this run trained on" in refused(capsys, copy, "trees", "--client", 0)


def test_what_is_read_is_the_run(runs):
    found = TrainedRun.read(runs["fedavg"].path)
    assert (found.num_partitions, sorted(found.clients)) == (CLIENTS, [0, 1, 2])
    assert Run(found.path).summary["method"] == found.config.method == "fedavg"
