"""Classes that one node alone has: their cells of a secure sum are that node's, to 1e-8, and an
honest server read them. They stay at the node."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from app_runs import Handle, Run, phase_of, run
from flwr.app import Message
from hull_nodes import arrays_of, nodes_of
from image_fixtures import write_classes
from policies import with_policy
from secure_sums import watched_sums
from test_ledger import Observer

from curvfed.client_app import one_shot
from curvfed.client_app.client import Client
from curvfed.client_app.node import Node
from curvfed.client_app.node.policy import Policy
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure import masked_cohort
from curvfed.strategies.config.holders import holders_needed, sums_by_name
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.wire.messages import TRAIN, Holders

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, np.ndarray]]:
    """The sums that an honest server decodes."""
    return watched_sums(monkeypatch)


LOOSE = "[sums]\nmin-holders = 1\n[runs]\nconfigurations = 2\n"


def blobs(labels: str, seed: int) -> str:
    """Thirty points of each class."""
    rng = np.random.default_rng(seed)
    rows = ["x,y,label"]
    for label in labels:
        angle = 2 * np.pi * int(label) / 10
        for _ in range(30):
            x, y = rng.normal(0, 0.05, 2) + 0.5 * np.array([np.cos(angle), np.sin(angle)])
            rows.append(f"{x:.6f},{y:.6f},{label}")
    return "\n".join(rows)


def hospitals(folder: Path) -> list[dict[str, Any]]:
    """Real nodes with three common classes, the first with a fourth."""
    return nodes_of(
        folder, [blobs(labels, seed) for seed, labels in enumerate(("0257", "025", "025"))]
    )


def test_the_hull_of_a_class_that_one_node_alone_has_stays_there(tmp_path):
    nodes = hospitals(tmp_path / "nodes")
    hull = {"method": "hull", "dataset": "own", "hull__classifier": "depth"}
    done = run(tmp_path, nodes=nodes, points__classes="", **hull)
    assert done.summary["metrics"]["hull_count"] == 9
    loose = with_policy(tmp_path, nodes, LOOSE)
    done = run(tmp_path, "loose", nodes=loose, secure__min_holders=1, **hull)
    assert done.summary["metrics"]["hull_count"] == 10
    assert arrays_of(done)["bins"].size


@pytest.mark.parametrize("is_masked", [False, True])
def test_a_class_that_stays_has_no_vote_on_the_names_of_groups(is_masked, tmp_path, monkeypatch):
    """The vote of two points told in which group they lie, and a server may ask about more."""
    texts = [blobs(labels, seed) for seed, labels in enumerate(("0257", "025", "025"))]
    texts[1] += "\n0.40,-0.40,9\n0.41,-0.40,9"  # a class of two
    nodes = nodes_of(tmp_path / "nodes", texts)
    votes: dict[int, dict[str, float]] = {}
    score = one_shot._score

    def watched(client: Client, request: Any) -> Any:
        contribution = score(client, request)
        names = request.required_facts.class_names
        by_name = dict(zip(names, contribution.arrays["votes"].sum(axis=0), strict=True))
        votes[client.partition] = by_name
        return contribution

    monkeypatch.setattr(one_shot, "_score", watched)
    hull = {"method": "hull", "dataset": "own", "hull__classifier": "depth"}
    run(tmp_path, nodes=nodes, secure_sum=is_masked, **hull)
    assert sorted(votes) == [0, 1, 2]
    assert votes[0]["7"] == 0  # a class of one node
    assert votes[1]["9"] == 0
    assert all(votes[partition]["2"] for partition in votes)


SMALL: dict[str, Any] = {
    "secure__min_holders": 3,
    "dataset": "digits",
    "partition": "dirichlet",
    "alpha": 0.3,
    "images__train_subset": 300,
    "images__test_subset": 50,
    "local_epochs": 1,
    "secure_sum": True,
    "num_rounds": 1,
    "clients": 4,
}


@pytest.mark.parametrize(
    "settings",
    [{"method": "spherefed"}, {"method": "ccvr"}, {"method": "fedavg", "calibration": "ffc"}],
    ids=["spherefed", "ccvr", "ffc"],
)
def test_calibration_sums_have_no_class_that_few_clients_have(settings, tmp_path, sums):
    done = run(tmp_path, **SMALL | settings)
    (group,) = checkpoint_of(done)["holders"]
    is_rare = np.array(group["counts"]) < group["needed"]
    assert is_rare.any()
    assert not is_rare.all()
    vector = next(arrays["sums"] for arrays in sums if "sums" in arrays)
    by_class = class_cells(settings, vector, len(is_rare))
    assert not by_class[is_rare].any()
    assert by_class[~is_rare].any(axis=1).all()


def class_cells(settings: Mapping[str, Any], vector: np.ndarray, classes: int) -> np.ndarray:
    """The cells (C, n) of single classes: U's columns, or the moments of a class."""
    if settings["method"] == "ccvr":
        return vector.reshape(classes, -1)
    size = next(
        size for size in range(1, 2000) if size * (size + 1) // 2 + size * classes == len(vector)
    )
    return vector[size * (size + 1) // 2 :].reshape(size, classes).T


def checkpoint_of(done: Run) -> dict[str, Any]:
    from curvfed.strategies.wire.store import Store

    store = Store(done.path / "checkpoint" / "server")
    _, metadata = store.load(store.stamps()[-1])
    return metadata


# --- Who decides, and for which runs


def test_the_default_is_three_or_all_of_a_smaller_group():
    assert [holders_needed(0, members) for members in (2, 3, 5)] == [2, 3, 3]
    assert [holders_needed(minimum, 5) for minimum in (1, 4, 7)] == [1, 4, 7]


def test_stated_holders_do_not_choose_whose_update_a_sum_has(tmp_path, monkeypatch):
    """A lying server that stated holders of one node's class alone had the update of this node, to
    1e-7: all others had the weight 0."""
    counts = [{"a": 30, "b": 30, "c": 12}, {"a": 30, "b": 30}, {"a": 30, "b": 30}]
    nodes = []
    for site, sizes in enumerate(counts):
        write_classes(tmp_path / f"data{site}", sizes, shape=(28, 28), seed=site)
        place = {
            "data-path": str(tmp_path / f"data{site}"),
            "state-path": str(tmp_path / f"{site}"),
        }
        nodes.append({"partition-id": site} | place)
    count = masked_cohort.MaskedCohort.count_holders

    def lie(cohort: Any, *arguments: Any) -> None:
        count(cohort, *arguments)
        for group in cohort.run.state.holders:
            group["counts"] = [0, 0, group["needed"]]

    monkeypatch.setattr(masked_cohort.MaskedCohort, "count_holders", lie)
    observer = Observer(monkeypatch)
    keys = {"method": "fedavg", "calibration": "ffc", "dataset": "own", "num_rounds": 1}
    run(tmp_path, nodes=nodes, secure_sum=True, local_epochs=1, batch_size=16, **keys)
    assert len(observer.parts) == 3
    assert observer.error(observer.sums[0], 0) > 0.1


@pytest.mark.parametrize(
    ("policy", "stated", "stays"),
    [
        ("", Holders(3, (2, 3)), [True, False]),
        ("", Holders(1, (1, 1)), [True, True]),  # a run that asks for less than the default
        ("[sums]\nmin-holders = 1\n", Holders(1, (1, 0)), [False, True]),
        ("[sums]\nmin-holders = 4\n", Holders(4, (3, 4)), [True, False]),
        ("[sums]\nmin-holders = 4\n", Holders(3, (3, 3)), [True, True]),
    ],
)
def test_the_node_decides(policy, stated, stays):
    import tomllib

    node = Node(partition=0, rules=Policy.model_validate(tomllib.loads(policy)))
    client: Any = SimpleNamespace(node=node, group=(0, 1, 2, 3, 4), holders=stated)
    assert Client.leaving.fget(client).few.tolist() == stays  # type: ignore[attr-defined]


def uncounted(request: Message, handle: Handle) -> Message:
    """A server that leaves the count out of its requests."""
    if phase_of(request.content) in (TRAIN, "hulls") and "holders" in request.content:
        del request.content["holders"]
    return handle(request)


def test_nothing_is_summed_before_the_count(tmp_path):
    nodes, settings = hospitals(tmp_path / "nodes"), {"method": "hull", "dataset": "own"}
    with pytest.raises(RoundError, match=r"\[sums\] min-holders = 1"):
        run(tmp_path, nodes=nodes, intercept=uncounted, **settings)


COUNTED: dict[str, tuple[str, dict[str, Any], bool]] = {
    "no cells of classes": ("images", {"method": "fedavg", "secure-sum": True}, False),
    "calibration": ("images", {"method": "spherefed", "secure-sum": True}, True),
    "prototypes": ("images", {"method": "fedproto", "secure-sum": True}, True),
    "nameless hulls": ("points", {"method": "hull", "hull.num-classes": 2}, False),
    "hulls": ("points", {"method": "hull"}, True),
}


@pytest.mark.parametrize(("task", "settings", "is_counted"), COUNTED.values(), ids=COUNTED)
def test_runs_whose_sums_have_cells_or_rows_of_single_names(task, settings, is_counted):
    assert sums_by_name(resolve_defaults(parse(settings), task)) == is_counted
