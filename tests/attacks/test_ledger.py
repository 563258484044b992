"""What several sums tell an honest server by ordinary commands, and what ledgers say to it."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from absent_extensions import needs_tables
from app_runs import asked, real_nodes, run
from errors import refuses
from graph_fixtures import user_fields
from hull_nodes import QUICK, nodes_of
from hypothesis import given
from hypothesis import strategies as st
from policies import with_policy
from secure_sums import BASIS, other_basis
from tiers import examples

from curvfed.client_app.node import Node, ledger_file, ledger_runs
from curvfed.client_app.node import ledger as ledger_module
from curvfed.client_app.node.ledger import Ledger, ledger_of
from curvfed.client_app.node.policy import Policy
from curvfed.client_app.one_shot import _hashes
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure import masked_cohort
from curvfed.server_app.secure.groups import Groups, complete_groups
from curvfed.strategies.config import secure_phases
from curvfed.strategies.config.secure_phases import groups
from curvfed.strategies.errors import ConfigError, SecureSumError
from curvfed.strategies.hull.codec import PublicParameters
from curvfed.strategies.hull.local import local_hulls
from curvfed.strategies.secure_sum import Session
from curvfed.strategies.wire.exchange import FederationError
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec

pytestmark = pytest.mark.usefixtures("own_home")


class Observer:
    """What an honest server sees of sums of training, and each client's part to compare."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sums: list[dict[str, np.ndarray]] = []
        self.parts: list[tuple[list[str], np.ndarray]] = []
        decode, weigh = masked_cohort.decoded, secure_phases.weighted_update

        def watched_decoding(residues: Any, encoding: Any, like: Any) -> Any:
            total, means = decode(residues, encoding, like)
            if like:
                self.sums.append(dict(total.arrays))
            return total, means

        def watched_weighing(arrays: Any, *arguments: Any) -> Any:
            vector, norm = weigh(arrays, *arguments)
            self.parts.append((sorted(arrays), vector))
            return vector, norm

        patch.setattr(masked_cohort, "decoded", watched_decoding)
        patch.setattr(secure_phases, "weighted_update", watched_weighing)

    def error(self, estimate: Mapping[str, np.ndarray], client: int) -> float:
        """Relative error of an estimate of what a client contributed to the first sum."""
        names, vector = self.parts[client]
        ends = np.cumsum([self.sums[0][name].size for name in names])[:-1]
        by_name = dict(zip(names, np.split(vector, ends), strict=True))
        truth = np.concatenate([by_name[name] for name in estimate])
        guess = np.concatenate([array.ravel() for array in estimate.values()])
        return float(np.linalg.norm(guess - truth) / np.linalg.norm(truth))

    def difference(self) -> dict[str, np.ndarray]:
        """Of the first sum and the last, where both have the same parameters."""
        return {name: self.sums[0][name] - array for name, array in self.sums[-1].items()}


@pytest.fixture
def observer(monkeypatch: pytest.MonkeyPatch) -> Observer:
    return Observer(monkeypatch)


def hospitals(folder: Path, number: int = 4) -> list[dict[str, Any]]:
    return real_nodes(folder, [user_fields(60, seed=index) for index in range(number)])


def cells(seed: int, number: int = 60) -> str:
    """Points of two classes."""
    rng = np.random.default_rng(seed)
    rows = [
        (*(rng.uniform(-0.2, 0.2, 2) + (0.5 if row % 2 else -0.5)), row % 2)
        for row in range(number)
    ]
    return "\n".join(["x,y,label", *(f"{x:.6f},{y:.6f},{label}" for x, y, label in rows)])


SUMMED: dict[str, Any] = {"method": "fedavg", "secure_sum": True, "num_rounds": 1}

LATER: dict[str, dict[str, Any]] = {
    "the same run": {},
    "another method": {"method": "fedper"},
    "another seed": {"seed": 5},
    "other settings": {"learning_rate": 1e-30, "aggregation": "fedopt"},
}
"""Runs after a first one, which one node less takes part in."""

