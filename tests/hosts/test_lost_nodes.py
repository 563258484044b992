"""Nodes that are cut off, killed, or stand still in a round: the run and they go on."""

import signal
import time
from dataclasses import dataclass, field

import pytest
from many_hosts import LONG, Hosts, await_, ended

STILL, KILLED, CUT = "n0", "n1", "n2"
PARTITIONS = {STILL: 0, KILLED: 1, CUT: 2}
GONE = "the node is no longer connected"
CUT_FOR = 30.0
LEASE = 61.0
"""Seconds after which Flower gives up a silent node; before, nobody else takes its key."""


@dataclass
class Story:
    """What was done to the nodes of one run, and what came of it."""

    name: str
    timeout: float
    code: int = -1
    output: str = ""
    refused: str = ""
    """What the killed node said when it was started again too early."""
    faulty: dict[str, int] = field(default_factory=dict)
    """The round in which it happened to each node; its reply may have been on the way already."""
    gone: dict[str, int] = field(default_factory=dict)
    """The first round that went on without it, this one or the next."""
    back: dict[str, int] = field(default_factory=dict)
    """The first round after that in which it was back."""
    last: int = 0
    """The first round in which all were."""


@pytest.fixture(scope="module")
def story(hosts: Hosts) -> Story:
    """One run for all three, because most of its time is waiting."""
    story = Story("lost", timeout=round(hosts.patience(12)))
    process = hosts.submit(
        "method=flatland",
        "dataset=trees",
        "embedding-dim=8",
        "num-rounds=100",
        f"run-name={story.name}",
        f"round-timeout={story.timeout}",
        "min-replies=1",
    )
    try:
        hosts.await_round(story.name, 1)
        began = time.monotonic()
        hosts.kill(KILLED)
        if hosts.network is not None:
            hosts.network.cut(CUT)
        story.faulty |= {CUT: 2, KILLED: 2}
        story.refused = hosts.connect(KILLED)
        assert story.refused or time.monotonic() - began > LEASE / 2
        hosts.await_round(story.name, 2)
        if hosts.network is not None:
            time.sleep(max(0.0, began + CUT_FOR - time.monotonic()))
            hosts.network.mend(CUT)
        _await_reply(hosts, story, CUT)
        story.faulty[STILL] = hosts.rounds_done(story.name) + 2
        hosts.await_round(story.name, story.faulty[STILL] - 1)
        hosts.pause(STILL)
        hosts.await_round(story.name, story.faulty[STILL])
        hosts.go_on(STILL)
        _await_reply(hosts, story, STILL)
        time.sleep(max(0.0, began + LEASE - time.monotonic()))
        if story.refused:
            assert hosts.connect(KILLED) == ""
        _await_reply(hosts, story, KILLED)
        await_(lambda: _whole(hosts, story) > 0, LONG, "a round with a reply of each node")
        story.last = _whole(hosts, story)
    finally:
        process.send_signal(signal.SIGTERM)
        story.code, story.output = ended(process)
    return story


def _whole(hosts: Hosts, story: Story) -> int:
    """The first round in which all are back; 0 if there is none yet."""
    rows = hosts.trained(story.name)[max(story.back.values()) - 1 :]
    return next((int(row["round"]) for row in rows if row["replies"] == "3"), 0)


def _await_reply(hosts: Hosts, story: Story, node: str) -> None:
    """Wait until a node takes part again."""

    def is_back() -> bool:
        done = hosts.rounds_done(story.name)
        rows = hosts.clients(story.name, PARTITIONS[node])
        dropped = {
            number: bool(rows[number]["dropped"]) for number in range(story.faulty[node], done + 1)
        }
        gone = next((number for number, is_dropped in dropped.items() if is_dropped), done)
        back = [
            number for number, is_dropped in dropped.items() if number > gone and not is_dropped
        ]
        if back:
            story.gone[node], story.back[node] = gone, back[0]
        return bool(back)

    await_(is_back, LONG, f"a reply of {node}")


def _assert_gone_and_back(hosts: Hosts, story: Story, node: str) -> None:
    rows, rounds = (
        hosts.clients(story.name, PARTITIONS[node]),
        {int(r["round"]): r for r in hosts.trained(story.name)},
    )
    assert story.gone[node] <= story.faulty[node] + 1
    for number in range(story.gone[node], story.back[node]):
        reason = rows[number]["dropped"]
        # Flower gives up a node after the lease, and then says so at once.
        given_up = number > story.gone[node] or story.timeout > LEASE / 2
        assert reason == f"no reply within {story.timeout:g} s" or (given_up and reason == GONE), (
            reason
        )
        assert f"partition {PARTITIONS[node]} ({node}): {reason}" in rounds[number]["reasons"]
    for number in (1, story.back[node], story.last):
        assert rows[number]["dropped"] == ""
        assert int(rows[number]["num_examples"]) > 0


def test_every_reply_is_counted_once_and_no_round_outlasts_its_timeout(hosts, story):
    rounds = hosts.trained(story.name)[: story.last]
    assert len(rounds) == story.last
    for row in rounds:
        assert int(row["replies"]) + int(row["dropped"]) == 3
        assert float(row["seconds"]) < story.timeout + hosts.patience(5)
    assert (rounds[0]["dropped"], rounds[-1]["dropped"]) == ("0", "0")


def test_a_line_that_is_cut_for_30_seconds(hosts, story):
    if hosts.network is None:
        pytest.skip(hosts.reason)
    _assert_gone_and_back(hosts, story, CUT)


def test_a_killed_node_that_is_started_again(hosts, story):
    """It says at once that it is refused, and is taken once Flower has given up its predecessor;
    its personal state is that of its last good round, or it would be dropped for the want of it."""
    _assert_gone_and_back(hosts, story, KILLED)
    if story.refused:
        assert "Failed to initialize the connection to the SuperLink" in story.refused


def test_a_straggler_is_dropped_and_its_late_reply_is_not_counted(hosts, story):
    _assert_gone_and_back(hosts, story, STILL)


def test_the_run_was_stopped_with_its_checkpoint_kept(hosts, story):
    assert story.code == 128 + signal.SIGTERM, story.output
    assert "Stopped by SIGTERM" in story.output
    assert f"run-name={story.name} resume=true" in story.output
    assert hosts.summary(story.name)["status"] == "failed"
