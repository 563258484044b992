"""Sums in groups: a failed one costs its own alone; names of groups without test points."""

from dataclasses import replace

import numpy as np
import pytest
from app_runs import Fault, Recorder, forged
from errors import refuses
from hull_nodes import (
    arrays_of,
    blobs,
    decoded,
    expected,
    hull_run,
    nodes_of,
    open_nodes,
    parts_of,
    switched_nodes,
)

from curvfed.client_app import one_shot
from curvfed.server_app.directory.checkpoint import State
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure.groups import check_secure_sums
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.hull.classifier import NONE, client_votes, elect_names
from curvfed.strategies.methods.hull.client import HullClient

SIX = {"clients": 6, "hull__epsilon": 0.1}


def test_groups_decode_to_what_one_sum_decodes_to(tmp_path):
    run = hull_run(tmp_path, hull__groups=2, **SIX)
    assert decoded(run) == expected(parts_of(6), 0.1)
    metrics = run.summary["metrics"]
    assert metrics["hulls_exact"] is True
    assert (metrics["clients_summed"], metrics["clients_decoded"], metrics["dropouts"]) == (6, 6, 0)
    assert (metrics["groups_left_out"], metrics["clients_refused"]) == (0, 0)
    rows = [row["phase"] for row in run.rounds]
    assert rows.count("hulls") == 1  # all groups at once


def test_a_run_says_once_that_a_sum_of_two_hides_little(tmp_path, caplog):
    sums = {"secure_sum": True, "secure__group_size": 2}
    hull_run(tmp_path, method="fedavg", clients=4, num_rounds=2, **sums)
    assert caplog.text.count("each of them can compute the other's vector") == 1


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"method": "hull"}, "one group of 12 clients"),
        ({"method": "hull", "hull.groups": 3}, "3 groups of 4 clients"),
    ],
)
def test_the_groups_that_check_states_are_those_of_the_run(keys, words, tmp_path):
    config = resolve_defaults(parse({"dataset": "uniform", "points.num": 300} | keys), "points")
    assert words in check_secure_sums(config, 12)[0]
    sizes = []
    spy = Recorder()
    settings = {key.replace(".", "__"): value for key, value in keys.items()}
    hull_run(tmp_path, clients=12, intercept=spy, **settings)
    for request in spy.requests("keys"):
        sizes.append(len(request["parts"]["members"]))
    size = int(words.split()[-2])
    assert set(sizes) == {size}


def nonsense(monkeypatch: pytest.MonkeyPatch, forgers: set[int]) -> None:
    """These clients send one altered symbol under a good mask."""
    encode = one_shot.masked

    def masked(client, request, state, opened, vector, **flags):
        forged = vector ^ np.uint64(client.partition in forgers)
        return encode(client, request, state, opened, forged, **flags)

    monkeypatch.setattr(one_shot, "masked", masked)


def test_a_group_that_does_not_decode_is_left_out_and_reported(tmp_path, monkeypatch, caplog):
    nonsense(monkeypatch, {4})
    run = hull_run(tmp_path, hull__groups=2, **SIX)
    assert decoded(run) == expected(parts_of(6)[:3], 0.1)
    assert run.summary["metrics"]["groups_left_out"] == 1
    assert run.summary["metrics"]["clients_summed"] == 3
    assert "a group of clients is left out" in caplog.text
    rows = [row["phase"] for row in run.rounds]
    assert rows.count("hulls") == 1  # never repeated


def test_classes_of_a_group_without_a_sum_are_not_counted():
    holders = [
        {"clients": [0, 1, 2], "counts": [3, 3, 0], "needed": 3},
        {"clients": [3, 4, 5], "counts": [3, 3, 3], "needed": 3},
    ]
    both = State(holders=holders, summed={"clients": [0, 1, 2, 3, 4, 5]})
    assert both.num_shared() == 3
    assert replace(both, summed={"clients": [0, 1, 2]}).num_shared() == 2
    assert replace(both, holders=[]).num_shared() is None