OTHERS = r"always summed with partitions \[0, 1, 2, 3\]; a sum without \[3\]"


def lying(patch: pytest.MonkeyPatch, chosen: Callable[[Sequence[int]], list[int]] = list) -> None:
    """A server that sums the nodes that it likes."""
    patch.setattr(Groups, "of", lambda groups, clients, number: [tuple(chosen(clients))])


def test_no_later_run_sums_fewer_nodes(tmp_path, observer, monkeypatch):
    """The difference of two sums was the vector of the node that was away, to the last bit."""
    nodes = hospitals(tmp_path / "nodes")
    run(tmp_path, "first", nodes=nodes, **SUMMED)
    with refuses(
        "incomplete-group", "[0, 1, 2, 3] are not summed without partitions [3]", error=ConfigError
    ):
        run(tmp_path, "away", nodes=nodes[:3], **SUMMED)
    lying(monkeypatch)
    for name, settings in LATER.items():
        with pytest.raises(RoundError, match=OTHERS):
            run(tmp_path, name.replace(" ", "-"), nodes=nodes[:3], **SUMMED | settings)
    assert len(observer.sums) == 1
    monkeypatch.setattr(Ledger, "_check_members", lambda *_: None)
    monkeypatch.setattr(Ledger, "admit", lambda *_, **__: None)
    run(tmp_path, "unguarded", nodes=nodes[:3], **SUMMED | LATER["another method"])
    assert observer.error(observer.sums[0], 3) > 0.1
    assert observer.error(observer.difference(), 3) < 1e-6  # the attack is real


def test_a_round_that_is_resumed_without_one_node_waits_for_it(tmp_path, observer):
    nodes = hospitals(tmp_path / "nodes")
    run(tmp_path, nodes=nodes, **SUMMED)
    # as after a kill between the sum and the checkpoint
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    resumed = {**SUMMED, "resume": True}
    with pytest.raises(Exception, match=r"without partitions \[3\]|3 of 4"):
        run(tmp_path, nodes=nodes[:3], **resumed)
    assert len(observer.sums) == 1
    run(tmp_path, nodes=nodes, **resumed)  # the same cohort is asked anew, and tells nothing new
    assert all(np.allclose(array, 0, rtol=0, atol=1e-6) for array in observer.difference().values())


def test_a_server_that_draws_other_nodes_each_round_gets_one_sum(tmp_path, observer, monkeypatch):
    """Sums over four different threes of four nodes were solved for every single vector."""
    nodes = hospitals(tmp_path / "nodes")
    with refuses("secure-sum-with-fraction-train", error=ConfigError):
        run(tmp_path, "drawn", nodes=nodes, **SUMMED | {"fraction_train": 0.75})
    drawn = iter([[0, 1, 2]] * 3 + [[0, 1, 3]])  # two checks before the rounds
    lying(monkeypatch, lambda clients: next(drawn))
    with pytest.raises(RoundError, match="a sum without"):
        run(tmp_path, nodes=nodes, **SUMMED | {"num_rounds": 2})
    assert len(observer.sums) == 1


@needs_tables
def test_hulls_of_all_nodes_but_one_are_not_summed_after_those_of_all(tmp_path, monkeypatch):
    """The hulls that only the first sum has were those of the node that was away."""
    nodes = nodes_of(tmp_path / "nodes", [cells(seed) for seed in range(4)])
    run(tmp_path, "all", nodes=nodes, **QUICK)
    lying(monkeypatch)
    with pytest.raises(RoundError, match=OTHERS):
        run(tmp_path, "three", nodes=nodes[:3], **QUICK)


def graphs_of(*trained: int) -> list[dict[str, Any]]:
    """Graphs with these numbers of training nodes; 0 for the default."""
    graphs = []
    for seed, number in enumerate(trained):
        role = torch.arange(60) < number
        masks = {"train_mask": role, "val_mask": role & False, "test_mask": ~role}
        graphs.append(user_fields(60, seed=seed) | (masks if number < 60 else {}))
    return graphs


