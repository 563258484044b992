"""A client that joins a finished run: only what is its own moves, and predictions use it."""

import numpy as np
import pytest
from app_runs import QUICK, run
from graph_fixtures import write_user_graph

import curvfed
from curvfed.client_app.client import Client
from curvfed.deployments.commands.command import main
from curvfed.deployments.inprocess import simulated_nodes
from curvfed.deployments.predict import PredictError, TrainedRun, predict
from curvfed.deployments.predict.model import personal_state
from curvfed.extensions.adapt.commands import adapt as adapting
from curvfed.extensions.adapt.commands.adapt import adapt
from curvfed.strategies.errors import ConfigError

SETTINGS = {"method": "flatland", "num_rounds": 3, "embedding_dim": 16}


def test_a_part_that_no_client_had(own_home, tmp_path, capsys, monkeypatch):
    whole = run(tmp_path, nodes=simulated_nodes(4)[:3], **SETTINGS)
    number, scores = adapt(TrainedRun.read(whole.path), "trees", tmp_path / "joined", 3)
    assert number == 3
    assert scores["validation"] >= scores["validation before"]
    joined = TrainedRun.read(tmp_path / "joined")
    assert all(np.array_equal(joined.arrays[name], array) for name, array in whole.model.items())
    arrays, _ = personal_state(joined, 3, None)
    assert arrays["parameter/k"] != 0
    about = predict(joined, "trees", client=3).notes
    printed = next(float(value) for name, value in about.items() if name.startswith("accuracy on"))
    assert abs(printed - scores["score"]) < 1e-4
    again, client, same = curvfed.load(whole.path).adapt("trees", tmp_path / "python", client=3)
    assert (client, same) == (3, scores)
    assert len(again.predict("trees", client=3)) > 0
    assert again.summary["metrics"] == pytest.approx(scores)
    with pytest.raises(PredictError, match=r"a model for every one of the clients 3$"):
        again.predict("trees")
    words = ["adapt", str(whole.path), "trees", "--client", "3", "--out", str(tmp_path / "typed")]
    assert main(words) == 0
    out = capsys.readouterr()
    assert out.out.strip() == f"curvfed predict {tmp_path / 'typed'} trees --client 3"
    rows = [line.split("│")[1:4] for line in out.err.splitlines() if "test score" in line]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["test score", f"{100 * scores['score before']:.1f}%", f"{100 * scores['score']:.1f}%"]
    ]
    with monkeypatch.context() as patch:
        # refused before anything is read, let alone trained
        patch.setattr(Client, "__init__", None)
        with pytest.raises(PredictError, match="joined, which has a run already; allowed is a new"):
            adapt(TrainedRun.read(whole.path), "trees", tmp_path / "joined", 3)
    for client in ("0", "4"):
        words = ["adapt", str(whole.path), "trees", "--client", client]
        assert main([*words, "--out", str(tmp_path / "other")]) == 2
        assert "a number that no client of the run has" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(("method", "task"), [("fedavg", "nodes"), ("fedhpro", "images")])
def test_a_model_without_a_personal_part_is_refused(method, task, own_home, tmp_path):
    settings = QUICK[task] | {"method": method, "num_rounds": 1}
    whole = run(tmp_path, nodes=simulated_nodes(4)[:3], **settings)
    with pytest.raises(PredictError, match=f"{method} has no personal part"):
        adapt(TrainedRun.read(whole.path), str(settings["dataset"]), tmp_path / "joined", 3)
    assert not (tmp_path / "joined").exists()


def test_a_file_of_which_every_part_was_there_is_refused_however_it_is_spelt(
    own_home, tmp_path, monkeypatch
):
    write_user_graph(tmp_path / "graph.pt")
    monkeypatch.chdir(tmp_path)
    whole = TrainedRun.read(run(tmp_path, clients=2, dataset="graph.pt", **SETTINGS).path)
    for data in ("graph.pt", "./graph.pt", str(tmp_path / "graph.pt")):
        with pytest.raises(
            PredictError, match=r"every part of .*graph\.pt took part in this run; give the file"
        ):
            adapt(whole, data, tmp_path / "joined")


def test_another_code_of_the_model_is_refused(tmp_path, monkeypatch):
    def refuse(path, model):
        raise ConfigError("its code is another", key="model-code")

    made = run(tmp_path, nodes=simulated_nodes(3)[:2], **SETTINGS | {"num_rounds": 1})
    monkeypatch.setattr(adapting, "check_model_code", refuse)
    with pytest.raises(ConfigError, match="its code is another"):
        adapt(TrainedRun.read(made.path), "trees", tmp_path / "joined", 2)
    assert not (tmp_path / "joined").exists()
