"""A node of a masked run is away, frozen or killed and started again. Its group waits, and the run
goes on by itself to the numbers of a run without the absence."""

import re
import time
from collections.abc import Iterator

import pytest
from app_runs import Run
from app_runs import run as run_here
from local_cluster import LocalCluster, cluster, shares, signed
from many_hosts import LONG, assert_equal, await_, ended
from tiers import only

NODES = 3
AWAY = "n1"
ROUNDS = 6
SETTINGS = {
    "method": "flatland",
    "dataset": "trees",
    "embedding-dim": 8,
    "num-rounds": ROUNDS,
    "secure-sum": True,
}
TEN_MINUTES = 600.0
ABSENCES = only(
    [("frozen", 90.0), ("killed", 90.0), ("frozen", TEN_MINUTES), ("killed", TEN_MINUTES)],
    lambda case: case[1] < TEN_MINUTES,
)
"""Flower gives up a silent node after a minute."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("away")
    configs = [
        f'{share} state-path="{folder / "state" / str(number)}"'
        for number, share in enumerate(shares(NODES))
    ]
    with cluster(folder / "files", signed(folder / "keys", configs)) as started:
        yield started


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run without an absence, in this process."""
    keys = {key.replace("-", "_"): value for key, value in SETTINGS.items()}
    return run_here(tmp_path_factory.mktemp("undisturbed"), clients=NODES, **keys)


@pytest.mark.parametrize(("how", "seconds"), ABSENCES)
def test_the_run_goes_on_when_the_node_is_back(how, seconds, nodes, undisturbed):
    name = f"{how}-{seconds:.0f}"
    settings = [f"{key}={str(value).lower()}" for key, value in SETTINGS.items()]
    limits = [f"min-replies={NODES}", "round-timeout=60"]
    process = nodes.submit(*settings, *limits, f"run-name={name}")
    await_(lambda: nodes.rounds_done(name) >= 1, LONG, "the first round")
    began = time.monotonic()
    if how == "frozen":
        nodes.pause(AWAY)
    else:
        nodes.kill(AWAY)
    try:
        time.sleep(seconds)
        done = nodes.rounds_done(name)
        assert process.poll() is None, process.communicate()[0]
    finally:
        away = time.monotonic() - began
        if how == "frozen":
            nodes.go_on(AWAY)
        else:
            nodes.start_node(AWAY)
    assert done < ROUNDS
    code, output = ended(process, 2 * LONG)
    print(
        f"{AWAY} {how} for {away:.0f} s after round {done}: the run ended"
        f" {time.monotonic() - began - away:.0f} s later"
    )
    assert code == 0, output
    assert re.search(r"waiting for partitions \[1\], up to \d+ s more", output), output
    assert_equal(Run(nodes.results / name), undisturbed)
