"""A ledger whose lines were changed, or that was removed, shortened or replaced; kills between its
writes; and how little of it is read twice."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from errors import refuses

from curvfed.client_app.node import Node, ledger_file
from curvfed.client_app.node.ledger import Ledger, ledger_of
from curvfed.client_app.node.policy import Policy
from curvfed.strategies.errors import ConfigError


@pytest.fixture
def node(tmp_path: Path) -> Node:
    key = tmp_path / "keys" / "node0.pem"
    key.parent.mkdir()
    return Node(partition=0, state_path=tmp_path / "state", signing_key=key, rules=Policy())


def book(node: Node, *runs: str) -> Ledger:
    """The ledger in a new process, with these runs appended."""
    ledger_file._checked.clear()
    ledger = ledger_of(node)
    for run in runs:
        ledger.note_run(run, {"method": "hull"})
    return ledger


def runs(ledger: Ledger) -> list[str]:
    return [line["run"] for line in ledger.lines("run")]


def known_runs(ledger: Ledger) -> set[str]:
    return {name.partition("\0")[0] for name in ledger.memory.runs}


def acts(ledger: Ledger) -> list[Callable[[], object]]:
    return [ledger.lines, lambda: ledger.append("run", run="next", method="hull")]


def changed(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[1].replace(b'"two"', b'"six"'), *lines[2:]]


def test_a_name_that_comes_back_with_other_settings_is_another_line(node):
    ledger = book(node, "one", "one")
    settings = {"method": "fedavg", "secure-sum": True}
    for _ in range(2):
        ledger.note_run("one", settings)
    lines = book(node, "one").lines("run")
    assert [line["method"] for line in lines] == ["hull", "fedavg"]


@pytest.mark.parametrize(
    ("fault", "number"),
    [
        (changed, 2),
        (lambda lines: [lines[0], lines[2]], 2),
        (lambda lines: [lines[0], lines[2], lines[1]], 2),
        (lambda lines: [*lines, lines[-1]], 4),
    ],
    ids=["changed", "without a line", "in another order", "with a line twice"],
)
def test_a_chain_with_a_line_changed_removed_moved_or_repeated_is_refused(fault, number, node):
    ledger = book(node, "one", "two", "three")
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    ledger.path.write_bytes(b"".join(fault(lines)))
    for act in acts(book(node)):
        with pytest.raises(ConfigError, match=rf"damaged: .*ledger-00000.jsonl, line {number};"):
            act()


def removed(ledger: Ledger) -> None:
    ledger.path.unlink()


def shortened(ledger: Ledger) -> None:
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    ledger.path.write_bytes(b"".join(lines[:-1]))


def replaced(ledger: Ledger) -> None:
    ledger.path.unlink()
    other = Ledger(ledger.path)
    for number in range(10):
        other.append("run", run=f"other {number}", method="hull")


@pytest.mark.parametrize("fault", [removed, shortened, replaced])
@pytest.mark.parametrize("signing", [True, False])
def test_a_ledger_that_lacks_lines_of_its_anchor_is_refused_until_it_is_reset(
    fault, signing, node, own_home
):
    if not signing:
        node = node.model_copy(update={"signing_key": None})
    ledger = book(node, "one", "two")
    fault(ledger)
    for act in acts(book(node)):
        with refuses("other-ledger", "ledger-00000.jsonl", "--reset", error=ConfigError):
            act()
    anchor = next(path for path in ledger._anchors if path.exists())
    assert (anchor.parent == ledger.path.parent) is False
    Ledger(ledger.path, [anchor]).reset(by="ada")
    assert runs(book(node, "three"))[-1] == "three"
    assert len(ledger.lines("reset")) == 1


def test_another_state_path_does_not_begin_another_ledger(node, tmp_path):
    book(node, "one")
    moved = node.model_copy(update={"state_path": tmp_path / "other"})
    with refuses("other-ledger", error=ConfigError):
        book(moved, "two")
    (tmp_path / "state").rename(tmp_path / "other")
    assert runs(book(moved, "two")) == ["one", "two"]


def test_a_damaged_ledger_begins_anew_when_it_is_reset(node):
    ledger = book(node, "one", "two")
    ledger.path.write_bytes(ledger.path.read_bytes().replace(b'"one"', b'"six"'))
    ledger.reset(by="ada")
    assert runs(book(node, "three")) == ["three"]
    assert b'"six"' in ledger.path.with_suffix(".damaged").read_bytes()


class KilledError(Exception):
    pass


def killed(*_: Any, **__: Any) -> None:
    raise KilledError


@pytest.mark.parametrize("step", ["os.fsync", "write_atomically"])
@pytest.mark.parametrize("before", [0, 1, 3])
def test_a_kill_between_the_writes_is_no_fault(step, before, node, monkeypatch):
    """Also of the first line, and where the index is due."""
    monkeypatch.setattr(ledger_file, "INDEX_EVERY", 300)
    book(node, *map(str, range(before)))
    with monkeypatch.context() as patch:
        patch.setattr(f"curvfed.client_app.node.ledger_file.{step}", killed)
        with pytest.raises(KilledError):
            book(node, "lost")
    assert runs(book(node, "next")) == [*map(str, range(before)), "lost", "next"]
    assert "lost" in runs(ledger_of(node))


@pytest.mark.parametrize("step", [1, 2])
def test_a_kill_between_index_and_anchor_is_no_fault(step, node, monkeypatch):
    monkeypatch.setattr(ledger_file, "INDEX_EVERY", 300)
    book(node, "one", "two", "three")
    write = ledger_file.write_atomically
    steps = iter([write, killed])

    def until_killed(*arguments: Any, **keywords: Any) -> None:
        next(steps)(*arguments, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(ledger_file, "write_atomically", until_killed)
        with pytest.raises(KilledError):
            book(node, "four", "five", "six")
    assert {"one", "four"} <= known_runs(book(node, "next"))


def test_each_line_is_read_once_and_a_new_process_begins_with_the_index(node, monkeypatch):
    """In 60 runs: the lines that are checked, and not the time, which is the machine's."""
    checked = []
    after = ledger_file.Head.after

    def counted(head: ledger_file.Head, text: bytes) -> ledger_file.Head | None:
        checked.append(text)
        return after(head, text)

    monkeypatch.setattr(ledger_file, "INDEX_EVERY", 1000)
    monkeypatch.setattr(ledger_file.Head, "after", counted)
    names = [str(number) for number in range(60)]
    ledger = book(node, *names)
    assert not checked
    ledger.note_run("0", {"method": "hull"})
    other = ledger_of(node)
    other.append("run", run="of another process")  # by the same, it is known
    assert not checked
    assert known_runs(book(node, "0")) == {*names, "of another process"}
    assert len(checked) < 12
    monkeypatch.setattr(ledger_file, "INDEX_FORMAT", 99)
    checked.clear()
    rewritten = book(node, "1" * 1000)  # an index of another version is made anew
    assert len(checked) == 61
    checked.clear()
    assert known_runs(book(node, "0")) == {*names, "of another process", "1" * 1000}
    assert not checked
    rewritten._index.write_bytes(b"{}")  # nothing vouches for this one
    book(node, "0")
    assert len(checked) == 62


def test_a_file_that_was_written_to_by_others_is_checked_where_it_is_new(node):
    ledger = book(node, "one")
    known = ledger_file._checked[ledger.path]
    ledger_file._checked.clear()
    ledger_of(node).append("run", run="two")
    ledger_file._checked[ledger.path] = known
    ledger.note_run("two", {})
    assert runs(ledger) == ["one", "two"]
    content = ledger.path.read_bytes()
    ledger.path.write_bytes(content.replace(b'"one"', b'"six"'))
    os.utime(ledger.path, ns=(0, 0))
    with refuses("damaged-ledger", error=ConfigError):
        ledger.note_run("three", {})
