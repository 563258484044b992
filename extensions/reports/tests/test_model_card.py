"""The card beside a model: its heading is YAML with the run's figures, and its program runs."""

import errno
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
import yaml
from app_runs import run
from graph_fixtures import write_user_graph

import curvfed
from curvfed.extensions.reports import model_card
from curvfed.extensions.reports.intervals import mean_interval
from curvfed.tasks.kinds import KINDS

SETTINGS = {"method": "flatland", "num_rounds": 2, "embedding_dim": 8}


def test_the_card_has_the_figures_of_the_summary(own_home, tmp_path, monkeypatch):
    trained = run(tmp_path, **SETTINGS)
    card = (trained.path / "model-card.md").read_text()
    heading = yaml.safe_load(card.split("---\n")[1])
    (result,) = heading["model-index"][0]["results"]
    values = {metric["name"]: metric["value"] for metric in result["metrics"]}
    assert abs(values["personal accuracy"] - trained.summary["personal_accuracy_mean"]) < 1e-6
    assert result["dataset"]["name"] == "trees"
    assert "license" not in heading
    assert "| time in training |" in card
    silent = trained.summary | {"seconds_training": 0}  # no client sends its time
    assert model_card._figures(trained.summary).keys() - model_card._figures(silent).keys() == {
        "seconds_training"
    }
    (program,) = re.findall(r"```python\n(.*?)```", card, flags=re.S)
    monkeypatch.chdir(trained.path)
    names: dict[str, object] = {}
    exec(program, names)
    assert type(names["model"]).__name__ == "LorentzGCN"


@pytest.mark.skipif("links" not in KINDS, reason="`links` is an extension, which this copy lacks")
@pytest.mark.parametrize(("curvature", "space"), [(-1.0, "hyperbolic"), (0.0, "flat")])
def test_the_space_is_that_of_the_network(curvature, space, tmp_path):
    keys = {"dataset": "balanced-tree", "links__curvature": curvature, "report": True}
    card = (run(tmp_path, method="local", **keys).path / "model-card.md").read_text()
    assert f'tags: ["federated-learning", "local", "{space}"]' in card
    assert ("the model's space is flat" in card) == (space == "flat")


def test_the_card_names_no_path_and_no_class(own_home, tmp_path):
    write_user_graph(tmp_path / "graph.pt", class_names=["hidden-left", "hidden-right"])
    trained = run(tmp_path, clients=2, dataset=str(tmp_path / "graph.pt"), **SETTINGS)
    card = (trained.path / "model-card.md").read_text()
    assert str(tmp_path) not in card
    assert "hidden" not in card
    assert curvfed.load(trained.path).data.class_names == ("hidden-left", "hidden-right")


def test_the_card_says_whether_the_data_were_those_of_owners(own_home, tmp_path):
    trained = run(tmp_path, "parts", clients=2, dataset="trees", partition="random", **SETTINGS)
    card = (trained.path / "model-card.md").read_text()
    assert "trained on one data set, cut among 2 clients by random.\n" in card
    assert "owners" not in card
    write_user_graph(tmp_path / "graph.pt")
    nodes = [{"data-path": str(tmp_path / "graph.pt")}] * 2
    nodes = [node | {"partition-id": number} for number, node in enumerate(nodes)]
    trained = run(tmp_path, "own", nodes=nodes, dataset="trees", **SETTINGS)
    card = (trained.path / "model-card.md").read_text()
    assert "trained on the data of several owners, which stayed with them.\n" in card


@pytest.mark.parametrize("name", ["🐈.pt", 'Katzen "é"\u2028\x85.pt'])
def test_the_heading_is_yaml_for_every_name(name, own_home, tmp_path):
    write_user_graph(tmp_path / "graph.pt")
    (tmp_path / "graph.pt").rename(tmp_path / name)
    trained = run(tmp_path, clients=2, dataset=str(tmp_path / name), **SETTINGS)
    card = (trained.path / "model-card.md").read_text(encoding="utf-8")
    heading = yaml.safe_load(card.split("---\n")[1])
    (result,) = heading["model-index"][0]["results"]
    assert result["dataset"]["name"] == name


def test_the_interval_is_students():
    values = np.array([0.52, 0.55, 0.61, 0.58])
    bounds = scipy.stats.t.interval(0.95, 3, loc=values.mean(), scale=scipy.stats.sem(values))
    assert mean_interval(values.mean(), values.std(), 4) == pytest.approx(bounds)
    assert mean_interval(0.5, 0.01, 1) is None
    assert mean_interval(0.5, None, 4) is None


def test_a_card_that_cannot_be_written_costs_the_run_nothing(tmp_path, monkeypatch, capsys):
    def full(path: Path, data: bytes, private: bool) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(model_card, "write_atomically", full)
    done = run(tmp_path, dataset="trees", report=True)
    assert done.summary["status"] == "completed"
    assert (done.path / "report.html").exists()
    assert "the model card could not be made" in capsys.readouterr().out
