"""What an honest server could compute from several sums, by ordinary commands, and what the nodes'
ledgers say to it."""

import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_runs import real_nodes, run
from graph_fixtures import user_fields
from hull_nodes import QUICK, nodes_of
from hypothesis import example, given
from hypothesis import strategies as st
from policies import with_policy
from secure_sums import BASIS
from tiers import examples

from curvfed.client_app import secure
from curvfed.client_app.node.inputs import BUCKETS, Inputs, sketch
from curvfed.client_app.node.ledger import AS_GOOD, Ledger, check_cohorts, ledger_of
from curvfed.client_app.node.node import Node
from curvfed.client_app.node.policy import Policy
from curvfed.client_app.node.policy_tables import Sums
from curvfed.client_app.one_shot import _hashes
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure import masked_phases
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.config.masked_vector import decoded, sum_encoding, vector_length
from curvfed.strategies.hull.local import local_hulls
from curvfed.strategies.hull.public_parameters import PublicParameters
from curvfed.strategies.secure_sum.errors import SecureSumError
from curvfed.strategies.secure_sum.session import Session
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec

pytestmark = pytest.mark.usefixtures("own_home")

TOO_MUCH = "would reveal too much about single nodes"


class Observer:
    """All that an honest server sees of the sums of training, and for the comparison what went into
    them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.sums: list[tuple[list[int], np.ndarray]] = []
        self.vectors: dict[int, np.ndarray] = {}
        sum_up, mask = masked_phases.secure_sum, secure.masked_reals

        def seen(ask: Any, header: Any, *others: Any, **keywords: Any) -> Any:
            phase, total = sum_up(ask, header, *others, **keywords)
            if header.phase == "train":
                like = {"": np.zeros(len(total) - vector_length(0))}
                summed, _ = decoded(total, sum_encoding(1000.0, len(phase.sent)), like)
                self.sums.append((sorted(phase.replies), summed.arrays[""]))
            return phase, total

        def own(
            client: Any, request: Any, state: Any, values: np.ndarray, *others: Any, **keywords: Any
        ) -> Any:
            if request.header.phase == "train":
                self.vectors[client.partition] = values[: -vector_length(0)]
            return mask(client, request, state, values, *others, **keywords)

        patch.setattr(masked_phases, "secure_sum", seen)
        patch.setattr("curvfed.client_app.masked_replies.masked_reals", own)

    def errors(self, sums: Sequence[tuple[list[int], np.ndarray]]) -> dict[int, float]:
        """Relative error of the least-squares estimate of each client's vector from these sums."""
        nodes = sorted(self.vectors)
        matrix = np.array([[node in cohort for node in nodes] for cohort, _ in sums], float)
        found = np.linalg.pinv(matrix) @ np.array([total for _, total in sums])
        return {
            node: float(
                np.linalg.norm(guess - self.vectors[node]) / np.linalg.norm(self.vectors[node])
            )
            for node, guess in zip(nodes, found, strict=True)
        }


@pytest.fixture
def observer(monkeypatch: pytest.MonkeyPatch) -> Observer:
    return Observer(monkeypatch)


def hospitals(folder: Path, number: int = 4) -> list[dict[str, Any]]:
    return real_nodes(folder, [user_fields(60, seed=index) for index in range(number)])


def cells(seed: int, number: int = 60) -> str:
    """Points of two classes."""
    rng = np.random.default_rng(seed)
    rows = [
        (*(rng.uniform(-0.2, 0.2, 2) + (0.5 if one % 2 else -0.5)), one % 2)
        for one in range(number)
    ]
    return "\n".join(["x,y,label", *(f"{x:.6f},{y:.6f},{label}" for x, y, label in rows)])


SUMMED = {"method": "fedavg", "secure_sum": True, "num_rounds": 1}


def without_ledgers(patch: pytest.MonkeyPatch) -> None:
    for name in ("check", "sign"):
        patch.setattr(Ledger, name, lambda *_: None)


