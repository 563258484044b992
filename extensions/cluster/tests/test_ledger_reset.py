"""An operator resets the ledger of a node."""

from curvfed.client_app.node import Node, ledger_file
from curvfed.client_app.node.ledger import ledger_of
from curvfed.client_app.node.policy import Policy
from curvfed.deployments.commands.command import main


def test_a_ledger_that_was_removed_goes_on_by_its_anchor(tmp_path, own_home, monkeypatch, capsys):
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
