"""Ledgers that were removed, shortened or left behind, at all nodes or at one, also without their
anchors: the sums of before are not repeated over other nodes."""

import contextlib
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_runs import Run, run
from secure_sums import BASIS
from secure_sums import session as session_of
from test_ledger import SUMMED, hospitals

from curvfed.client_app.node.ledger import Ledger
from curvfed.client_app.node.ledger_memory import ACCEPTED
from curvfed.server_app.run import RoundError
from curvfed.strategies.errors import PeerError, SecureSumError
from curvfed.strategies.secure_sum import Session
from curvfed.strategies.wire.exchange import FederationError

pytestmark = pytest.mark.usefixtures("own_home")


def removed(path: Path) -> None:
    path.unlink()


def shortened(path: Path) -> None:
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])


def moved(path: Path) -> None:
    path.parent.rename(path.parent.with_name(f"{path.parent.name}-before"))


def ledgers(nodes: Sequence[Mapping[str, Any]]) -> list[Path]:
    return [
        Path(node["state-path"]) / f"ledger-{number:05d}.jsonl" for number, node in enumerate(nodes)
    ]


def train_replies(result: Run) -> list[str]:
    return [row["replies"] for row in result.rounds if row["phase"] == "train"]


@pytest.mark.parametrize("fault", [removed, shortened, moved])
def test_without_the_ledgers_of_before_no_node_signs(fault, tmp_path, monkeypatch):
    """The sum over all nodes, and, when every node has forgotten it, the one without the last: the
    difference was the last one's vector, to the last bit."""
    nodes = hospitals(tmp_path / "nodes")
    run(tmp_path, "first", nodes=nodes, **SUMMED)
    for path in ledgers(nodes):
        fault(path)
    with pytest.raises(FederationError, match=r"ledger .* has not the \d+ lines that .* records"):
        run(tmp_path, "second", nodes=nodes[:3], **SUMMED)
    monkeypatch.setattr(Ledger, "_check_anchors", lambda *_: None)
    assert train_replies(run(tmp_path, "third", nodes=nodes[:3], **SUMMED)) == ["3"]  # it is real


@pytest.mark.parametrize("fault", [removed, shortened])
def test_peers_notice_that_a_ledger_lacks_lines_also_without_its_anchor(fault, tmp_path, caplog):
    """The node is in no sum until their operators go on with it."""
    nodes = hospitals(tmp_path / "nodes")
    run(tmp_path, "first", nodes=nodes, **SUMMED)
    fault(ledgers(nodes)[1])
    shutil.rmtree(tmp_path / "home" / "curvfed" / "ledgers")
    with contextlib.suppress(RoundError):  # or a sum of the others
        assert train_replies(run(tmp_path, "second", nodes=nodes, seed=5, **SUMMED)) == ["3"]
    assert "partition 1" in caplog.text
    assert re.search(r"lacks lines that partitions \[0, 2, 3\] have recorded", caplog.text)
    for number in (0, 2, 3):
        Ledger(ledgers(nodes)[number]).append(ACCEPTED, peer=1, by="ada")
    third = run(tmp_path, "third", nodes=nodes, seed=6, **SUMMED)
    assert train_replies(third) == ["4"]


class Members:
    """Ledgers of nodes that sum with each other, without the sums."""

    def __init__(self, folder: Path, number: int = 3) -> None:
        self.ledgers = [
            Ledger(folder / f"{name}.jsonl", [folder / f"{name}.anchor"]) for name in range(number)
        ]
        self.members = range(number)
        for ledger in self.ledgers:
            ledger.note_run("run", {})

    def begin(self, me: int, session: Session) -> dict[int, bytes]:
        """The statements of a member that sends its key and its texts at once."""
        ledger = self.ledgers[me]
        return ledger.begin(session.run, ledger.recorded_heads(self.members))

    def sum(self, name: str, signing: Sequence[int] | None = None) -> None:
        """A sum that only some sign, as those do that are not killed before."""
        opened = session_of(len(self.ledgers), run=name)
        sent = [self.begin(me, opened) for me in self.members]
        for me, ledger in enumerate(self.ledgers):
            received = {peer: sent[peer][me] for peer in self.members if peer != me}
            ledger.compare(sent[me], received)
            if signing is None or me in signing:
                ledger.note_sum(opened, BASIS, "", tuple(sorted(self.members)), received)


def test_sums_that_only_some_members_signed_lock_no_node_out(tmp_path):
    members = Members(tmp_path)
    rng = np.random.default_rng(0)
    for number in range(20):
        signing = np.flatnonzero(rng.random(3) < 0.5)
        if rng.random() < 0.5:
            members.ledgers[rng.integers(3)].append("refusal", run="run", reason="other")
        members.sum(str(number), signing.tolist())


def test_a_ledger_that_grew_again_after_it_was_shortened_is_noticed(tmp_path):
    members = Members(tmp_path)
    for name in "ab":
        members.sum(name)
    ledger = members.ledgers[1]
    shortened(ledger.path)
    (tmp_path / "1.anchor").unlink()
    with pytest.raises(PeerError, match="partition 1: its ledger lacks lines"):
        members.sum("c")
    for _ in range(50):
        ledger.append("refusal", run="run", reason="a message that a server repeats")
    with pytest.raises(SecureSumError, match=r"lacks lines that partitions \[0, 2\]"):
        members.sum("d")


def test_sums_at_the_same_time_are_no_fault(tmp_path):
    """A statement of a sum that began before another one, and ended after it."""
    members = Members(tmp_path)
    early = [members.begin(me, session_of(3)) for me in range(3)]
    members.ledgers[1].append("run", run="other")
    members.sum("a")
    for me, ledger in enumerate(members.ledgers):
        ledger.compare(early[me], {peer: early[peer][me] for peer in range(3) if peer != me})


def test_a_sum_within_the_sharing_of_another_one_is_no_fault(tmp_path):
    """Two runs at once: a member that was slow in sharing blamed all others."""
    members = Members(tmp_path)
    slow, *peers = members.members
    recorded = [ledger.recorded_heads(members.members) for ledger in members.ledgers]
    outer = session_of(3, run="outer")
    sent = {me: members.ledgers[me].begin(outer.run, recorded[me]) for me in peers}
    members.sum("inner")
    sent[slow] = members.ledgers[slow].begin(outer.run, recorded[slow])
    for me, ledger in enumerate(members.ledgers):
        ledger.compare(sent[me], {peer: sent[peer][me] for peer in members.members if peer != me})