@pytest.mark.parametrize(("groups", "forgers"), [(1, {4}), (2, {0, 5})])
def test_without_any_good_group_the_run_ends(groups, forgers, tmp_path, monkeypatch):
    nonsense(monkeypatch, forgers)
    with refuses("no-sum", error=RoundError):
        hull_run(tmp_path, hull__groups=groups, **SIX)


def test_a_client_that_sends_no_hull_is_left_out_and_reported(tmp_path, monkeypatch, caplog):
    """It sends the bins of all its points."""
    hulls = HullClient._hulls

    def all_points(half, public):
        result = hulls(half, public)
        if half.site.partition != 1:
            return result
        points, labels = half.points.train_points, half.points.train_labels
        bins = [
            np.unique(public.quantizer.encode(points[labels == one]))[: public.cap]
            for one in result.classes
        ]
        return replace(result, hulls=tuple(bins))

    monkeypatch.setattr(HullClient, "_hulls", all_points)
    run = hull_run(tmp_path, clients=4, hull__epsilon=0.1)
    parts = parts_of(4)
    assert decoded(run) == expected([parts[0], *parts[2:]], 0.1)
    metrics = run.summary["metrics"]
    assert (metrics["clients_summed"], metrics["clients_decoded"], metrics["clients_refused"]) == (
        4,
        3,
        1,
    )
    assert "1 client is left out: no convex hull came" in caplog.text


@pytest.mark.parametrize("masked", [False, True], ids=["open", "masked"])
def test_groups_get_the_names_that_most_clients_give_them(masked, tmp_path):
    """Three classes, one at a single node; another node has switched two names."""
    run = hull_run(
        tmp_path, nodes=switched_nodes(tmp_path / "nodes"), secure_sum=masked, test_data="none"
    )
    stored = arrays_of(run)
    places = [stored["points"][stored["group"] == group].mean(axis=0) for group in range(3)]
    turns = [round(float(np.arctan2(y, x)) / (2 * np.pi / 8)) % 8 for x, y in places]
    assert stored["names"].tolist() == [str(turn) for turn in turns]
    assert run.summary["metrics"]["votes_agreed"] == 7 / 9


def test_votes_name_the_groups_of_which_the_server_has_no_test_points(tmp_path):
    test = blobs("02", seed=9)
    np.savez(tmp_path / "test.npz", **test)
    parts = [blobs("024", seed=1), blobs("024", seed=2), blobs("02", seed=3)]
    run = hull_run(
        tmp_path, nodes=open_nodes(tmp_path / "nodes", parts), test_data=str(tmp_path / "test.npz")
    )
    assert run.summary["global_accuracy"] > 0.9
    assert sorted(arrays_of(run)["names"]) == ["0", "2", "4"]
    assert run.summary["metrics"]["votes_agreed"] == 1


def test_votes_that_are_none_are_a_bad_reply(tmp_path):
    def twice(reply):
        return replace(reply, arrays=reply.arrays | {"votes": np.ones_like(reply.arrays["votes"])})

    nodes = nodes_of(tmp_path / "nodes", [blobs("02"), blobs("02", seed=1), blobs("02", seed=2)])
    run = hull_run(
        tmp_path, nodes=nodes, test_data="none", intercept=Fault(1, forged(twice), "evaluate", 1)
    )
    dropped = [
        row["dropped"] for row in run.clients if row["phase"] == "evaluate" and row["dropped"]
    ]
    assert dropped == ["votes must be 0 or 1, at most one 1 in a row and in a column"]
    assert sorted(arrays_of(run)["names"]) == ["0", "2"]


def test_a_vote_is_for_a_group_with_points_and_a_public_name():
    names = np.array([1, 0, NONE, 2])
    votes = client_votes(names, np.array([0, 0, 1, 2]), ("a", "b", "c"), ("c", "b"))
    # "a" is not public, group 3 has no points
    assert votes.tolist() == [[0, 1], [0, 0], [0, 0], [0, 0]]
    assert elect_names(np.array([[0.0, 3.0], [2.0, 5.0], [0.0, 0.0]])).tolist() == [1, 0, NONE]
    assert elect_names(np.zeros((2, 2))).tolist() == [NONE, NONE]
