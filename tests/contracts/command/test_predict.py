"""Predictions of trained models, against independent evaluations of the same parameters."""

import csv
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from absent_extensions import skip_without
from app_runs import Run, parameters_in, run
from graph_fixtures import tu_graphs, user_fields, user_graphs, write_tu, write_user_graph
from predictions import ask, refused
from safetensors import safe_open
from safetensors.numpy import load_file
from stored import write_arrays, write_settings

from curvfed.deployments.commands.command import main
from curvfed.strategies.base.run_keys import home
from curvfed.tasks import generated

pytestmark = pytest.mark.usefixtures("module_home")
CLIENTS, ROUNDS = 3, 12
TRAINED = {"embedding_dim": 32, "num_rounds": ROUNDS}


@pytest.fixture(scope="module")
def runs(module_home, tmp_path_factory):
    """A run directory per method, on trees."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        method: run(folder, method, method=method, **TRAINED) for method in ("flatland", "fedavg")
    }


@pytest.fixture(scope="module")
def node(module_home, tmp_path_factory):
    """A federation of two nodes with graphs and state folders, and the folder of all that."""
    folder = tmp_path_factory.mktemp("nodes")
    configs = []
    for number in range(2):
        write_user_graph(
            folder / f"{number}.pt", **user_fields(seed=number), class_names=["left", "right"]
        )
        configs.append(
            {
                "partition-id": number,
                "data-path": str(folder / f"{number}.pt"),
                "state-path": str(folder),
            }
        )
    return folder, run(folder / "results", "own", nodes=configs, method="flatland")


def gcn(arrays, features, edges) -> np.ndarray:
    """Logits of the flat network by dense NumPy in float64 (Kipf & Welling, 2017)."""
    adjacency = np.eye(len(features))
    adjacency[edges[0], edges[1]] = 1
    degrees = adjacency.sum(axis=1)
    adjacency /= np.sqrt(np.outer(degrees, degrees))
    hidden = features.astype(np.float64)
    for layer in ("first", "second"):
        hidden = np.maximum(
            adjacency @ hidden @ arrays[f"{layer}.weight"].T + arrays[f"{layer}.bias"], 0
        )
    return hidden @ arrays["head.weight"].T + arrays["head.bias"]


def test_predictions_are_those_of_the_model(runs, capsys):
    rows, notes = ask(capsys, runs["fedavg"].path, "trees", "--client", 1)
    tree = generated.generate_tree(seed=0, client=1)
    features = tree.features / np.linalg.norm(tree.features, axis=1, keepdims=True)
    logits = gcn(load_file(runs["fedavg"].path / "model.safetensors"), features, tree.edge_index)
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert [int(row["node"]) for row in rows] == list(range(len(tree.labels)))
    assert [row["class"] for row in rows] == [
        generated.TOPIC_NAMES[index] for index in chances.argmax(axis=1)
    ]
    # Sums of at most `width` terms in float32, and six digits in the file.
    bound = features.shape[1] * np.finfo(np.float32).eps * max(1, np.abs(logits).max()) + 5e-7
    np.testing.assert_allclose(
        [float(row["probability"]) for row in rows], chances.max(axis=1), rtol=0, atol=bound
    )
    assert notes["curvature"] == "0, the model is flat"


def test_personal_models_score_as_in_the_round_that_follows(runs, capsys, tmp_path):
    """`score_before` of the next round is the score of aggregated and personal parameters."""
    shutil.copytree(runs["flatland"].path, tmp_path / "flatland")
    answers = [
        ask(capsys, runs["flatland"].path, "trees", "--client", client) for client in range(CLIENTS)
    ]
    settings = TRAINED | {"num_rounds": ROUNDS + 1}
    longer = run(tmp_path, "flatland", method="flatland", resume=True, **settings)
    next_round, last = (
        {int(row["partition"]): row for row in longer.clients if row["round"] == str(number)}
        for number in (ROUNDS + 1, ROUNDS)
    )
    for client, (_, notes) in enumerate(answers):
        assert notes["model"].endswith(
            f"the personal parameters of client {client} after round {ROUNDS}"
        )
        assert (
            notes["accuracy on the test nodes"]
            == f"{float(next_round[client]['score_before']):.4f}"
        )
        assert (
            notes["curvature"] == f"{float(last[client]['curvature']):.4f}, learned by this client"
        )
    assert any(
        last[client]["score"] != next_round[client]["score_before"] for client in range(CLIENTS)
    )


def test_a_real_node_uses_its_own_state(node, capsys, tmp_path):
    folder, own = node
    rows, notes = ask(capsys, own.path, folder / "1.pt", "--client", 1, "--state-path", folder)
    assert "accuracy on the test nodes" in notes  # the node trained on these data
    assert {row["class"] for row in rows} <= {"left", "right"}


# Whole graphs

SETS = "MUTAG,BZR"
SIZES = {"MUTAG": 24, "BZR": 16}
CLASSES = {"MUTAG": ["-1", "2", "10"], "BZR": ["0", "1"]}


@pytest.fixture(scope="module")
def graph_runs(module_home, tmp_path_factory):
    """Run directories on graphs: of two data sets, whose clients keep their ends, and of one that
    two clients share.

    Without attributes, so that a node's features are its one-hot label.
    """
    skip_without("MUTAG")
    folder = tmp_path_factory.mktemp("graph-runs")
    write_tu(folder, "MUTAG", attributes=False)
    write_tu(
        folder,
        "BZR",
        [replace(g, label=n % 2) for n, g in enumerate(tu_graphs(16, seed=1))],
        attributes=False,
    )
    settings = {"clients": 2, "num_rounds": 3, "data_dir": str(folder)}
    result = {
        method: run(folder, method, method=method, dataset=SETS, **settings)
        for method in ("fedavg", "flatland")
    }
    return result | {"shared": run(folder, "shared", method="fedavg", dataset="MUTAG", **settings)}


def parameters_of(result: Run, client: int) -> dict[str, np.ndarray]:
    """The whole model of a client, put together from what was averaged and what stayed."""
    own = parameters_in(result.personal(client))
    return {name: array.astype(np.float64) for name, array in (result.model | own).items()}


def arrays_of(graph) -> tuple[np.ndarray, np.ndarray]:
    """One-hot labels -2..3, which are unit rows, and the adjacency of a graph of `tu_graphs`."""
    adjacency = np.zeros([len(graph.node_labels)] * 2)
    for i, j in graph.edges:
        adjacency[i, j] = adjacency[j, i] = 1
    return np.eye(6)[np.array(graph.node_labels) + 2], adjacency


def gin(p, features, adjacency) -> np.ndarray:
    """Logits of one graph by dense NumPy in float64 (Xu et al., 2019)."""

    def linear(name, x):
        return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]

    x = linear("input", features)
    for layer in range(3):
        x = (1 + p[f"layers.{layer}.eps"]) * x + adjacency @ x
        x = np.maximum(
            linear(f"layers.{layer}.second", np.maximum(linear(f"layers.{layer}.first", x), 0)), 0
        )
    return linear("head.out", np.maximum(linear("head.hidden", x.sum(axis=0)), 0))


def agree(rows, logits, class_names) -> None:
    """The file says what these logits do, within the float32 of the network and six digits."""
    chances = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances /= chances.sum(axis=1, keepdims=True)
    assert [int(row["graph"]) for row in rows] == list(range(len(logits)))
    assert [row["class"] for row in rows] == [
        class_names[index] for index in chances.argmax(axis=1)
    ]
    bound = 100 * np.finfo(np.float32).eps * max(1, np.abs(logits).max()) + 5e-7
    np.testing.assert_allclose(
        [float(row["probability"]) for row in rows], chances.max(axis=1), rtol=0, atol=bound
    )


@pytest.mark.parametrize(("client", "name"), [*enumerate(SIZES)])
def test_predictions_of_graphs_are_those_of_the_clients_model(client, name, graph_runs, capsys):
    result = graph_runs["fedavg"]
    rows, notes = ask(capsys, result.path, "mutag,BZR", "--client", client)
    assert list(rows[0]) == ["graph", "class", "probability"]
    graphs = tu_graphs(SIZES[name], seed=client)
    model = parameters_of(result, client)
    assert model["input.weight"].shape == (8, 6)
    agree(rows, np.array([gin(model, *arrays_of(graph)) for graph in graphs]), CLASSES[name])
    assert notes["graphs"] == f"{len(graphs)}, {round(0.4 * len(graphs))} to score on"
    assert notes["model"].endswith(f"parameters of client {client} after round 3")


def test_predictions_of_graphs_score_as_in_the_round_that_follows(graph_runs, capsys, tmp_path):
    for method in ("fedavg", "flatland"):
        result = graph_runs[method]
        said = [ask(capsys, result.path, SETS, "--client", client)[1] for client in range(2)]
        shutil.copytree(result.path, tmp_path / method)
        settings = {
            "clients": 2,
            "num_rounds": 4,
            "data_dir": str(result.path.parent),
            "dataset": SETS,
        }
        longer = run(tmp_path, method, method=method, resume=True, **settings)
        after = [float(row["score_before"]) for row in longer.clients if row["round"] == "4"]
        assert [notes["accuracy on the test graphs"] for notes in said] == [
            f"{score:.4f}" for score in after
        ]


def new_graphs(class_names: list[str]) -> tuple[list, list[dict]]:
    """Graphs that no client has, as a user has them: not of unit norm, edges one way."""
    truth = tu_graphs(10, seed=7)
    stored = [
        {
            "x": torch.from_numpy(3 * arrays_of(graph)[0]).float(),
            "edge_index": torch.tensor(sorted(graph.edges), dtype=torch.int64).reshape(-1, 2).T,
            "y": number % 2,
            "class_names": class_names,
        }
        for number, graph in enumerate(truth)
    ]
    return truth, stored


# What cannot be done


def test_personal_state_that_is_not_here_is_asked_for(runs, node, capsys, tmp_path):
    _, own = node
    said = refused(capsys, own.path, node[0] / "0.pt", "--client", 0)
    assert "no personal state of client 0" in said
    assert "flatland keeps *.time, *.gate, k at each client" in said
    assert "--state-path" in said
    gone = shutil.copytree(runs["flatland"].path, tmp_path / "gone")
    shutil.rmtree(gone / "checkpoint" / "clients" / "00001")
    assert str(gone / "checkpoint" / "clients" / "00001") in refused(
        capsys, gone, "trees", "--client", 1
    )
    assert main(["predict", str(gone), "trees", "--client", "0"]) == 0
    folder = gone / "checkpoint" / "clients"
    shutil.copytree(folder / "00002", folder / "00001")  # a neighbour's
    assert "is of partition 2; needed is 1" in refused(capsys, gone, "trees", "--client", 1)


def test_graphs_that_do_not_fit_are_named(graph_runs, runs, capsys, tmp_path):
    own, nodes = graph_runs["fedavg"].path, runs["fedavg"].path
    torch.save(user_graphs(), tmp_path / "narrow.pt")
    torch.save([graph | {"x": graph["x"][:, :1]} for graph in user_graphs()], tmp_path / "one.pt")
    write_user_graph(tmp_path / "nodes.pt")
    for path, name, words in (
        (own, "narrow", "3 features per node, the model of this run takes 6"),
        (own, "one", "1 feature per node, the model"),
        (own, "nodes", "of nodes, the run's data of graphs"),
        (nodes, "narrow", "of graphs, the run's data of nodes"),
        (nodes, "nodes", "8 features per node, the model of this run takes 300"),
    ):
        client = ["--client", 1] if path == own else []
        said = refused(capsys, path, tmp_path / f"{name}.pt", *client)
        assert words in said
        assert f"{name}.pt" in said
    said = refused(capsys, own, "MUTAG", "--client", 0, status=2)
    assert 'DATA is "MUTAG"; allowed is "MUTAG,BZR"' in said
    absent = tmp_path / "own.pt"
    message = f'DATA is "{absent}"; there is no such file or folder'
    assert message in refused(capsys, nodes, absent, status=2)


def spoil_arrays(path: Path) -> None:
    arrays = load_file(path / "model.safetensors")
    with safe_open(path / "model.safetensors", framework="np") as file:
        metadata = file.metadata()
    del arrays["head.bias"]
    write_arrays(path / "model.safetensors", arrays, {"curvfed": metadata["curvfed"]})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: (path / "model.safetensors").unlink(), "has not come to its end"),
        (
            lambda path: (path / "model.safetensors").write_bytes(b"none"),
            "is not the model of a run",
        ),
        (spoil_arrays, "missing ['head.bias']"),
        (
            lambda path: (path / "clients.json").unlink(),
            "is not the directory of a run: no clients.json",
        ),
        (
            lambda path: (path / "clients.json").write_bytes(b"\xff"),
            "clients.json is not the file of a run (UnicodeDecodeError",
        ),
        (lambda path: (path / "config.toml").write_text("[[["), "config.toml cannot be read"),
        (
            lambda path: write_settings(path / "config.toml", 'method = "fedavh"'),
            'did you mean "fedavg"?',
        ),
        (
            lambda path: write_settings(path / "config.toml", 'method = "fedprox"'),
            "is of method fedavg, config.toml beside it of fedprox",
        ),
    ],
)
def test_a_run_directory_that_is_not_whole_is_named(runs, capsys, tmp_path, spoil, message):
    copy = shutil.copytree(runs["fedavg"].path, tmp_path / "copy")
    spoil(copy)
    assert message in refused(capsys, copy, "trees", "--client", 0)


def test_a_run_on_a_folder_predicts_on_a_copy_of_it(tmp_path, capsys):
    skip_without("MUTAG")
    # Labels 1..3 have columns 0..3 in both: columns that began at the smallest label would move
    # with the data.
    graphs = [
        replace(g, node_labels=[1 + abs(label) % 3 for label in g.node_labels])
        for g in tu_graphs(16)
    ]
    for name, some in (("one", graphs), ("copy", graphs), ("other", graphs[:9])):
        write_tu(tmp_path / name, "MINE", some, attributes=False)
    where = {name: tmp_path / name / "tu" / "MINE" / "raw" for name in ("one", "copy", "other")}
    result = run(
        tmp_path, "folder", clients=1, dataset=str(where["one"]), method="fedavg", num_rounds=1
    )
    assert result.described["facts"]["num_features"] == 4
    capsys.readouterr()
    for name in ("copy", "other"):
        assert main(["predict", str(result.path), str(where[name])]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert (lines[0], len(lines)) == (
            "graph,class,probability",
            {"copy": 17, "other": 10}[name],
        )


def test_graphs_without_classes_are_predicted_and_not_scored(runs, tmp_path, capsys):
    graph = generated.generate_tree(5, 0)
    fields = {
        "x": torch.from_numpy(graph.features),
        "edge_index": torch.from_numpy(graph.edge_index),
    }
    torch.save(fields, tmp_path / "new.pt")
    rows, notes = ask(capsys, runs["fedavg"].path, tmp_path / "new.pt")
    assert len(rows) == len(graph.labels)
    assert not any(name.startswith("accuracy") for name in notes)
    torch.save(fields | {"y": torch.from_numpy(graph.labels)}, tmp_path / "new.pt")
    assert ask(capsys, runs["fedavg"].path, tmp_path / "new.pt")[0] == rows


def test_nodes_of_another_class_are_predicted_and_not_scored(runs, tmp_path, capsys):
    path = tmp_path / "new.pt"
    tree = generated.generate_tree(5, 0)
    labels = torch.from_numpy(tree.labels)
    fields = {
        "x": torch.from_numpy(tree.features),
        "edge_index": torch.from_numpy(tree.edge_index),
    }
    names = list(generated.TOPIC_NAMES)
    torch.save(fields | {"y": labels, "class_names": names}, path)
    known, before = ask(capsys, runs["fedavg"].path, path)
    other = labels.clone()
    other[0] = len(names)
    torch.save(fields | {"y": other, "class_names": [*names, "fox"]}, path)
    rows, notes = ask(capsys, runs["fedavg"].path, path)
    assert rows == known
    assert before["nodes"] == f"{len(rows)}, {len(rows)} to score on"
    assert notes["nodes"] == f"{len(rows)}, {len(rows) - 1} to score on"
    assert notes["classes"] == "1 node is not scored, of fox, which the run lacks"
    truth = [names[label] for label in labels[1:].tolist()]
    right = [row["class"] == name for row, name in zip(rows[1:], truth, strict=True)]
    assert notes["accuracy on all nodes of known class"] == f"{np.mean(right):.4f}"


@pytest.mark.parametrize(("method", "client"), [("shared", []), ("fedavg", ["--client", 1])])
def test_graphs_of_other_classes_alone_are_predicted_and_not_scored(
    graph_runs, method, client, tmp_path, capsys
):
    torch.save(new_graphs(["left", "right"])[1], tmp_path / "new.pt")
    rows, notes = ask(capsys, graph_runs[method].path, tmp_path / "new.pt", *client)
    assert len(rows) == 10
    assert notes["graphs"] == "10"
    assert notes["classes"] == "10 graphs are not scored, of left, right, which the run lacks"


def test_a_client_is_recommended_where_one_is_needed(runs, tmp_path, capsys):
    path = runs["flatland"].path
    with (path / "clients.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["validation"]]
    last = [row for row in rows if row["round"] == rows[-1]["round"]]
    best = max(last, key=lambda row: float(row["validation"]))
    text = refused(capsys, path, "trees", status=2)
    assert "a model for every one of the clients 0, 1, 2. Data of a client need its own" in text
    score = f"{100 * float(best['validation']):.1f}%"
    assert f"for other data take {best['partition']}, whose model has the best" in text
    assert f"last round, {score}" in text


def test_data_that_have_changed_are_refused(runs, capsys, tmp_path):
    copy = shutil.copytree(runs["fedavg"].path, tmp_path / "copy")
    config = (copy / "config.toml").read_text().replace("seed = 0", "seed = 1")
    (copy / "config.toml").write_text(config)
    assert "config.toml cannot be read: it is damaged, or was changed" in refused(
        capsys, copy, "trees", "--client", 0
    )
    write_settings(copy / "config.toml", config.split("\n", 2)[2])
    assert "is not what client 0 of this run trained on" in refused(
        capsys, copy, "trees", "--client", 0
    )


def test_a_file_that_has_changed_since_the_run_is_refused(tmp_path, capsys):
    path = tmp_path / "graph.pt"
    write_user_graph(path, **user_fields(seed=0), class_names=["left", "right"])
    result = run(tmp_path, "changed", clients=2, method="fedavg", dataset=str(path), num_rounds=1)
    rows, _ = ask(capsys, result.path, path)
    named = home() / "results" / "by-name"  # where runs lie by default
    shutil.copytree(result.path, named)
    assert ask(capsys, "by-name", path)[0] == rows
    before = path.stat()
    write_user_graph(path, **user_fields(seed=1), class_names=["left", "right"])
    # Of the same size, and as if within one tick of the clock, or copied with its times.
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert "is not what client 0 of this run trained on; have its files changed?" in refused(
        capsys, result.path, path
    )
