"""Entities that one node alone has: their rows of a secure sum are that node's, to 1e-8, and an honest
server read them. They stay at the node."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from app_runs import Fault, Handle, Recorder, Run, newest, phase_of, run
from errors import refuses
from flwr.app import ConfigRecord, Message
from policies import with_policy
from secure_sums import watched_sums

from curvfed.client_app.client import Client
from curvfed.client_app.node import Node
from curvfed.deployments.predict.model import model_of
from curvfed.deployments.predict.trained_run import TrainedRun
from curvfed.extensions.links.methods.links import COUNTS, HOME, ROWS
from curvfed.server_app.run import RoundError
from curvfed.strategies.config.holders import sums_by_name
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.checks import MessageError
from curvfed.strategies.wire.messages import HOLDERS, TRAIN, Header, Holders

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
    return watched_sums(monkeypatch)


OPEN = {"secure_sum": False, "seed": 1}

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


@pytest.mark.parametrize("most", [60, 300])
def test_numbers_of_links_are_whole_in_a_sum(most, tmp_path, sums):
    """A member's share of links in float32, times its number of links, missed a whole number by
    1e-7, and with a reduced weight by much more: both told how many links each member has."""
    nodes = taxonomies(tmp_path / "nodes")
    rng = np.random.default_rng(0)
    further = {tuple(sorted(pair)) for pair in rng.integers(0, 40, (most, 2)) if np.ptp(pair)}
    with Path(nodes[0]["data-path"]).open("a") as file:
        file.writelines(f"d{head}\td{tail}\n" for head, tail in further)
    run(tmp_path, nodes=nodes, **LINKS)
    for arrays in sums:
        counts = arrays[f"{COUNTS}entities"]
        assert counts.any()
        np.testing.assert_array_equal(counts, np.rint(counts))


def test_a_node_goes_on_with_its_own_rows(tmp_path):
    """They are trained from round to round, scored, and predicted with."""
    nodes = taxonomies(tmp_path / "nodes")
    done = run(tmp_path, nodes=nodes, **LINKS | {"num_rounds": 4})
    names = done.described["facts"]["class_names"]
    trained = TrainedRun.read(done.path)
    shared = done.model["entities"]
    for site, node in enumerate(nodes):
        stored = newest(Path(node["state-path"]) / "run" / f"{site:05d}")
        rows = stored[f"parameter/{HOME}entities/index"]
        assert set(rows_of(names, site)) >= set(rows.tolist())
        node_rows = stored[f"parameter/{HOME}entities"]
        assert np.linalg.norm(node_rows - shared[rows], axis=1).min() > 0.01
        model, words = model_of(trained, site, Path(node["state-path"]))
        assert "keeps" in words
        assert np.array_equal(model.entities.detach().numpy()[rows], node_rows)  # type: ignore[operator]
    assert float(done.rounds[-1]["score"]) > 0


def test_kept_rows_are_resumed_to_the_bit(tmp_path):
    settings = {
        "method": "links",
        "dataset": "balanced-tree",
        "secure_sum": True,
        "secure__min_holders": 3,
    }
    undisturbed = run(tmp_path, "whole", num_rounds=4, **settings)
    run(tmp_path, "parts", num_rounds=2, **settings)
    continued = run(tmp_path, "parts", num_rounds=4, resume=True, **settings)
    assert continued.model_bytes == undisturbed.model_bytes
    phases = [row["phase"] for row in undisturbed.rounds]
    # A resumed run exchanges keys again.
    assert [row["phase"] for row in continued.rounds] == [*phases[:5], "keys", "agree", *phases[5:]]
    for client in range(3):
        expected = undisturbed.personal(client)
        assert any(name.startswith(f"parameter/{HOME}") for name in expected)
        resumed = continued.personal(client)
        assert resumed.keys() == expected.keys()
        assert all(np.array_equal(resumed[name], array) for name, array in expected.items())


def checkpoint_of(done: Run) -> dict[str, Any]:
    from curvfed.strategies.wire.store import Store

    store = Store(done.path / "checkpoint" / "server")
    _, metadata = store.load(store.stamps()[-1])
    return metadata


def test_one_stricter_node_counts_for_its_group(tmp_path, sums):
    """Otherwise the others' rows would be summed without its, and so be those of two."""
    nodes = taxonomies(tmp_path / "nodes")
    nodes[:1] = with_policy(tmp_path, nodes[:1], "[sums]\nmin-holders = 4\n")
    run(tmp_path, nodes=nodes, **LINKS)
    assert not sums[0][f"{COUNTS}entities"].any()


def uncounted(request: Message, handle: Handle) -> Message:
    """A server that leaves the count out of its requests."""
    if phase_of(request.content) == TRAIN and "holders" in request.content:
        del request.content["holders"]
    return handle(request)


def test_nothing_is_summed_before_the_count(tmp_path):
    nodes = taxonomies(tmp_path / "nodes")
    settings = LINKS
    with pytest.raises(RoundError, match=r"\[sums\] min-holders = 1"):
        run(tmp_path, nodes=nodes, intercept=uncounted, **settings)


def test_members_of_a_sum_are_reported_the_same_numbers(tmp_path):
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


@pytest.mark.parametrize("is_masked", [True, False])
def test_masked_sums_have_rows_of_single_names(is_masked):
    settings = {"method": "links", "secure-sum": is_masked}
    assert sums_by_name(resolve_defaults(parse(settings), "links")) == is_masked


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
    expected = {json.dumps({"counts": group["counts"], "needed": 3}, sort_keys=True)}
    assert {json.dumps(holders, sort_keys=True) for holders in stated} == expected


def phases(done: Run) -> Iterator[str]:
    return (row["phase"] for row in done.rounds)


def test_open_runs_count_nothing(tmp_path):
    done = run(tmp_path, method="links", dataset="balanced-tree", num_rounds=1)
    assert HOLDERS not in phases(done)
    assert not done.personal(0) or not any(HOME in name for name in done.personal(0))


def test_counts_of_links_leave_in_sums_or_in_the_open_whatever_the_seed(tmp_path):
    """The counts of the open members, taken from the sum, would be those of the last one."""
    nodes = taxonomies(tmp_path / "nodes")
    keys = LINKS | {"num_rounds": 1}
    run(tmp_path, "masked", nodes=nodes, **keys)
    recorder = Recorder()
    with pytest.raises(RoundError, match="secure-sum = true, or more than"):
        run(tmp_path, "open", nodes=nodes, intercept=recorder, **keys | OPEN)
    # Links that are closed already have the same counts.
    closed = keys | OPEN | {"links__closure": True}
    with pytest.raises(RoundError, match="secure-sum = true, or more than"):
        run(tmp_path, "closed", nodes=nodes, intercept=recorder, **closed)
    assert not any(reply["arrays"] for reply in recorder.replies(TRAIN) if "arrays" in reply)
    allowed = with_policy(tmp_path, nodes, "[runs]\nconfigurations = 2\n")
    run(tmp_path, "allowed", nodes=allowed, **keys | OPEN)


def test_members_of_a_sum_of_links_weigh_their_links():
    """Sums of shares of links would tell the numbers behind them."""
    settings = {"method": "links", "dataset": "balanced-tree", "weights": "uniform"}
    parse(settings)
    with pytest.raises(ConfigError, match="weights = examples in a secure sum of links"):
        parse(settings | {"secure-sum": True})
