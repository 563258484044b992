"""Classes and entities that one node alone has: their cells and rows of a secure sum are that
node's, to 1e-8, and an honest server read them. They stay at the node."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from app_runs import Fault, Handle, Recorder, Run, newest, phase_of, run
from errors import refuses
from flwr.app import ConfigRecord, Message
from hull_nodes import arrays_of, nodes_of
from policies import with_policy

from curvfed.client_app.client import Client
from curvfed.client_app.node import Node
from curvfed.client_app.node.policy import Policy
from curvfed.deployments.predict.model import model_of
from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.extensions.links.methods.links import COUNTS, HOME, ROWS
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure import masked_cohort
from curvfed.strategies.config.holders import holders_needed, sums_by_name
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.messages import HOLDERS, HULLS, TRAIN, Header, Holders

pytestmark = pytest.mark.usefixtures("own_home")

COMMON = [f"c{number}" for number in range(6)]
LINKS: dict[str, Any] = {
    "method": "links",
    "dataset": "own",
    "secure_sum": True,
    "num_rounds": 2,
    "train_size": 0.8,
    "test_size": 0.2,
}


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, np.ndarray]]:
    """The sums that an honest server decodes."""
    seen: list[dict[str, np.ndarray]] = []
    decode = masked_cohort.decoded

    def watched(residues: Any, encoding: Any, like: Any) -> Any:
        total, means = decode(residues, encoding, like)
        if like:
            seen.append(dict(total.arrays))
        return total, means

    monkeypatch.setattr(masked_cohort, "decoded", watched)
    return seen


LOOSE = "[sums]\nmin-holders = 1\n[runs]\nconfigurations = 2\n"


def taxonomies(folder: Path) -> list[dict[str, Any]]:
    """Real nodes with links between common entities, and some between entities of their own."""
    folder.mkdir()
    nodes = []
    for site in range(3):
        pairs = [(a, b) for a in COMMON for b in COMMON if a < b]
        pairs += [(f"own{site}-{number}", "c0") for number in range(8)]
        path = folder / f"{site}.tsv"
        path.write_text("".join(f"{head}\t{tail}\n" for head, tail in pairs))
        state = str(folder / f"state{site}")
        nodes.append({"partition-id": site, "data-path": str(path), "state-path": state})
    return nodes


def rows_of(names: list[str], site: int) -> list[int]:
    return [row for row, name in enumerate(names) if name.startswith(f"own{site}-")]


def test_rows_of_entities_that_one_node_alone_has_stay_there(tmp_path, sums):
    """Got: each node's numbers of links with 90 of 96 entities, to 2e-9, and how it moved them."""
    nodes = taxonomies(tmp_path / "nodes")
    done = run(tmp_path, nodes=nodes, **LINKS)
    names = done.described["facts"]["class_names"]
    single = [row for site in range(3) for row in rows_of(names, site)]
    assert len(single) == 24
    assert len(sums) == LINKS["num_rounds"]
    for arrays in sums:
        assert not arrays[f"{ROWS}entities"][single].any()
        assert not arrays[f"{COUNTS}entities"][single].any()
        assert arrays[f"{COUNTS}entities"].any()
    loose = with_policy(tmp_path, nodes, LOOSE)
    sums.clear()
    run(tmp_path, "loose", nodes=loose, secure__min_holders=1, **LINKS)
    assert (sums[0][f"{COUNTS}entities"][single] != 0).sum() > 12


def test_a_node_goes_on_with_its_own_rows(tmp_path):
    """They are trained from round to round, scored, and predicted with."""
    nodes = taxonomies(tmp_path / "nodes")
    done = run(tmp_path, nodes=nodes, **LINKS | {"num_rounds": 4})
    names = done.described["facts"]["class_names"]
    trained = TrainedRun.read(done.path)
    shared = done.model["entities"]
    for site, node in enumerate(nodes):
        kept = newest(Path(node["state-path"]) / "run" / f"{site:05d}")
        rows = kept[f"parameter/{HOME}entities/index"]
        assert set(rows_of(names, site)) >= set(rows.tolist())
        own = kept[f"parameter/{HOME}entities"]
        assert np.linalg.norm(own - shared[rows], axis=1).min() > 0.01
        model, words = model_of(trained, site, Path(node["state-path"]))
        assert "keeps" in words
        assert np.array_equal(model.entities.detach().numpy()[rows], own)  # type: ignore[operator]
    assert float(done.rounds[-1]["score"]) > 0


