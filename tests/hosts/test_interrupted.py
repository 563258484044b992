"""Runs that are stopped, and a killed SuperLink: the run goes on to the same end."""

import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from local_cluster import SERVER
from many_hosts import (
    FLATLAND,
    LONG,
    NODES,
    Hosts,
    assert_equal,
    await_,
    ctrl_c,
    ended,
    pairs,
    reference,
)

LINKS = {"method": "links", "dataset": "balanced-tree"}
KILLED = {"flatland": FLATLAND, "links": LINKS, "links-summed": LINKS | {"secure-sum": True}}
"""Runs under which the SuperLink is killed."""


def begin(
    hosts: Hosts, name: str, num_rounds: int, done: int, settings: Mapping[str, Any] = FLATLAND
) -> "subprocess.Popen[str]":
    """Begin a run or go on with it, and return in the round after `done`."""
    resume = ("resume=true",) if (hosts.results / name).exists() else ()
    process = hosts.submit(*pairs(name, num_rounds, *resume, settings=settings))
    hosts.await_round(name, done)
    return process


def finish(
    hosts: Hosts, name: str, num_rounds: int, folder: Path, settings: Mapping[str, Any] = FLATLAND
) -> None:
    """Go on to the end, which must be that of a run that nobody stopped: on the same nodes under a
    secure sum, because real ones keep what few of them hold and round their scores."""
    code, output = ended(hosts.submit(*pairs(name, num_rounds, "resume=true", settings=settings)))
    assert code == 0, output
    if settings.get("secure-sum"):
        whole = f"{name}-whole"
        code, output = ended(hosts.submit(*pairs(whole, num_rounds, settings=settings)))
        assert code == 0, output
        assert_equal(hosts.result(name), hosts.result(whole))
    else:
        assert_equal(hosts.result(name), reference(folder, num_rounds, settings))


def test_ctrl_c_and_sigterm_end_a_run_that_can_go_on(hosts, tmp_path):
    stops: list[tuple[int, Callable[[subprocess.Popen[str]], None]]] = [
        (signal.SIGINT, ctrl_c),
        (signal.SIGTERM, subprocess.Popen.terminate),
    ]
    for done, (signum, stop) in enumerate(stops, 1):
        process = begin(hosts, "stopped", 3, done)
        hosts.pause(NODES[-1])  # or the round might end before the stop is heard
        try:
            stop(process)
            code, output = ended(process)
        finally:
            hosts.go_on(NODES[-1])
        assert code == 128 + signum, output
        assert f"Stopped by {signal.Signals(signum).name}" in output
        assert "run-name=stopped resume=true" in output
        assert hosts.rounds_done("stopped") == done
        for name in ("summary.json", "report.html"):
            await_(lambda name=name: (hosts.results / "stopped" / name).exists(), LONG, name)
        summary = hosts.summary("stopped")
        assert (summary["status"], summary["error"]) == ("failed", "interrupted")
    finish(hosts, "stopped", 3, tmp_path)


@pytest.mark.parametrize("name", KILLED)
def test_a_superlink_that_is_killed_and_started_again(name, hosts, tmp_path):
    """The nodes come back by themselves, and the run goes on from its last whole round. Clients
    whose message was lost with the SuperLink end, too."""
    process = begin(hosts, name, 2, 1, KILLED[name])
    hosts.kill(SERVER)
    hosts.start_superlink()
    code, output = ended(process)
    assert code == 1, output
    assert f"run-name={name} resume=true" in output
    assert hosts.rounds_done(name) == 1
    hosts.wait_online(len(NODES))
    finish(hosts, name, 2, tmp_path, KILLED[name])
    await_(lambda: not any(hosts.busy(node) for node in NODES), LONG, "no client that is left")
