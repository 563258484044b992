"""A node that has lost the vector of a sum and computes it anew, perhaps by other moments, another
processor or fresh noise: the difference of two sums would be that of its two vectors."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from app_runs import run
from errors import refuses
from secure_sums import BASIS
from test_ledger import SUMMED, Observer, hospitals, session

from curvfed.client_app.client import Client
from curvfed.client_app.node import ledger_file
from curvfed.client_app.node.ledger import Ledger
from curvfed.server_app.run import RoundError
from curvfed.strategies.errors import SecureSumError

pytestmark = pytest.mark.usefixtures("own_home")


def forget(folder: Path, nodes: list[dict[str, Any]]) -> None:
    """Remove the server's checkpoint, and the vectors of node 0, as later sums would."""
    shutil.rmtree(folder / "run" / "checkpoint")
    for path in (Path(nodes[0]["state-path"]) / "run" / "00000" / "sums").iterdir():
        path.unlink()


def test_a_vector_that_is_computed_anew_is_the_same_one(tmp_path, monkeypatch):
    """The second sum had another update of one node, under the keys of a new exchange."""
    observer = Observer(monkeypatch)
    nodes = hospitals(tmp_path / "nodes", 3)
    nodes = [node | {"state-path": str(tmp_path / str(node["partition-id"]))} for node in nodes]
    run(tmp_path, nodes=nodes, **SUMMED)
    forget(tmp_path, nodes)
    run(tmp_path, nodes=nodes, resume=True, **SUMMED)
    assert all(not array.any() for array in observer.difference().values())
    forget(tmp_path, nodes)
    train = Client.fit

    def other_update(client: Client, number: int) -> Any:
        result = train(client, number)
        if client.partition == 0:
            with torch.no_grad():
                next(iter(client.trained.values())).mul_(2)
        return result

    monkeypatch.setattr(Client, "fit", other_update)
    number = len(observer.sums)
    with pytest.raises(RoundError, match="with another vector"):
        run(tmp_path, nodes=nodes, resume=True, **SUMMED)
    assert len(observer.sums) == number


def test_a_round_that_all_have_answered_needs_the_keys_that_it_began_with(tmp_path):
    nodes = hospitals(tmp_path / "nodes", 3)
    nodes = [node | {"state-path": str(tmp_path / str(node["partition-id"]))} for node in nodes]
    first = run(tmp_path, nodes=nodes, **SUMMED)
    shutil.rmtree(first.path / "checkpoint")
    with pytest.raises(RoundError) as caught:
        run(tmp_path, nodes=nodes, resume=True, **SUMMED | {"num_rounds": 2})
    text = str(caught.value)
    assert "partition 0, partition 1, partition 2: its vector" in text
    assert text.count("other configuration") == 1
    assert "that it began with: num-rounds=1" in text


def test_a_ledger_knows_the_vector_of_a_sum_also_after_a_restart(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    sum_of_three = session("a", (0, 1, 2)), BASIS, "", (0, 1, 2), {}
    for _ in range(2):
        ledger.note_sum(*sum_of_three, "digest of the vector")
        ledger_file._checked.clear()  # each message may reach a new process
    with refuses("repeated-sum", "with another vector", error=SecureSumError):
        ledger.note_sum(*sum_of_three, "digest of another")
    assert len(ledger.lines("sum")) == 1
