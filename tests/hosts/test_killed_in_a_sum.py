"""Ten SuperNodes and one shot: two of them lose their power in the middle of the sum. Their group is
left out, and the other one ends it."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from app_runs import Run
from local_cluster import LocalCluster, shares
from many_hosts import await_, ended

NODES = 10
DEAD = {"n5": 5, "n8": 8}
GROUP = 5
PATIENCE = 5
USUAL_START = 60.0
"""Seconds that ten nodes take to start on two cores with nothing else to do."""


@dataclass
class Sum:
    """A one-shot run in which nodes were killed."""

    timeout: float
    code: int
    output: str
    result: Run

    def reasons(self) -> dict[str, dict[int, str]]:
        """Who was dropped and why, by phase."""
        rows = [row for row in self.result.clients if row["dropped"]]
        return {
            phase: {int(row["partition"]): row["dropped"] for row in rows if row["phase"] == phase}
            for phase in {row["phase"] for row in rows}
        }


@pytest.fixture(scope="module")
def a_sum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sum]:
    """Killed once all have each other's keys: the masks then cancel nothing without them."""
    nodes = LocalCluster(tmp_path_factory.mktemp("sum"), shares(NODES))
    try:
        started = time.monotonic()
        nodes.start()
        slowness = max(1.0, (time.monotonic() - started) / USUAL_START)
        timeout = round(20 * slowness)
        process = nodes.submit(
            "method=hull",
            "dataset=uniform",
            "points.num=600",
            "run-name=sum",
            f"round-timeout={timeout}",
            f"secure.patience={PATIENCE}",
            "hull.groups=1",
        )
        rounds = nodes.results / "sum" / "rounds.csv"
        await_(
            lambda: rounds.exists() and ",agree," in rounds.read_text(),
            360 * slowness,
            "the exchange of keys",
        )
        with ThreadPoolExecutor() as pool:
            list(pool.map(nodes.kill, DEAD))
        code, output = ended(process, 5 * timeout + 60 * slowness)
        yield Sum(timeout, code, output, Run(rounds.parent))
    finally:
        nodes.down()


def test_the_run_completes(a_sum: Sum) -> None:
    assert a_sum.code == 0, a_sum.output
    assert a_sum.result.summary["status"] == "completed"
    assert a_sum.result.summary["num_clients"] == NODES


def test_the_group_of_the_dead_is_dropped_with_the_reason(a_sum: Sum) -> None:
    reasons = a_sum.reasons()
    died_in = reasons["holders"]
    assert set(died_in) == set(range(GROUP, NODES))
    for partition in DEAD.values():
        assert died_in[partition].startswith(
            (f"no reply within {a_sum.timeout} s", "the node is no longer connected")
        ), died_in
    for partition in set(died_in) - set(DEAD.values()):
        assert "partition 5 (n5)" in died_in[partition]
        assert "partition 8 (n8)" in died_in[partition]
    # Nobody asks the others of the group for hulls.
    assert "hulls" not in reasons


def test_the_hulls_of_the_others_are_exact(a_sum: Sum) -> None:
    metrics = a_sum.result.summary["metrics"]
    assert metrics["hulls_exact"] is True
    assert metrics["clients_summed"] == NODES - GROUP
    assert metrics["groups_left_out"] == 1


def test_no_phase_outlasts_its_timeout(a_sum: Sum) -> None:
    for row in a_sum.result.rounds:
        # The dead are asked, waited for, and asked again while Flower takes them for connected.
        assert float(row["seconds"]) < 2 * a_sum.timeout + PATIENCE + 15, row