def test_a_node_without_examples_is_summed_all_the_same(tmp_path):
    """A sum without it would be over other nodes than the one of scores."""
    nodes = real_nodes(tmp_path / "nodes", graphs_of(60, 60, 60, 0))
    result = run(tmp_path, nodes=nodes, **SUMMED)
    assert [row["replies"] for row in result.rounds if row["phase"] == "train"] == ["4"]


def test_members_with_an_example_each_hide_no_other(tmp_path, observer):
    """The sum was the vector of the third member to 9%."""
    nodes = real_nodes(tmp_path / "nodes", graphs_of(60, 1, 1))
    with pytest.raises(RoundError, match="have too few examples to hide this node's"):
        run(tmp_path, "few", nodes=nodes, **SUMMED)
    assert not observer.sums
    for share, low, high in ((0.5, 0.4, 10), (1.0, 0, 0.1)):
        policy = f"[sums]\nothers-examples = 2\nweight-share = {share}\n"
        observer.sums.clear()
        observer.parts.clear()
        others = real_nodes(tmp_path / f"nodes{share}", graphs_of(60, 1, 1))
        run(tmp_path, f"run{share}", nodes=with_policy(tmp_path, others, policy), **SUMMED)
        assert low < observer.error(observer.sums[0], 0) < high


PUBLIC = PublicParameters(-1.0, 0.999, 0.01, num_classes=2, num_clients=3, cap=128)


@pytest.mark.parametrize(
    ("limit", "minimum", "maximum"), [(1.0, 20, 20), (0.3, 1, 19), (0.05, 0, 0)]
)
@needs_tables
def test_points_count_over_all_splits(limit, minimum, maximum, tmp_path):
    """A run with another split reveals other points. At 1.0 none of 20 is refused, as where the
    points of all splits counted against those of one; below, all together stay under the limit."""
    path = tmp_path / "cells.csv"
    path.write_text(cells(0, 100))
    node = Node(partition=0, data_path=path, state_path=tmp_path / "state", rules=Policy())
    ledger = ledger_of(node)
    done = 0
    for seed in range(20):
        data = PointDataset(PointSpec("own", tmp_path, split_seed=seed)).own(path)
        hulls = local_hulls(data.train_points, data.train_labels, PUBLIC)
        points, own_points = (
            _hashes(array, node) for array in (hulls.revealed(PUBLIC), data.points)
        )
        assert len(own_points) == 100
        with suppress(ConfigError):
            ledger.reveal(str(seed), points, own_points, limit)
            done += 1
    assert minimum <= done <= maximum
    revealed = [point for line in ledger.lines("points") for point in line["points"]]
    assert len(revealed) <= limit * 100


