"""One run of secure sums over four nodes in which something is killed at a random moment, again and
again: SuperLink, ServerApp, node. It goes on to the end of the run that nobody disturbed, and no
ledger has a sum too many."""

import contextlib
import json
import random
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from app_runs import Run
from app_runs import run as run_here
from local_cluster import SERVER, LocalCluster, shares, signed
from many_hosts import assert_equal, await_, ended, trained
from tiers import only

from curvfed.extensions.cluster.commands import ClusterError

NODES = 4
NAME = "killed"
SERVERAPP = "serverapp"
USUAL_START = 40.0
"""Seconds that four nodes take to start on two cores with nothing else to do."""

LAST_MOMENT = 8.0
"""Seconds from the first round to the last moment for a kill: three rounds take 15 s."""

KILLS = [(victim, seed) for seed in range(5) for victim in (SERVER, SERVERAPP, "node")]
SETTINGS = {
    "method": "fedavg",
    "embedding-dim": 8,
    "local-epochs": 1,
    "secure-sum": True,
    "min-replies": NODES,
}


@dataclass
class Victims:
    """A cluster, and how many rounds the run in it is to have."""

    nodes: LocalCluster
    slowness: float
    num_rounds: int = 0

    def begin(self, more: int, retries: int = 0) -> "subprocess.Popen[str]":
        """Begin the run, or go on with it: by more rounds if it is complete, with the settings that
        it has if it is not, because a round that nodes have answered keeps them."""
        done = self.nodes.rounds_done(NAME)
        if done == self.num_rounds:
            self.num_rounds = done + more
        resume = ("resume=true",) if (self.nodes.results / NAME / "config.toml").exists() else ()
        settings = [f"{key}={str(value).lower()}" for key, value in SETTINGS.items()]
        timeout = f"round-timeout={60 * self.slowness:.0f}"
        return self.nodes.submit(
            *settings,
            timeout,
            f"num-rounds={self.num_rounds}",
            f"run-name={NAME}",
            f"secure.patience={120 * self.slowness:.0f}",
            *resume,
            retries=retries,
        )

    def await_start(self, since: float) -> None:
        """Wait until a run has heard of all its clients, and so its first round begins."""
        clients = self.nodes.results / NAME / "clients.json"
        await_(
            lambda: clients.exists() and clients.stat().st_mtime > since,
            180 * self.slowness,
            "the first round",
        )

    def server_app(self) -> psutil.Process:
        """The process of the run's ServerApp."""
        outcome = [
            each
            for each in self.nodes.family(SERVER)
            if "flwr-serverapp" in " ".join(each.cmdline())
        ]
        assert outcome, "no ServerApp runs"
        return outcome[-1]

    def last_phase(self) -> str:
        """The phase that ended last."""
        rows = Run(self.nodes.results / NAME).rounds
        return f"{rows[-1]['phase']} of round {rows[-1]['round']}" if rows else "nothing"

    def bring_back(self, name: str) -> None:
        """Start what was killed. A node is taken once Flower has given up its predecessor."""
        deadline = time.monotonic() + 180 * self.slowness
        while self.nodes.program(name).process() is None and time.monotonic() < deadline:
            with contextlib.suppress(ClusterError):
                self.nodes.start_superlink() if name == SERVER else self.nodes.start_node(name)
        self.nodes.wait_online(NODES, 300 * self.slowness)

    def sums(self, name: str) -> list[dict]:
        """The sums that a node has signed; every line of its ledger must be whole."""
        (path,) = self.state(name).glob("ledger-*.jsonl")
        return [
            line for line in map(json.loads, path.read_text().splitlines()) if line["kind"] == "sum"
        ]

    def state(self, name: str) -> Path:
        """A node's `state-path`."""
        return self.nodes.folder / "state" / name


@pytest.fixture(scope="module")
def victims(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victims]:
    folder = tmp_path_factory.mktemp("killed")
    configs = [
        f'{one} state-path="{folder / "state" / f"n{number}"}"'
        for number, one in enumerate(shares(NODES))
    ]
    nodes = LocalCluster(folder, signed(folder / "keys", configs))
    try:
        started = time.monotonic()
        nodes.start()
        yield Victims(nodes, max(1.0, (time.monotonic() - started) / USUAL_START))
    finally:
        nodes.down()