def test_kept_rows_are_resumed_to_the_bit(tmp_path):
    settings = {
        "method": "links",
        "dataset": "balanced-tree",
        "secure_sum": True,
        "secure__min_holders": 3,
    }
    whole = run(tmp_path, "whole", num_rounds=4, **settings)
    run(tmp_path, "parts", num_rounds=2, **settings)
    again = run(tmp_path, "parts", num_rounds=4, resume=True, **settings)
    assert again.model_bytes == whole.model_bytes
    phases = [row["phase"] for row in whole.rounds]
    # A resumed run exchanges keys again.
    assert [row["phase"] for row in again.rounds] == [*phases[:5], "keys", "agree", *phases[5:]]
    for client in range(3):
        expected = whole.personal(client)
        assert any(name.startswith(f"parameter/{HOME}") for name in expected)
        resumed = again.personal(client)
        assert resumed.keys() == expected.keys()
        assert all(np.array_equal(resumed[name], array) for name, array in expected.items())


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


def test_the_moments_of_a_class_that_one_node_alone_has_stay_there(tmp_path, sums):
    """Got: its 6 cells, from which two test-sizes gave one cell's point to 1.7e-9."""
    done = run(tmp_path, nodes=hospitals(tmp_path / "nodes"), method="discriminant", dataset="own")
    names = done.described["facts"]["class_names"]
    cells = sums[0]["sums"].reshape(len(names), -1)
    assert not cells[names.index("7")].any()
    assert all(cells[names.index(name)].all() for name in "025")


def test_the_hull_of_a_class_that_one_node_alone_has_stays_there(tmp_path):
    nodes = hospitals(tmp_path / "nodes")
    done = run(tmp_path, nodes=nodes, method="hull", dataset="own", points__classes="")
    assert done.summary["metrics"]["hull_count"] == 9
    loose = with_policy(tmp_path, nodes, LOOSE)
    done = run(tmp_path, "loose", nodes=loose, method="hull", dataset="own", secure__min_holders=1)
    assert done.summary["metrics"]["hull_count"] == 10
    assert arrays_of(done)["bins"].size


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
    few = np.array(group["counts"]) < group["needed"]
    assert few.any()
    assert not few.all()
    vector = next(arrays["sums"] for arrays in sums if "sums" in arrays)
    by_class = class_cells(settings, vector, len(few))
    assert not by_class[few].any()
    assert by_class[~few].any(axis=1).all()


def class_cells(settings: Mapping[str, Any], vector: np.ndarray, classes: int) -> np.ndarray:
    """The cells (C, n) of single classes: U's columns, or the numbers of images."""
    if settings["method"] == "ccvr":
        return vector[:classes, None]
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
# --------------------------------------------------------------------------------------


def test_the_default_is_three_or_all_of_a_smaller_group():
    assert [holders_needed(0, members) for members in (2, 3, 5)] == [2, 3, 3]
    assert [holders_needed(minimum, 5) for minimum in (1, 4, 7)] == [1, 4, 7]


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


def test_one_stricter_node_counts_for_its_group(tmp_path, sums):
    """Otherwise the others' rows would be summed without its, and so be those of two."""
    nodes = taxonomies(tmp_path / "nodes")
    nodes[:1] = with_policy(tmp_path, nodes[:1], "[sums]\nmin-holders = 4\n")
    run(tmp_path, nodes=nodes, **LINKS)
    assert not sums[0][f"{COUNTS}entities"].any()


def uncounted(request: Message, handle: Handle) -> Message:
    """A server that leaves the count out of its requests."""
    if phase_of(request.content) in (TRAIN, HULLS) and "holders" in request.content:
        del request.content["holders"]
    return handle(request)


