"""Nodes lose personal state in a run, each with another `lost-state`; what is told."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from app_runs import Run
from local_cluster import SERVER, LocalCluster, cluster, shares
from many_hosts import LONG, await_, ended

CHOICES = ("refuse", "previous", "fresh")
"""Of nodes 0, 1 and 2."""

ROUNDS, BEFORE = 7, 2
"""The first node is out in most of the rounds."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("lost")
    configs = [
        f'{share} lost-state="{choice}" state-path="{folder / "state" / choice}"'
        for share, choice in zip(shares(len(CHOICES)), CHOICES, strict=True)
    ]
    with cluster(folder, configs) as one:
        yield one


def damage(folder: Path, how: str) -> int:
    """Damage the newest state in a client's folder; its round."""
    earlier, newest = sorted(folder.glob("0*.safetensors"))
    if how == "deleted":
        newest.unlink()
    else:
        newest.write_bytes(
            newest.read_bytes()[:-100] if how == "truncated" else earlier.read_bytes()
        )
    return int(newest.stem)


@pytest.mark.parametrize("how", ["deleted", "truncated", "older"])
def test_each_choice_is_followed_and_reported(
    how: str, nodes: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = nodes.submit(
        "method=flatland",
        "dataset=trees",
        "embedding-dim=8",
        f"num-rounds={ROUNDS}",
        "min-replies=2",
        f"run-name={how}",
    )
    await_(lambda: nodes.rounds_done(how) >= BEFORE, LONG, f"round {BEFORE}")
    # while the nodes have nothing to do, so that what they lose is what they are asked for next
    nodes.pause(SERVER)
    try:
        await_(
            lambda: not any(nodes.busy(name) for name in nodes.node_configs), LONG, "nodes at rest"
        )
        lost = [
            damage(nodes.folder / "state" / choice / how / f"{number:05d}", how)
            for number, choice in enumerate(CHOICES)
        ]
    finally:
        nodes.go_on(SERVER)
    code, output = ended(process)
    assert code == 0, output
    outcome = Run(nodes.results / how)
    assert outcome.summary["status"] == "completed with absences"
    (absent,) = outcome.summary["absences"]
    assert (absent["partition"], absent["asked"], absent["rounds"]) == (0, ROUNDS, ROUNDS - lost[0])
    assert "lost-state = refuse keeps it out of the run; with previous" in absent["reason"]
    notes = [
        (
            f"client 1 lost its personal parameters of round {lost[1]} and went on from those of"
            f" round {lost[1] - 1}"
        ),
        f"client 2 lost its personal parameters of round {lost[2]} and started afresh",
    ]
    dropped = {(row["partition"], int(row["round"])) for row in outcome.clients if row["dropped"]}
    assert dropped == {("0", number) for number in range(lost[0] + 1, ROUNDS + 1)}
    page = (outcome.path / "report.html").read_text()
    monkeypatch.setenv("COLUMNS", "3000")
    (line,) = [
        line for line in nodes.call(SERVER, "status").splitlines() if re.search(rf"\b{how}\b", line)
    ]
    for warning in notes:
        assert warning in "; ".join(outcome.summary["warnings"])
        assert warning[1:] in page  # which begins sentences with a capital
        assert warning in line
    out = f"client 0 (n0) in {absent['rounds']} of {ROUNDS}"
    assert out in page
    assert out in line
