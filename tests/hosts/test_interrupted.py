"""Runs that are stopped, and a SuperLink that is killed: what was done is kept, and the run goes on
to the same end."""

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from local_cluster import SERVER
from many_hosts import LONG, NODES, Hosts, assert_equal, await_, ctrl_c, ended, pairs, reference


def begin(hosts: Hosts, name: str, num_rounds: int, done: int) -> "subprocess.Popen[str]":
    """Begin a run or go on with it, and return in the round after `done`."""
    resume = ("resume=true",) if (hosts.results / name).exists() else ()
    process = hosts.submit(*pairs(name, num_rounds, *resume))
    hosts.await_round(name, done)
    return process


def finish(hosts: Hosts, name: str, num_rounds: int, folder: Path) -> None:
    """Go on to the end, which must be that of a run that nobody stopped."""
    code, output = ended(hosts.submit(*pairs(name, num_rounds, "resume=true")))
    assert code == 0, output
    assert_equal(hosts.found(name), reference(folder, num_rounds))


def test_ctrl_c_and_sigterm_end_a_run_that_can_go_on(hosts: Hosts, tmp_path: Path) -> None:
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


def test_a_superlink_that_is_killed_and_started_again(hosts: Hosts, tmp_path: Path) -> None:
    """The nodes come back by themselves, and the run goes on from its last whole round. Clients
    whose message was lost with the SuperLink end, too."""
    process = begin(hosts, "killed", 2, 1)
    hosts.kill(SERVER)
    hosts.start_superlink()
    code, output = ended(process)
    assert code == 1, output
    assert "run-name=killed resume=true" in output
    assert hosts.rounds_done("killed") == 1
    hosts.wait_online(len(NODES))
    finish(hosts, "killed", 2, tmp_path)
    await_(lambda: not any(hosts.busy(name) for name in NODES), LONG, "no client that is left")