@pytest.mark.parametrize(("victim", "seed"), only(KILLS, lambda case: case[1] == 0))
def test_what_is_killed_at_any_moment_is_started_and_the_run_goes_on(victim, seed, victims):
    drawn = random.Random(f"{victim} {seed}")
    name = drawn.choice(list(victims.nodes.node_configs)) if victim == "node" else victim
    done, since = victims.nodes.rounds_done(NAME), time.time()
    process = victims.begin(3, retries=int(victim == SERVERAPP))
    victims.await_start(since)
    moment = drawn.uniform(0, LAST_MOMENT) * victims.slowness
    time.sleep(moment)
    reached, killed, phase = victims.nodes.rounds_done(NAME), time.monotonic(), victims.last_phase()
    assert process.poll() is None, process.communicate()[0]
    if victim == SERVERAPP:
        victims.server_app().kill()
        code, output = ended(process, 1200 * victims.slowness)
        assert code == 0, output
        assert "Resuming from the last saved round" in output
        assert victims.nodes.summary(NAME)["status"] == "completed"
    else:
        victims.nodes.kill(name)
        if victim == SERVER:
            victims.bring_back(name)
        elif seed % 2:
            # Its group waits for it.
            victims.bring_back(name)
        code, output = ended(process, 600 * victims.slowness)
        if victim == "node" and seed % 2:
            assert code == 0, output
        else:
            assert code == 1, output
        if victim == "node" and not seed % 2:
            error = victims.nodes.summary(NAME)["error"]
            assert re.search(
                rf"partition {name[1:]} \({name}\): (no reply within|the node is no longer connected)",
                error,
            ), error
            if seed == 0:
                assert_not_without(name, victims)
        victims.bring_back(name)
    kept = victims.nodes.rounds_done(NAME)
    assert kept >= reached
    print(
        f"{name} killed {moment:.0f} s into a run from round {done}, after {phase}: rounds"
        f" {reached} before, {kept} kept, {time.monotonic() - killed:.0f} s until all is up again"
    )
    assert_no_sum_too_many(victims)


def assert_not_without(name: str, victims: Victims) -> None:
    """The run does not go on without a node; it says which one to start."""
    code, output = ended(victims.begin(1), 600 * victims.slowness)
    assert code == 1, output
    assert re.search(
        rf"partition-id {name[1:]} took part before and is missing: start its node, and resume",
        output,
    ), output


def assert_no_sum_too_many(victims: Victims) -> None:
    """Every ledger has each sum once, all over the same nodes."""
    for name in victims.nodes.node_configs:
        sums = victims.sums(name)
        assert len({line["session"] for line in sums}) == len(sums)
        assert all(line["cohort"] == list(range(NODES)) for line in sums), sums


def test_the_end_is_that_of_a_run_that_nobody_disturbed(victims, tmp_path):
    """Sums are exact, so their order and their masks make no difference to the last bit."""
    for name in (SERVER, *victims.nodes.node_configs):
        victims.bring_back(name)
    code, output = ended(victims.begin(1), 600 * victims.slowness)
    assert code == 0, output
    num_rounds = victims.num_rounds
    keys = {key.replace("-", "_"): value for key, value in SETTINGS.items()}
    outcome = Run(victims.nodes.results / NAME)
    expected = run_here(tmp_path, clients=NODES, num_rounds=num_rounds, **keys)
    assert_equal(outcome, expected)
    assert len(trained(outcome)) == num_rounds
    assert_no_sum_too_many(victims)
    signed_by: Counter[int] = Counter()
    for name in victims.nodes.node_configs:
        sums = victims.sums(name)
        signed_by.update({line["round"] for line in sums if line["phase"] == "train"})
        notes = victims.nodes.call(name, "ledger", str(victims.state(name)))
        assert notes.count("  sum      ") == len(sums)
    assert signed_by.keys() == set(range(1, num_rounds + 1))
    assert min(signed_by.values()) == NODES, signed_by
