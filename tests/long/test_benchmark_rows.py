"""The benchmarks' rows: told apart by their words, and measured where that takes a second."""

import json

import pytest
import torch

from benchmarks import networks, run, server, spread
from benchmarks.row import Place, Row
from benchmarks.timing import Ratio, compare

PLACE = Place(None)


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_no_two_rows_have_the_same_words():
    for place in (PLACE, Place(None, "cuda:0")):
        words = [(row.what, row.against) for rows in run.PARTS.values() for row in rows(place)]
        assert len(set(words)) == len(words)
    assert any("bfloat16" in what and "on cuda" in what for what, _ in words)


@pytest.mark.parametrize("number", [0, 4, 12])
def test_steps_of_a_network_against_the_loop(own_home, number):
    ratio = networks.rows(PLACE)[number].measure()
    assert 0 < ratio.low <= ratio.ratio <= ratio.high


def test_the_loop_makes_as_many_steps_on_as_many_images(own_home):
    client = networks._client(PLACE, "cnn", "fedavg", False)
    batches = networks._batches(client)
    assert len(batches) == client.task.num_steps
    assert sum(len(labels) for _, labels in batches) == client.task.num_examples
    before = [parameter.detach().clone() for parameter in client.model.parameters()]
    networks.plain_loop(client, False)()
    assert not any(torch.equal(one, other) for one, other in zip(before, client.model.parameters(), strict=True))


def test_clients_side_by_side(own_home, monkeypatch):
    monkeypatch.setattr(networks, "REPEATS", 1)
    found = networks.side_by_side(PLACE, "cnn")
    assert found.ours > 0
    assert found.low == found.high == found.ratio


def test_a_client_that_fails_beside_another_is_told(own_home):
    with pytest.raises(RuntimeError, match="a process that trains failed"):
        networks.side_by_side(PLACE, "no-such-network")


def test_compare_tells_time_and_memory():
    found = compare(lambda: bytearray(64_000_000).count(1), lambda: None, repeats=3)
    assert found.ratio > 10
    assert found.low <= found.ratio <= found.high
    assert found.ours_bytes is None or found.ours_bytes > 50e6


def test_a_row_that_fails_is_told_and_the_others_go_on(tmp_path, monkeypatch, capsys):
    def fails() -> Ratio:
        raise ValueError("no such thing")

    rows = [Row("one", "other", "limit", fails), Row("two", "other", "limit", lambda: Ratio(1, 2, 0.4, 0.6), 1.0)]
    monkeypatch.setitem(run.PARTS, "server", lambda place: rows)
    page = tmp_path / "page.md"
    page.write_text("words\n<!-- measured -->\nold\n<!-- end of what was measured -->\nmore\n")
    out = tmp_path / "out.json"
    assert run.main(["--only", "server", "--out", str(out), "--page", str(page)]) == 1
    found = json.loads(out.read_text())["rows"]
    assert [one.get("error", one.get("ratio")) for one in found] == ["ValueError: no such thing", 0.5]
    text = page.read_text()
    assert "failed: ValueError: no such thing" in text
    assert "≤ 1, met" in text
    assert "old" not in text
    assert text.startswith("words\n")
    assert "1 of 1 goals met, 1 failed" in capsys.readouterr().out
    assert server.rows(PLACE)


def test_what_cannot_be_is_refused_before_anything_is_measured(capsys, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("words")
    for arguments, told in (
        (["--device", "cuda:99"], 'device = "cuda:99": this machine has'),
        (["--data", str(tmp_path / "absent")], f"--data: {tmp_path / 'absent'} is no folder"),
        (["--page", str(tmp_path / "absent.md")], "absent.md cannot be read: No such file or directory"),
        (["--page", str(page)], "page.md has no lines <!-- measured -->"),
    ):
        with pytest.raises(SystemExit):
            run.main(arguments)
        assert told in capsys.readouterr().err
    assert page.read_text() == "words"


def test_the_descent_that_prototypes_are_held_against_spreads_them_less():
    apart = 2 * torch.eye(spread.CLASSES)
    found = spread.descent()
    assert torch.allclose(found.norm(dim=1), torch.ones(spread.CLASSES))
    ours = spread.uniform(spread.CLASSES, spread.DIM, 0).float()
    assert (ours @ ours.T - apart).max() < (found @ found.T - apart).max() < 0.7
