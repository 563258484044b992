"""Four sites with data, keys and policies of their own: what each task sends in sums."""

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from app_runs import Run
from graph_fixtures import user_fields, write_user_graph
from image_fixtures import write_classes
from local_cluster import LocalCluster, signed

from curvfed.extensions.cluster.commands import ClusterError

SITES = 4
POLICIES = {
    "n1": "[leaves]\nsecure-sum = true\n",
    "n2": (
        '[runs]\nmethods = ["fedavg", "flatland", "spherefed", "hull"]\nkeys = { "local-epochs" = {'
        " max = 1 } }\n"
    ),
    "n3": "[leaves]\nhull-max-share = 0.9\n[sums]\ncontributors = 4\nregroups-per-quarter = 0\n",
}
"""What the sites' own files say; that of the first one stays as it was made."""

RUNS = {
    "fedavg": ("graph.pt", 2, ["train", "train"]),
    "flatland": ("graph.pt", 2, ["train", "train"]),
    "spherefed": ("images", 1, ["holders", "train", "calibrate", "fine-tune"]),
    "hull": ("cells.csv", 0, ["holders", "hulls", "evaluate"]),
}
"""Which data a method works on, for how many rounds, and what it sums."""


def write_data(folder: Path, site: int) -> None:
    """A site's graph, images and points."""
    folder.mkdir(parents=True)
    write_user_graph(folder / "graph.pt", **user_fields(seed=site))
    write_classes(folder / "images", {"cat": 40, "dog": 40}, seed=site)
    rng = np.random.default_rng(site)
    names = ["B cell", "T cell"] * 20
    places = rng.uniform(-0.2, 0.2, (40, 2)) + [[0.3 * (-1) ** row, 0.1] for row in range(40)]
    rows = [f"{x:.4f},{y:.4f},{name}\n" for (x, y), name in zip(places, names, strict=True)]
    (folder / "cells.csv").write_text("".join(["x,y,label\n", *rows]))


class Hospitals(LocalCluster):
    """Four nodes, one per site; `state/NAME` is where a site keeps its ledger."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ["" for _ in range(SITES)])
        self._keys = signed(folder / "keys", [f"partition-id={site}" for site in range(SITES)])
        for site in range(SITES):
            write_data(folder / "data" / str(site), site)
        self.data = ""

    def init(self) -> None:
        """Make certificates and keys; each site then edits its policy."""
        super().init()
        for name, text in POLICIES.items():
            self.files.node(name).policy.write_text(text)

    def serve(self, data: str) -> None:
        """All sites serve these data of theirs; they start anew if they served others."""
        for site, (name, keys) in enumerate(zip(self.node_configs, self._keys, strict=True)):
            places = (
                f'data-path="{self.folder / "data" / str(site) / data}"'
                f' state-path="{self.state(name)}"'
            )
            self.node_configs[name] = f"{keys} {places}"
        if not self.data:
            self.start()
        elif data != self.data:
            for name in self.node_configs:
                self.program(name).stop()
            with ThreadPoolExecutor() as pool:
                list(pool.map(self.start_node, self.node_configs))
            self.wait_online(SITES)
        self.data = data

    def state(self, name: str) -> Path:
        """A site's `state-path`."""
        return self.folder / "state" / name

    def lines(self, name: str, run: str, kind: str) -> list[dict]:
        """What a site's ledger has about a run."""
        (path,) = self.state(name).glob("ledger-*.jsonl")
        outcome = [json.loads(line) for line in path.read_text().splitlines()]
        return [line for line in outcome if (line.get("run"), line["kind"]) == (run, kind)]


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hospitals]:
    one = Hospitals(tmp_path_factory.mktemp("hospitals"))
    try:
        yield one
    finally:
        one.down()


@pytest.mark.parametrize("method", RUNS)
def test_sites_sum_and_keep_it_on_record(method, sites):
    data, num_rounds, summed = RUNS[method]
    sites.serve(data)
    settings = [
        "secure-sum=true",
        "min-replies=4",
        "local-epochs=1",
        "embedding-dim=8",
        f"num-rounds={num_rounds}",
        f"seed={list(RUNS).index(method)}",  # a start for each
    ]
    code, output = sites.run(f"method={method}", f"run-name={method}", *settings)
    assert code == 0, output
    outcome = Run(sites.results / method)
    assert outcome.summary["status"] == "completed"
    assert outcome.summary["dataset"] == "own data of 4 nodes"
    assert_no_single_client(outcome)
    for name in sites.node_configs:
        sums = sites.lines(name, method, "sum")
        assert [line["phase"] for line in sums] == summed
        assert all(line["cohort"] == list(range(SITES)) for line in sums)
        assert len(sites.lines(name, method, "run")) == 1
        notes = sites.call(name, "ledger", str(sites.state(name)))
        assert len(
            re.findall(rf"  sum      {method} .* with partitions \[0, 1, 2, 3\], sum ", notes)
        ) == len(sums)
        assert re.search(rf"  run      {method} +method = {method}$", notes, re.MULTILINE)


def assert_no_single_client(outcome: Run) -> None:
    """What the run directory says of a client is who answered, how many bytes, and when."""
    notes = {
        name for row in outcome.clients for name, value in row.items() if value not in ("", "0")
    }
    assert notes <= {"round", "phase", "partition", "bytes_up", "bytes_down", "seconds"}
    for figures in (outcome.summary, outcome.summary["best_validation"] or {}):
        assert figures.get("personal_accuracy_std") is None
        assert figures.get("personal_accuracy_worst_decile") is None
    assert all(not row["personal_accuracy_std"] for row in outcome.rounds)
    assert all(about["statistics"] == {} for about in outcome.described["clients"])


def test_a_run_that_a_site_does_not_allow_names_its_line(sites):
    """One site forbids the method, the others are too few: the message names the line."""
    sites.serve("graph.pt")
    sites.files.node("n1").policy.write_text('[runs]\nmethods = ["hull"]\n')
    code, output = sites.run(
        "method=fedavg", "run-name=refused", "secure-sum=true", "min-replies=4", "num-rounds=1"
    )
    sites.files.node("n1").policy.write_text(POLICIES["n1"])
    assert code == 1, output
    line = 'this node\'s policy.toml does not allow method = "fedavg": [runs] methods = ["hull"]'
    assert f"partition-id 1: {line}" in output
    assert any(line in one["reason"] for one in sites.lines("n1", "refused", "refusal"))


def test_a_site_with_a_wrong_policy_does_not_start(sites):
    sites.program("n3").stop()
    policy = sites.files.node("n3").policy
    policy.write_text("[sums]\ncontributers = 4\n")
    with pytest.raises(
        ClusterError,
        match=r"line 2: there is no \"contributers\"; allowed are group-size, contributors, weight-share",
    ):
        sites.start_node("n3")
    policy.write_text(POLICIES["n3"])