def test_the_same_run_without_one_node_told_its_vector_exactly(tmp_path, observer, monkeypatch):
    """The difference of the two sums is the vector of the node that was away, to the last bit."""
    nodes = hospitals(tmp_path / "nodes")
    run(tmp_path, "first", nodes=nodes, **SUMMED)
    alone = observer.errors(observer.sums[:1])
    with pytest.raises(RoundError, match=TOO_MUCH) as refused:
        run(tmp_path, "second", nodes=nodes[:3], **SUMMED)
    assert "without [3]" in str(refused.value)
    assert len(observer.sums) == 1
    without_ledgers(monkeypatch)
    run(tmp_path, "third", nodes=nodes[:3], **SUMMED)
    assert alone[3] > 0.1
    assert observer.errors(observer.sums)[3] < 1e-6  # the attack is real


def test_a_round_that_is_resumed_without_one_node_waits_for_it(tmp_path, observer):
    nodes = hospitals(tmp_path / "nodes")
    run(tmp_path, nodes=nodes, **SUMMED)
    # as after a kill between the sum and the checkpoint
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    again = {**SUMMED, "resume": True}
    with pytest.raises(Exception, match=TOO_MUCH + "|3 of 4"):
        run(tmp_path, nodes=nodes[:3], **again)
    assert len(observer.sums) == 1
    run(tmp_path, nodes=nodes, **again)  # the same cohort is asked anew, and tells nothing new
    assert observer.sums[1][0] == observer.sums[0][0]
    assert np.allclose(observer.sums[1][1], observer.sums[0][1], rtol=0, atol=1e-6)


def test_other_cohorts_at_parameters_that_stand_still_tell_nothing_more(
    tmp_path, observer, monkeypatch
):
    """Sums over four different threes of four nodes were solved for every single vector."""
    nodes = hospitals(tmp_path / "nodes")
    still = SUMMED | {
        "aggregation": "fedopt",
        "fedopt__learning_rate": 1e-30,
        "fraction_train": 0.75,
        "num_rounds": 8,
    }
    # else the same parameters give other updates
    still |= {"optimizer_state": "fresh", "dropout": 0.0}
    with pytest.raises(RoundError, match=TOO_MUCH):
        run(tmp_path, "guarded", nodes=nodes, **still)
    cohorts = {tuple(cohort) for cohort, _ in observer.sums}
    assert len(cohorts) == 1
    together, alone = observer.errors(observer.sums), observer.errors(observer.sums[:1])
    assert all(together[node] >= AS_GOOD * alone[node] for node in alone)
    without_ledgers(monkeypatch)
    observer.sums.clear()
    run(tmp_path, "open", nodes=nodes, **still)
    assert max(observer.errors(observer.sums).values()) < 1e-6  # the attack is real


@pytest.mark.parametrize(
    ("name", "before", "later"),
    [
        ("small steps", {}, {"learning_rate": 1e-4, "fraction_train": 0.75, "num_rounds": 8}),
        (
            "another method",
            {"weights": "examples"},
            {"method": "scaffold", "weights": "examples", "local_epochs": 1},
        ),
    ],
)
def test_other_ways_to_the_same_vectors(name, before, later, tmp_path, observer):
    """An update that stays as it was while the parameters move, and a method that sends more beside
    the same parameters."""
    nodes = hospitals(tmp_path / "nodes")
    plain = SUMMED | {
        "optimizer": "sgd",
        "optimizer_state": "fresh",
        "dropout": 0.0,
        "local_epochs": 1,
    }
    if before:
        run(tmp_path, "first", nodes=nodes, **plain | before)
    with pytest.raises(RoundError, match=TOO_MUCH):
        run(tmp_path, "second", nodes=nodes[:3] if before else nodes, **plain | later)
    assert len({tuple(cohort) for cohort, _ in observer.sums}) == 1


