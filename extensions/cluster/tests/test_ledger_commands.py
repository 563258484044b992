"""What an operator reads in the ledger of a node, and writes to it."""

import os
from pathlib import Path

import pytest
from app_runs import real_nodes, run
from graph_fixtures import user_fields

from curvfed.client_app.node import Node, ledger_file
from curvfed.client_app.node.ledger import Ledger, ledger_of
from curvfed.client_app.node.policy import Policy
from curvfed.deployments.commands.command import main
from curvfed.deployments.run_results import toml_pairs

pytestmark = pytest.mark.usefixtures("own_home")

SUMMED = {"method": "fedavg", "secure_sum": True, "num_rounds": 1}


@pytest.fixture
def nodes(tmp_path):
    return real_nodes(tmp_path / "nodes", [user_fields(60, seed=index) for index in range(4)])


def test_a_ledger_that_was_removed_goes_on_by_its_anchor(tmp_path, monkeypatch, capsys):
    node = Node(partition=0, state_path=tmp_path / "state", rules=Policy())
    ledger = ledger_of(node)
    ledger.note_run("one", {"method": "hull"})
    ledger.path.unlink()
    anchor = next(path for path in ledger._anchors if path.exists())
    monkeypatch.setattr("typer.confirm", lambda text, **_: print(text))
    assert main(["cluster", "ledger", str(node.state_path), "--reset", str(anchor)]) == 0
    assert "can reveal the data of a single node" in capsys.readouterr().out
    ledger_file._checked.clear()
    ledger_of(node).note_run("two", {"method": "hull"})
    assert [line["run"] for line in ledger_of(node).lines("run")] == ["two"]
    assert len(ledger.lines("reset")) == 1


def test_starts_and_splits_are_shown_and_a_peer_is_accepted(nodes, tmp_path, monkeypatch, capsys):
    run(tmp_path, nodes=nodes, **SUMMED)
    folder = nodes[0]["state-path"]
    assert main(["cluster", "ledger", folder]) == 0
    shown = capsys.readouterr().out
    assert "nodes: shares of training and test records [0.2, 0.4]" in shown
    assert shown.count(" for seed 0, sha256:") == 1
    monkeypatch.setattr("typer.confirm", lambda text, **_: None)
    assert main(["cluster", "ledger", folder, "--accept", "1"]) == 0
    (line,) = Ledger(Path(folder) / "ledger-00000.jsonl").lines("accepted")
    assert line["peer"] == 1


def test_an_operator_changes_the_group_once_a_quarter(nodes, tmp_path, capsys, monkeypatch):
    (tmp_path / "north").mkdir()
    commands = [
        ["cluster", "regroup", str(tmp_path / "north"), "--yes", "--node-config", toml_pairs(node)]
        for node in nodes
    ]
    assert main(commands[0]) == 0
    assert "nothing is to be changed" in capsys.readouterr().out
    assert not Path(nodes[0]["state-path"]).exists()
    run(tmp_path, "four", nodes=nodes, **SUMMED)
    with monkeypatch.context() as other_user:
        other_user.setattr(os, "geteuid", lambda: -1)
        assert main(commands[0]) == 1
    assert "sudo -u" in capsys.readouterr().err
    assert [main(words) for words in commands[:3]] == [0, 0, 0]
    assert "summed with partitions [0, 1, 2, 3]; its next sum" in capsys.readouterr().out
    run(tmp_path, "three", nodes=nodes[:3], **SUMMED)
    assert main(commands[0]) == 1
    assert "allowed is 1: [sums] regroups-per-quarter" in capsys.readouterr().err
    assert main(["cluster", "ledger", nodes[0]["state-path"]]) == 0
    assert "from [[0, 1, 2, 3]] to those of the next sum, by " in capsys.readouterr().out