def test_points_of_former_data_do_not_count(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.reveal("one", {"a", "b"}, {"a", "b"}, 1.0)
    ledger.reveal("two", {"c"}, {"c", "d"}, 0.5)
    with pytest.raises(ConfigError, match="hull-max-share"):
        ledger.reveal("three", {"d"}, {"c", "d"}, 0.5)


OTHER_HULLS: list[dict[str, Any]] = [
    {},
    {"points__hold_out": "validation"},
    {"hull__epsilon": 0.1},
    {"points__hold_out": "validation", "hull__epsilon": 0.1},
]


@needs_tables
def test_runs_with_other_hulls_end_at_the_limit(tmp_path):
    nodes = nodes_of(
        tmp_path / "nodes", [cells(seed, 300) for seed in range(3)], **{"hull-max-share": 0.12}
    )
    nodes = with_policy(tmp_path, nodes, "[runs]\nconfigurations = 9\n")
    done = 0
    for number, settings in enumerate(OTHER_HULLS):
        with suppress(RoundError, ConfigError):
            run(tmp_path, str(number), nodes=nodes, **QUICK | settings)
            done += 1
    assert 1 <= done < 4


def signer(folder: Path, roster: Sequence[int] | None = None) -> Callable[..., None]:
    """Node 0 is in sums of a run over some nodes."""
    ledger = Ledger(folder / "ledger.jsonl")
    return lambda run, cohort: ledger.note_sum(
        session(run, cohort), BASIS, "", ledger.group(0, roster), {}
    )


def test_the_first_sum_decides_the_group_without_a_roster(tmp_path):
    sign = signer(tmp_path)
    sign("a", [0, 1, 2])
    for cohort, change in (([0, 1], "without [2]"), ([0, 1, 2, 3], "with [3]")):
        with refuses("other-group", change, error=SecureSumError):
            sign("b", cohort)
    sign("c", [0, 1, 2])


def test_the_roster_decides_the_group_and_a_changed_one_is_refused(tmp_path):
    with refuses("other-group", "without [4]", error=SecureSumError):
        signer(tmp_path, range(5))("a", [0, 1, 2, 3])
    signer(tmp_path, range(5))("a", range(5))
    for roster in (range(6), range(4), None):
        with refuses("changed-group" if roster else "other-group", error=SecureSumError):
            signer(tmp_path, roster)("b", roster or range(4))
    Ledger(tmp_path / "ledger.jsonl").regroup(1)
    with refuses("regroups-per-quarter", "allowed is 1", error=ConfigError):
        Ledger(tmp_path / "ledger.jsonl").regroup(1)
    signer(tmp_path, range(6))("b", range(6))
    with refuses("not-in-roster", error=ConfigError):
        signer(tmp_path, [1, 2, 3])("c", [1, 2, 3])


@given(st.sets(st.integers(0, 500), min_size=1, max_size=60), st.integers(2, 20), st.randoms())
@examples(200)
def test_a_roster_divides_its_nodes(roster: set[int], size: int, rng: Random):
    """Every node finds the same groups, whatever the order of its files."""
    shuffled = sorted(roster, key=lambda _: rng.random())
    divided = groups(shuffled, size=size)
    assert sorted(node for group in divided for node in group) == sorted(roster)
    assert divided == groups(sorted(roster), size=size)
    assert all(size <= len(group) < 2 * size for group in divided) or len(divided) == 1


def test_a_policy_makes_groups_larger(tmp_path):
    """Of 100 nodes, 4 colluders sufficed."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    roster = range(100)
    assert len(ledger.group(7, roster)) == 5
    policy = Policy.model_validate({"sums": {"group-size": 20}})
    assert ledger.group(7, roster, policy.sums.group_size) == tuple(range(20))


@given(st.data())
@examples(200)
def test_a_server_sums_groups_that_are_whole_and_agree(data: st.DataObject):
    """Groups that miss a node, or that not all members state, are named and left out."""
    roster = list(range(data.draw(st.integers(1, 40))))
    present = data.draw(st.sets(st.sampled_from(roster), min_size=1))
    unlike = data.draw(st.sets(st.sampled_from(roster)))
    stated = {p: tuple(g) for g in groups(roster) for p in g}
    stated |= {p: (*stated[p], 99) for p in unlike}
    complete, reasons = complete_groups(sorted(present), stated)
    for group in groups(roster):
        is_whole = set(group) <= present and not unlike & set(group)
        assert (group in complete) == (is_whole and len(group) > 1)
    left_out = present - {p for group in complete for p in group}
    assert bool(left_out) == bool(reasons)


def session(name: str, cohort: Sequence[int]) -> Session:
    return Session(name, "train", 1, 2**61 - 1, 3, tuple(cohort))


def test_a_node_is_in_a_sum_once_also_after_a_restart(tmp_path):
    """The same vector again is no new sum; one from other parameters, data or sizes is refused."""
    path = tmp_path / "ledger.jsonl"
    for _ in range(2):
        signer(tmp_path)("a", [0, 1, 2])
    ledger = Ledger(path)
    group = ledger.group(0, None)
    what = session("a", [0, 1, 2])
    for changed, basis, data in (
        (what, other_basis("parameters"), ""),
        (what, other_basis("state"), ""),
        (what, BASIS, "other data"),
        (replace(what, length=4), BASIS, ""),
    ):
        with refuses("repeated-sum", "train of round 1", error=SecureSumError):
            ledger.note_sum(changed, basis, data, group, {})
    signer(tmp_path)("b", [0, 1, 2])
    assert [line["run"] for line in Ledger(path).lines("sum")] == ["a", "b"]
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_torn_line_is_left_out_and_the_next_one_is_whole(cut, tmp_path):
    path = tmp_path / "ledger.jsonl"
    book = Ledger(path)
    for name in "ab":
        signer(tmp_path)(name, [0, 1, 2])
    content = path.read_bytes()
    path.write_bytes(content[:-cut])  # what a power cut leaves
    signer(tmp_path)("c", [0, 1, 2])
    runs = [line["run"] for line in book.lines("sum")]
    assert runs in (["a", "c"], ["a", "b", "c"] if cut == 1 else ["a", "c"])


APPEND = """
import sys
from pathlib import Path
from curvfed.client_app.node.ledger import Ledger
book = Ledger(Path(sys.argv[1]))
for number in range(10**6):
    book.append("run", run=f"{sys.argv[2]}-{number}", text="x" * 3000)
"""


def test_killed_writers_tear_no_line_of_others(tmp_path):
    """The last of three goes on below what the others left."""
    path = tmp_path / "ledger.jsonl"
    path.touch()
    writers = [
        subprocess.Popen([sys.executable, "-c", APPEND, str(path), name], cwd=Path.cwd())
        for name in "abc"
    ]
    for killed in (writers[:2], writers[2:]):
        size = path.stat().st_size + 60_000
        text = ""
        while len(text) < size or not all(f'"{name}-0"' in text for name in "abc"):
            assert all(writer.poll() is None for writer in killed)
            time.sleep(0.05)
            text = path.read_text()
        for writer in killed:
            writer.kill()
            writer.wait()
    texts = path.read_text().splitlines()
    good = Ledger(path).lines()
    # at most one for each kill, and none where the write was whole
    assert len(texts) - len(good) <= len(writers)
    for kind in {line["run"].partition("-")[0] for line in good}:
        numbers = [
            int(line["run"].partition("-")[2])
            for line in good
            if line["run"].startswith(f"{kind}-")
        ]
        assert numbers == list(range(len(numbers)))


def test_the_ledger_names_runs_sums_and_refusals(tmp_path, monkeypatch):
    nodes = hospitals(tmp_path / "nodes")
    run(tmp_path, "first", nodes=nodes, **SUMMED)
    lying(monkeypatch)
    with pytest.raises(RoundError):
        run(tmp_path, "second", nodes=nodes[:3], **SUMMED)
    lines = Ledger(Path(nodes[0]["state-path"]) / "ledger-00000.jsonl").lines()
    kinds: Mapping[str, list[str]] = {
        kind: [line["run"] for line in lines if line["kind"] == kind]
        for kind in ("run", "sum", "refusal")
    }
    assert kinds == {"run": ["first", "second"], "sum": ["first"], "refusal": ["second"]}
    assert all("reason" in line for line in lines if line["kind"] == "refusal")


def test_the_sums_of_a_run_come_in_order(tmp_path):
    """Also after a restart, and in a ledger of before."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    what = session("a", [0, 1, 2])
    group = (0, 1, 2)
    ledger.note_sum(replace(what, round=3), BASIS, "", group, {})
    ledger_file._checked.clear()
    for earlier in (replace(what, round=2), replace(what, round=2, phase="evaluate")):
        with refuses("repeated-sum", "later sum", error=SecureSumError):
            Ledger(ledger.path).note_sum(earlier, BASIS, "", group, {})
    ledger.note_sum(replace(what, round=3, phase="evaluate"), BASIS, "", group, {})
    ledger.note_sum(replace(what, run="b"), BASIS, "", group, {})


def test_names_of_runs_fill_no_disk(tmp_path, monkeypatch):
    """A server's describe with a run of 10^6 characters was a line of 1 MB, and the refusal of
    another such message another one; nothing bounded their number."""
    monkeypatch.setattr(ledger_runs, "RUNS_PER_DAY", 20)
    (node,) = real_nodes(tmp_path / "nodes", [user_fields(40)])
    path = Path(node["state-path"]) / "ledger-00000.jsonl"
    settings = {"method": "fedavg", "dataset": "own"}
    error, _ = asked(node, settings, "describe", "query.describe", run=10**6 * "x")
    assert "has 1000000 characters; allowed are up to 200" in error
    assert not path.exists()
    errors = set()
    for number in range(40):
        ledger_file._checked.clear()  # each message may reach a new process
        error, _ = asked(node, settings, "describe", "query.describe", run=f"run-{number}")
        errors.add(error)
    assert errors == {"", "this node has begun 20 runs today, as many as it begins on a day (UTC)"}
    lines = Ledger(path).lines()
    assert sum(line["kind"] == "run" for line in lines) == 20
    assert path.stat().st_size < 30_000
    asked(node, settings, "describe", "query.describe", run="run-0")  # a known run goes on
    monkeypatch.setattr(ledger_runs, "time_now", lambda: "2099-01-01T00:00:00Z")
    assert asked(node, settings, "describe", "query.describe", run="next-day") == ("", [])


def test_exchanges_of_keys_fill_no_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger_module, "EXCHANGES_PER_DAY", 20)
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for _ in range(20):
        ledger.begin("run", {})
    with refuses("too-many-today", "20 exchanges of keys", error=ConfigError):
        ledger.begin("run", {})