@pytest.mark.parametrize("method", ["spherefed", "ccvr"])
def test_a_calibration_counts_as_sums_over_the_data_whatever_the_model(
    method, tmp_path, monkeypatch
):
    """Class counts do not depend on the model: with another model the difference of two sums would
    be a node's own."""
    sources: dict[str, set[str]] = {}
    mask = secure.masked_reals

    def seen(client: Any, request: Any, state: Any, vector: Any, encoding: Any, inputs: Any) -> Any:
        sources.setdefault(request.header.phase, set()).add(inputs.source)
        return mask(client, request, state, vector, encoding, inputs)

    monkeypatch.setattr("curvfed.client_app.masked_replies.masked_reals", seen)
    settings = {"images__train_subset": 120, "images__test_subset": 40, "fine_tune_epochs": 0}
    run(tmp_path, method=method, dataset="digits", secure_sum=True, num_rounds=1, **settings)
    assert sources["calibrate" if method == "spherefed" else "ccvr"] == {"data"}


def test_hulls_of_all_nodes_but_one_are_not_summed_after_those_of_all(tmp_path):
    """The hulls that only the first sum has were those of the node that was away; another seed
    changes few others."""
    nodes = nodes_of(tmp_path / "nodes", [cells(seed) for seed in range(4)])
    run(tmp_path, "all", nodes=nodes, **QUICK)
    for seed in (0, 1):
        with pytest.raises(RoundError, match=TOO_MUCH):
            run(tmp_path, f"three-{seed}", nodes=nodes[:3], seed=seed, **QUICK)


PUBLIC = PublicParameters(-1.0, 0.999, 0.01, num_classes=2, num_clients=3, cap=128)


@pytest.mark.parametrize(("limit", "least", "most"), [(1.0, 20, 20), (0.3, 1, 19), (0.05, 0, 0)])
def test_points_count_over_all_splits(limit, least, most, tmp_path):
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
        points, own = (_hashes(array, node) for array in (hulls.revealed(PUBLIC), data.points))
        assert len(own) == 100
        with suppress(ConfigError):
            ledger.reveal(str(seed), points, own, limit)
            done += 1
    assert least <= done <= most
    revealed = [point for line in ledger.lines("points") for point in line["points"]]
    assert len(revealed) <= limit * 100


def test_points_of_former_data_do_not_count(tmp_path):
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.reveal("one", {"a", "b"}, {"a", "b"}, 1.0)
    ledger.reveal("two", {"c"}, {"c", "d"}, 0.5)
    with pytest.raises(ConfigError, match="hull-max-share"):
        ledger.reveal("three", {"d"}, {"c", "d"}, 0.5)


def test_runs_with_other_splits_end_at_the_limit(tmp_path):
    nodes = nodes_of(
        tmp_path / "nodes", [cells(seed, 300) for seed in range(3)], **{"hull-max-share": 0.11}
    )
    done = 0
    for seed in range(4):
        with suppress(RoundError):
            run(tmp_path, str(seed), nodes=nodes, points__split_seed=seed, **QUICK)
            done += 1
    assert 1 <= done < 4


def test_nodes_that_always_sum_together_sign_no_other_sum(tmp_path):
    nodes = with_policy(
        tmp_path / "p", hospitals(tmp_path / "nodes"), "[sums]\nfixed-groups = true\n"
    )
    run(tmp_path, "first", nodes=nodes, **SUMMED)
    with pytest.raises(RoundError, match="fixed-groups = true in this node's policy"):
        run(tmp_path, "second", nodes=nodes[:3], seed=5, **SUMMED)


def test_another_seed_is_another_start_and_may_have_other_nodes(tmp_path):
    nodes = hospitals(tmp_path / "nodes")
    run(tmp_path, "first", nodes=nodes, **SUMMED)
    assert (
        run(tmp_path, "second", nodes=nodes[:3], seed=5, **SUMMED).summary["status"] == "completed"
    )