@pytest.mark.parametrize("method", ["links", "discriminant"])
def test_nothing_is_summed_before_the_count(method, tmp_path):
    if method == "links":
        nodes, settings = taxonomies(tmp_path / "nodes"), LINKS
    else:
        nodes, settings = hospitals(tmp_path / "nodes"), {"method": method, "dataset": "own"}
    with pytest.raises(RoundError, match=r"\[sums\] min-holders = 1"):
        run(tmp_path, nodes=nodes, intercept=uncounted, **settings)


def test_members_of_a_sum_are_told_the_same_numbers(tmp_path):
    """The numbers are part of the basis: a server that tells one member others gets no sum."""

    def other_numbers(request: Message, handle: Handle) -> Message:
        stated = request.content["holders"]
        counts = [stated["needed"]] * len(stated["counts"])  # type: ignore[arg-type,call-overload]
        request.content["holders"] = ConfigRecord({**stated, "counts": counts})  # type: ignore[dict-item]
        return handle(request)

    fault = Fault(0, other_numbers)
    with pytest.raises(RoundError, match="other facts"):
        run(tmp_path, nodes=taxonomies(tmp_path / "nodes"), intercept=fault, **LINKS)


def test_a_count_has_a_number_for_each_name():
    client: Any = SimpleNamespace(
        node=Node(partition=0), config=resolve_defaults(parse({"method": "links"}), "links")
    )
    request: Any = SimpleNamespace(
        header=Header("run", TRAIN, 1),
        holders=Holders(3, (1, 2)),
        required_facts=SimpleNamespace(class_names=("a", "b", "c")),
    )
    with refuses("holders", error=MessageError):
        Client.learn_holders(client, request)


COUNTED: dict[str, tuple[str, dict[str, Any], bool]] = {
    "links": ("links", {"method": "links", "secure-sum": True}, True),
    "links in the open": ("links", {"method": "links"}, False),
    "no cells of classes": ("images", {"method": "fedavg", "secure-sum": True}, False),
    "calibration": ("images", {"method": "spherefed", "secure-sum": True}, True),
    "prototypes": ("images", {"method": "fedproto", "secure-sum": True}, True),
    "noise": (
        "images",
        {"method": "spherefed", "secure-sum": True, "dp.unit": "record", "dp.epsilon": 1.0},
        False,
    ),
    "discriminant": ("points", {"method": "discriminant"}, True),
    "nameless hulls": ("points", {"method": "hull", "hull.num-classes": 2}, False),
    "hulls": ("points", {"method": "hull"}, True),
    "genes": ("points", {"method": "pca", "pca.genes": "a,b,c"}, False),
}


@pytest.mark.parametrize("name", COUNTED)
def test_runs_whose_sums_have_cells_or_rows_of_single_names(name):
    task, settings, is_counted = COUNTED[name]
    assert sums_by_name(resolve_defaults(parse(settings), task)) == is_counted


def test_a_count_shows_the_server_nothing_but_a_sum(tmp_path):
    recorder = Recorder()
    done = run(tmp_path, nodes=taxonomies(tmp_path / "nodes"), intercept=recorder, **LINKS)
    replies = recorder.replies(HOLDERS)
    assert len(replies) == 3
    for reply in replies:
        (masked,) = reply.array_records["arrays"].values()
        assert masked.numpy().max() > 2**26  # uniform below the modulus
    (group,) = checkpoint_of(done)["holders"]
    assert max(group["counts"]) == group["needed"] == 3
    stated = [dict(request["holders"]) for request in recorder.requests(TRAIN)]
    assert {json.dumps(each, sort_keys=True) for each in stated} == {
        json.dumps({"counts": group["counts"], "needed": 3}, sort_keys=True)
    }


def phases(done: Run) -> Iterator[str]:
    return (row["phase"] for row in done.rounds)


def test_open_runs_count_nothing(tmp_path):
    done = run(tmp_path, method="links", dataset="balanced-tree", num_rounds=1)
    assert HOLDERS not in phases(done)
    assert not done.personal(0) or not any(HOME in name for name in done.personal(0))
