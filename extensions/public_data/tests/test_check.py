"""What `check` says about public data, here and absent."""

import re

import pytest

from curvfed.deployments.commands.command import main
from curvfed.tasks.registry import SOURCES


@pytest.fixture(autouse=True)
def wide(monkeypatch, tmp_path):
    """A terminal where no cell is broken, and a home for what is kept of the data."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def said(capsys, *arguments: str) -> list[str]:
    """What `check` says below its table, but for the classes and what is read of a file."""
    assert main(["check", *arguments]) == 0
    output = capsys.readouterr().out
    lines = output[output.rindex("┘") + 1 :].strip().splitlines()
    return [line for line in lines if not line.startswith(("classes: ", "read: "))]


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    monkeypatch.setattr(
        "curvfed.extensions.public_data.downloads.fetch",
        lambda *_: pytest.fail("check must not download"),
    )


def test_check_looks_at_the_data_of_every_client(capsys, cora_dir):
    raw = cora_dir / "planetoid" / "Cora" / "raw"
    place, *clients, spread, scored, note = said(
        capsys, "dataset=Cora", f"data-dir={cora_dir}", "num-supernodes=3"
    )
    assert re.fullmatch(r"personal scores: of \d+ test examples", scored)
    assert place == f"data: Cora, all files in {raw}"
    size = (
        r"a graph of \d+ nodes and \d+ edges, \d+ features, (?:[12] of )?3 classes; \d+ training, \d+"
        r" validation, \d+ test; accuracy of the majority class [\d.]+%"
    )
    assert spread.startswith("min, median, max of 3 clients: ")
    (single,) = [line for line in clients if " 1 of 3 classes; " in line]
    client_of_note = single.partition(" of ")[0]
    assert note.startswith(f"note: {client_of_note} has examples of one class alone")
    for number, client in enumerate(clients):
        assert re.fullmatch(f"client {number} of 3: {size}", client)


def test_check_says_where_a_download_would_go(capsys, tmp_path):
    notes = (
        "data: Cora is not in {0}/planetoid/Cora/raw nor in {0}/Cora/raw; the run would try to"
        " download it to {0}"
    )
    command = SOURCES["cora"].command
    assert said(capsys, "dataset=cora", f"data-dir={tmp_path}") == [
        notes.format(tmp_path) + ", as does",
        command(tmp_path),
    ]
    absent = tmp_path / "absent"
    assert said(capsys, "dataset=cora", f"data-dir={absent}") == [
        notes.format(absent) + ", a new folder, as does",
        command(absent),
    ]
    assert not absent.exists()