@given(st.lists(st.sets(st.integers(0, 7), min_size=3), min_size=1, max_size=5), st.integers(2, 4))
@example([{0, 1, 2, 3, 4, 5, 6}, {2, 3, 4}], 4)
@example([{0, 1, 2, 3, 4, 5, 6}, {0, 1, 5, 6}], 4)
@examples(200)
def test_what_is_allowed_leaves_no_sum_over_fewer_and_no_better_estimate(
    cohorts: list[set[int]], least: int
):
    """By brute force: over all sets of fewer than the least number of nodes, and over the estimates
    of random vectors."""
    *former, new = cohorts
    try:
        check_cohorts(former, new, least)
    except SecureSumError:
        return
    nodes = sorted(set().union(*cohorts))
    matrix = np.array([[node in cohort for node in nodes] for cohort in cohorts], float)
    if len({frozenset(one) for one in cohorts}) > 1:
        rank = np.linalg.matrix_rank(matrix)
        for size in range(1, min(least, len(nodes))):
            for few in combinations(range(len(nodes)), size):
                others = np.delete(matrix, few, axis=1)
                assert np.linalg.matrix_rank(others) == rank
        vectors = np.random.default_rng(0).standard_normal((len(nodes), 4000))
        errors = np.linalg.norm(
            np.linalg.pinv(matrix) @ (matrix @ vectors) - vectors, axis=1
        ) / np.linalg.norm(vectors, axis=1)
        alone = np.sqrt(1 - 1 / min(map(len, cohorts)))
        assert errors.min() >= AS_GOOD * alone - 0.02


@pytest.mark.parametrize("rounds", [40])
def test_many_cohorts_of_many_nodes_are_refused_in_time(rounds):
    """A server that draws another three quarters of 40 nodes in every round, from parameters that
    stand still."""
    rng = np.random.default_rng(0)
    books: dict[int, list[set[int]]] = {node: [] for node in range(40)}
    released: list[set[int]] = []
    for _ in range(rounds):
        cohort = set(rng.choice(40, 30, replace=False).tolist())
        signed_by = 0
        for node in cohort:
            try:
                check_cohorts(books[node], cohort, 3)
            except SecureSumError:
                continue
            books[node].append(cohort)
            signed_by += 1
        if signed_by >= 20:
            released.append(cohort)
    matrix = np.array([[node in cohort for node in range(40)] for cohort in released], float)
    told = np.diag(np.linalg.pinv(matrix) @ matrix)
    assert 1 <= len(released) < rounds
    assert np.sqrt(1 - told.max()) >= AS_GOOD * np.sqrt(1 - 1 / 30)


def line(inputs: Inputs) -> dict[str, Any]:
    return {"phase": inputs.phase, **inputs.as_fields()}


def parameters(scale: float = 1.0, seed: int = 0, size: int = 5000) -> dict[str, np.ndarray]:
    return {
        "w": scale * np.random.default_rng(seed).standard_normal((size, 4)).astype(np.float32),
        "b": np.ones(3, np.float32),
    }


@pytest.mark.parametrize(
    ("step", "near"), [(0.0, True), (1e-30, True), (0.05, True), (0.2, False), (1.0, False)]
)
def test_inputs_are_the_same_where_the_parameters_hardly_moved(step, near):
    vector, start = np.zeros(4), parameters()
    update = start["w"].ravel().astype(np.float64)
    later = {
        name: array + step * parameters(seed=1)[name] * (name == "w")
        for name, array in start.items()
    }
    first, second = (
        Inputs.of_parameters(one, update * sign, vector, "train", "secret")
        for one, sign in ((start, 1), (later, -1))
    )
    assert second.are_those_of(line(first), 0.1) == near


def test_a_sketch_keeps_distances():
    start, other = parameters(), parameters(seed=1)
    true = np.sqrt(sum(np.square(start[name] - other[name]).sum() for name in start))
    found = np.linalg.norm(sketch(start, "ab" * 8) - sketch(other, "ab" * 8))
    assert abs(found / true - 1) < 3 * np.sqrt(2 / BUCKETS)