def test_starts_fill_no_disk(tmp_path, monkeypatch):
    """A server that asked one run for sums from 10^6 made-up starts got as many lines."""
    monkeypatch.setattr(ledger_runs, "RUNS_PER_DAY", 20)
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for number in range(20):
        ledger.admit("run", {f"start {number}": "a start"}, "configuration", 1)
    with refuses("too-many-today", "20 questions", error=ConfigError):
        ledger.admit("run", {"start 20": "a start"}, "configuration", 1)
    ledger.admit("run", {"start 19": "a start"}, "configuration", 1)
    assert len(ledger.lines()) == 20


def test_refusals_fill_no_disk(tmp_path, monkeypatch):
    """A server that asked 10^6 refused sums got as many lines."""
    monkeypatch.setattr(ledger_module, "REFUSALS_PER_DAY", 20)
    path = tmp_path / "ledger.jsonl"
    for number in range(60):
        ledger_file._checked.clear()  # each message may reach a new process
        for reason in (f"reason {number}", "x" * 10**6):
            Ledger(path).refuse(reason, "run", "keys", number)
    lines = Ledger(path).lines()
    assert len(lines) == 21
    assert "log alone" in lines[-1]["reason"]
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(ledger_module, "time_now", lambda: "2099-01-01T00:00:00Z")
    monkeypatch.setattr(ledger_file, "time_now", lambda: "2099-01-01T00:00:00Z")
    Ledger(path).refuse("reason 0", "run", "keys", 0)
    assert len(Ledger(path).lines()) == 22


@pytest.mark.parametrize("name", ["ledger-00000.anchor", "ledger-00002.jsonl", "digest.key"])
def test_no_run_has_the_name_of_a_nodes_own_file(name, tmp_path):
    """The folder of a run in place of an anchor locked the node out of every later run."""
    nodes = hospitals(tmp_path / "nodes", 3)
    for node in nodes:
        node["state-path"] = str(tmp_path / "state")
    with pytest.raises((RoundError, FederationError), match="that of a file of the node"):
        run(tmp_path, name, nodes=nodes, **SUMMED)
    run(tmp_path, "after", nodes=nodes, **SUMMED)