def test_other_phases_and_shapes_are_other_inputs():
    vector, none = np.zeros(4), np.zeros(0)
    first = Inputs.of_parameters(parameters(), none, vector, "train", "secret")
    others = [
        Inputs.of_parameters(parameters(), none, vector, "evaluate", "secret"),
        Inputs.of_parameters(parameters(size=4999), none, vector, "train", "secret"),
    ]
    assert not any(other.are_those_of(line(first), 1.0) for other in others)
    data = Inputs.of_data(vector, "hulls")
    assert data.are_those_of(line(Inputs.of_data(np.ones(2), "hulls")), 0.0)


def test_equal_updates_are_the_same_inputs_wherever_they_were_made():
    """At a small learning rate an update moves the parameters by its own length, and the next one
    is the same."""
    update, vector = np.random.default_rng(3).standard_normal(20_000), np.zeros(4)
    first = Inputs.of_parameters(parameters(), update, vector, "train", "secret")
    later = Inputs.of_parameters(parameters(seed=5), 1.01 * update, vector, "train", "secret")
    other = Inputs.of_parameters(parameters(seed=5), update[::-1].copy(), vector, "train", "secret")
    assert later.are_those_of(line(first), 0.1)
    assert not other.are_those_of(line(first), 0.1)


def session(name: str) -> Session:
    return Session(name, "train", 1, 2**61 - 1, 3, (0, 1, 2, 3))


def test_a_sum_is_signed_once_also_after_a_restart(tmp_path):
    path, inputs = tmp_path / "ledger.jsonl", Inputs.of_data(np.zeros(1), "train")
    Ledger(path).sign(session("a"), [0, 1, 2], BASIS, inputs, Sums(), {})
    with pytest.raises(SecureSumError, match="answers once"):
        Ledger(path).sign(session("a"), [0, 1, 2], BASIS, inputs, Sums(), {})
    Ledger(path).sign(session("b"), [0, 1, 2], BASIS, inputs, Sums(), {})
    assert [one["run"] for one in Ledger(path).lines("sum")] == ["a", "b"]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_torn_line_is_left_out_and_the_next_one_is_whole(cut, tmp_path):
    path, inputs = tmp_path / "ledger.jsonl", Inputs.of_data(np.zeros(1), "train")
    book = Ledger(path)
    for name in "ab":
        book.sign(session(name), [0, 1, 2], BASIS, inputs, Sums(), {})
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])  # what a power cut leaves
    book.sign(session("c"), [0, 1, 2], BASIS, inputs, Sums(), {})
    runs = [one["run"] for one in book.lines("sum")]
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
    path = tmp_path / "ledger.jsonl"
    for trial in range(2):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", APPEND, str(path), f"{trial}{name}"], cwd=Path.cwd()
            )
            for name in "ab"
        ]
        while not path.exists() or path.stat().st_size < (trial + 1) * 100_000:
            assert all(writer.poll() is None for writer in writers)
            time.sleep(0.01)
        for writer in writers:
            writer.kill()
            writer.wait()
    texts = path.read_text().splitlines()
    good = Ledger(path).lines()
    # at most one for each kill, and none where the write was whole
    assert len(texts) - len(good) <= 4
    for kind in {one["run"].partition("-")[0] for one in good}:
        numbers = [
            int(one["run"].partition("-")[2]) for one in good if one["run"].startswith(f"{kind}-")
        ]
        assert numbers == list(range(len(numbers)))


def test_the_ledger_names_runs_sums_and_refusals(tmp_path):
    nodes = hospitals(tmp_path / "nodes")
    run(tmp_path, "first", nodes=nodes, **SUMMED)
    with pytest.raises(RoundError):
        run(tmp_path, "second", nodes=nodes[:3], **SUMMED)
    lines = Ledger(Path(nodes[0]["state-path"]) / "ledger-00000.jsonl").lines()
    kinds: Mapping[str, list[str]] = {
        kind: [one["run"] for one in lines if one["kind"] == kind]
        for kind in ("run", "sum", "refusal")
    }
    assert kinds == {"run": ["first", "second"], "sum": ["first"], "refusal": ["second"]}
    assert all("reason" in one for one in lines if one["kind"] == "refusal")
