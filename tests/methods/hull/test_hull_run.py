"""Whole one-shot runs: the server decodes what clients sent, whatever is drawn."""

import json
import math

import numpy as np
import pytest
from app_runs import Recorder, Run, all_bytes, phase_of
from errors import refuses
from hull_nodes import (
    PHASES,
    arrays_of,
    blobs,
    decoded,
    expected,
    figures,
    hull_run,
    nodes_of,
    parts_of,
    training,
)
from policies import with_policy
from safetensors import safe_open
from tiers import only

import curvfed.client_app.clients_in_memory
from curvfed.geometry.hull import convex_hull
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.hull.classifier import Classifier
from curvfed.strategies.secure_sum.messages import Basis

SUMMED = ("measure", "keys", "agree", "hulls")


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_the_decoded_hulls_are_those_of_the_clients(epsilon, tmp_path):
    run = hull_run(tmp_path, clients=4, hull__epsilon=epsilon)
    assert decoded(run) == expected(parts_of(4), epsilon)
    assert run.summary["metrics"]["hulls_exact"] is True
    stored = arrays_of(run)
    assert set(stored["group"].tolist()) == {0, 1}
    assert (stored["epsilon"], stored["curvature"], stored["radius"]) == (epsilon, -1.0, 0.999)


@pytest.mark.parametrize("code", ["binary", "bose-chowla"])
@pytest.mark.parametrize("epsilon", [0.1, 4.0])
def test_hulls_in_bins_of_equal_area_come_through_both_codes(epsilon, code, tmp_path):
    """Bins are wider near the origin, so that more hulls meet in one: a small ε has sparse sums, a
    large one dense sums."""
    settings = {"hull__epsilon": epsilon, "hull__code": code, "hull__h": 8}
    run = hull_run(tmp_path, clients=4, hull__quantiser="equal-area", **settings)
    hulls = expected(parts_of(4), epsilon, equal_area=True)
    assert decoded(run) == hulls
    assert hulls != expected(parts_of(4), epsilon)
    assert run.summary["metrics"]["hulls_exact"] is True


@pytest.mark.parametrize("c", only([10.0, "auto"], {10.0}.__contains__))
def test_the_plain_hinge_trains_another_machine_on_the_same_hulls(c, tmp_path):
    runs = {
        svm: hull_run(tmp_path, svm, hull__svm=svm, hull__c=c, points__margin=0.01)
        for svm in ("soft", "hinge")
    }
    soft, hinge = (arrays_of(runs[svm]) for svm in ("soft", "hinge"))
    np.testing.assert_array_equal(soft["bins"], hinge["bins"])
    assert runs["hinge"].summary["metrics"]["classifier"] == "hinge"
    assert runs["hinge"].summary["global_accuracy"] > 0.9
    assert not np.allclose(soft["normals"], hinge["normals"], rtol=1e-3)


def test_equal_runs_are_equal_though_their_secrets_are_not(tmp_path):
    """Also with other labels, and with a process for each message."""
    one, two = Recorder(), Recorder()
    first = hull_run(tmp_path / "one", intercept=one)
    assert figures(first) == figures(hull_run(tmp_path / "two", intercept=two))
    for phase in ("keys", "agree", "hulls"):
        for reply, other in zip(one.replies(phase), two.replies(phase), strict=True):
            for record in ("parts", "arrays"):
                secret = set(reply.get(record, {})) - {"partitions", *Basis.model_fields}
                assert not any(reply[record][name] == other[record][name] for name in secret)

    def fresh(request, handle):
        curvfed.client_app.clients_in_memory._clients.clear()
        return handle(request)

    assert figures(hull_run(tmp_path / "three", intercept=fresh)) == figures(first)
    switched = hull_run(tmp_path / "four", hull__switch_labels=True)
    assert figures(switched) == figures(first)


def test_a_dry_run_stops_before_anything_is_sent(tmp_path):
    recorder = Recorder()
    run = hull_run(tmp_path, hull__dry_run=True, intercept=recorder)
    assert {phase_of(asked) for asked, _ in recorder.pairs} == {"describe", "measure"}
    for reply in recorder.replies("measure"):
        assert set(reply) == {"header", "metrics"}
    assert run.summary["status"] == "completed"
    assert run.summary["global_accuracy"] is None
    hulls = expected(parts_of(3), 0.01)
    assert run.summary["metrics"]["hull_points_shared"] == sum(
        len(hull) for client in hulls for hull in client
    )
    assert {path.name for path in run.path.iterdir()} == {
        "checkpoint",
        "clients.csv",
        "clients.json",
        "config.toml",
        "rounds.csv",
        "summary.json",
    }
    assert [path.name for path in (run.path / "checkpoint").iterdir()] == ["lock"]


@pytest.mark.parametrize("absent", [0, 4])
def test_an_absent_node_leaves_the_others_their_parts(absent, tmp_path):
    """The server reads the parts that clients hold, not those of the connected number."""
    present = [number for number in range(5) if number != absent]
    run = hull_run(
        tmp_path, nodes=[{"partition-id": number, "num-partitions": 5} for number in present]
    )
    assert run.summary["metrics"]["hulls_exact"] is True
    assert run.summary["metrics"]["grouping_accuracy"] == 1.0
    assert [about["num_partitions"] for about in run.described["clients"]] == [5] * 4
    stored, parts = arrays_of(run), parts_of(5)
    corners = np.concatenate(
        [
            points[labels == one][convex_hull(points[labels == one], -1.0)]
            for points, labels in (parts[number] for number in present)
            for one in (0, 1)
        ]
    )
    assert set(map(tuple, stored["true_points"].tolist())) == set(map(tuple, corners.tolist()))


def test_what_a_run_leaves(tmp_path):
    run = hull_run(tmp_path, clients=4)
    metrics, clients = run.summary["metrics"], 4
    assert run.summary["status"] == "completed"
    assert (run.summary["method"], run.summary["num_clients"], run.summary["rounds"]) == (
        "hull",
        clients,
        0,
    )
    assert run.summary["global_accuracy"] > 0.95
    assert (metrics["dropouts"], metrics["replies_dropped"], metrics["nodes_refused"]) == (0, 0, 0)
    sizes = [len(hull) for client in expected(parts_of(clients), 0.01) for hull in client]
    points = sum(len(labels) for _, labels in parts_of(clients))
    assert (metrics["hull_points"], metrics["hull_points_shared"]) == (points, sum(sizes))
    assert metrics["hull_share_revealed"] == sum(sizes) / points
    assert metrics["hull_count"] == 8
    assert [row["phase"] for row in run.rounds] == [*PHASES]
    assert [row["round"] for row in run.rounds] == ["0"] * (len(PHASES) - 1) + ["1"]
    assert all(
        (row["replies"], row["dropped"], row["reasons"]) == ("4", "0", "") for row in run.rounds
    )
    assert run.summary["bytes_up"] == sum(metrics[f"bytes_up_{phase}"] for phase in SUMMED)
    assert [(row["phase"], row["partition"]) for row in run.clients] == [
        (phase, str(partition)) for phase in PHASES for partition in range(clients)
    ]
    measured = [row for row in run.clients if row["phase"] == "measure"]
    assert sum(int(float(row["revealed"])) for row in measured) == sum(sizes)
    assert all(row["points"] == "" for row in run.clients if row["phase"] != "measure")


def test_the_model_is_read_back(tmp_path):
    run = hull_run(tmp_path)
    classifier, stored = Classifier.from_arrays(run.model), arrays_of(run)
    with safe_open(run.path / "model.safetensors", framework="np") as file:
        about = json.loads(file.metadata()["curvfed"])
    assert (about["method"], about["facts"]["task"], about["groups"]) == (
        "hull",
        "points",
        stored["names"].tolist(),
    )
    names = stored["class_names"].tolist()
    predicted = [
        names.index(about["groups"][one]) for one in classifier.predict(stored["test_points"])
    ]
    assert predicted == stored["test_predicted"].tolist()
    assert (
        run.summary["global_accuracy"] == (stored["test_predicted"] == stored["test_labels"]).mean()
    )
    np.testing.assert_array_equal(stored["normals"], classifier.normals)
    np.testing.assert_array_equal(stored["references"], classifier.references)


@pytest.mark.parametrize("grouping", ["assignment", "spectral"])
def test_more_than_two_classes(grouping, tmp_path):
    np.savez(tmp_path / "data.npz", **blobs("0246", 40))
    settings = {"dataset": str(tmp_path / "data.npz"), "hull__epsilon": 0.3}
    run = hull_run(tmp_path, clients=5, hull__grouping=grouping, **settings)
    assert decoded(run) == expected(parts_of(5, **settings), 0.3)
    metrics, stored = run.summary["metrics"], arrays_of(run)
    assert (
        metrics["hull_count"],
        metrics["grouping_accuracy"],
        run.summary["global_accuracy"],
    ) == (20, 1.0, 1.0)
    assert stored["normals"].shape == stored["references"].shape == (4, 2)
    assert sorted(stored["names"]) == ["0", "2", "4", "6"]


@pytest.mark.parametrize("curvature", [-0.25, -4.0])
def test_real_nodes_with_other_classes_and_a_test_file(curvature, tmp_path):
    radius = 1 / math.sqrt(-curvature)
    parts = [
        blobs(classes, seed=seed, radius=radius)
        for seed, classes in enumerate(["02", "24", "420", "0"])
    ]
    np.savez(tmp_path / "test.npz", **blobs("024", seed=9, radius=radius))
    recorder = Recorder()
    nodes = with_policy(
        tmp_path,
        nodes_of(tmp_path / "nodes", parts),
        f"[data]\ncurvature = {curvature}\n[sums]\nmin-holders = 1\n",
    )
    run = hull_run(
        tmp_path,
        nodes=nodes,
        test_data=str(tmp_path / "test.npz"),
        points__curvature=curvature,
        intercept=recorder,
    )
    assert decoded(run) == expected([training(part) for part in parts], 0.01, curvature)
    stored = arrays_of(run)
    assert not {"sample_points", "true_points"} & stored.keys()
    assert sorted(stored["names"]) == ["0", "2", "4"]
    assert (run.summary["global_accuracy"], run.summary["personal_accuracy_mean"]) == (1.0, 1.0)
    assert "hull_points" not in run.summary["metrics"]  # how much leaves them is their business
    assert all(set(reply) == {"header"} for reply in recorder.replies("measure"))


def test_a_public_number_of_classes_keeps_their_names_at_the_nodes(tmp_path):
    parts = [
        blobs(["bumblebee 0", "carpenter 3"]),
        blobs(["caterpillar 6", "carpenter 3"], seed=1),
        blobs(["caterpillar 6"], seed=2),
    ]
    recorder = Recorder()
    run = hull_run(
        tmp_path, nodes=nodes_of(tmp_path / "nodes", parts), hull__num_classes=3, intercept=recorder
    )
    assert decoded(run) == expected([training(part) for part in parts], 0.01)
    assert arrays_of(run)["names"].tolist() == ["", "", ""]
    assert run.summary["personal_accuracy_mean"] == 1.0
    sent = b"".join(all_bytes(record) for pair in recorder.pairs for record in pair)
    assert not any(name in sent for name in (b"bumblebee", b"carpenter", b"caterpillar"))


class Crash:
    """Ends the run at a phase; counts the messages of each."""

    def __init__(self, phase: str = "") -> None:
        self.phase, self.asked = phase, dict.fromkeys(("describe", *PHASES), 0)

    def __call__(self, request, handle):
        phase = phase_of(request.content)
        if phase == self.phase:
            raise KeyboardInterrupt
        self.asked[phase] += 1
        return handle(request)


def test_a_run_that_has_the_hulls_asks_for_no_secret_again_and_without_them_starts_anew(tmp_path):
    """It has them if it is over, or came to its evaluation."""
    whole = figures(hull_run(tmp_path / "over"))
    for phase in ("agree", "hulls", "evaluate", "over"):
        folder = tmp_path / phase
        if phase != "over":
            with pytest.raises(KeyboardInterrupt):
                hull_run(folder, intercept=Crash(phase))
            assert Run(folder / "run").summary["error"] == "interrupted"
        counted = Crash()
        resumed = hull_run(folder, resume=True, intercept=counted)
        messages = dict.fromkeys(PHASES, 3 if phase in ("agree", "hulls") else 0)
        assert counted.asked == messages | {"describe": 3, "evaluate": 3}
        assert figures(resumed) == whole


def test_a_run_with_the_hulls_of_an_earlier_version_asks_nobody_again(tmp_path):
    hull_run(tmp_path)
    checkpoint = tmp_path / "run" / "checkpoint"
    (checkpoint / "server").rename(checkpoint / "hulls")
    counted = Crash()
    with refuses("earlier-checkpoint", error=ConfigError):
        hull_run(tmp_path, resume=True, intercept=counted)
    assert counted.asked["hulls"] == counted.asked["agree"] == 0


def test_a_run_is_not_gone_on_with_by_other_clients(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        hull_run(tmp_path, clients=4, intercept=Crash("evaluate"))
    with refuses("changed-data", error=ConfigError):
        hull_run(tmp_path, clients=3, resume=True)


def test_the_log_speaks_of_phases_scores_and_the_classifier_and_not_of_rounds(tmp_path, caplog):
    caplog.set_level("INFO")
    run = hull_run(tmp_path)
    lines = [record.getMessage() for record in caplog.records if record.levelname != "DEBUG"]
    notes = [line.partition(":")[0] for line in lines if ": 3 of 3 clients" in line]
    assert [*dict.fromkeys(notes)] == [*PHASES]  # a slow phase also says how far it has come
    assert not [line for line in lines if line.startswith("round ") or "after round" in line]
    assert not any(hasattr(record, "rounds") for record in caplog.records)
    percent = f"{100 * run.summary['global_accuracy']:.1f}%"
    assert f"global accuracy: {percent}, " in caplog.text
    assert "groups; classifier: svm, C = 1000" in caplog.text


def test_a_method_does_not_take_the_name_of_another_phase(monkeypatch):
    from curvfed.strategies.config.one_shot import phase_of
    from curvfed.strategies.config.parse import parse

    config = parse({"method": "hull"})
    assert phase_of(config) == "hulls"
    monkeypatch.setitem(vars(config.row), "phase", "train")
    with refuses("phase-name", '"train"', error=ConfigError):
        phase_of(config)


def test_classes_of_too_few_members_make_no_groups(tmp_path):
    """Otherwise hulls of one class would be torn apart, and a class without hulls be named."""
    parts = [blobs(classes, seed=seed) for seed, classes in enumerate(["012", "01", "01", "0"])]
    np.savez(tmp_path / "test.npz", **blobs("012", seed=9))
    run = hull_run(
        tmp_path,
        nodes=nodes_of(tmp_path / "nodes", parts),
        test_data=str(tmp_path / "test.npz"),
        secure__min_holders=3,
    )
    metrics = run.summary["metrics"]
    assert (metrics["hull_count"], metrics["hull_groups"]) == (7, 2)
    assert sorted(arrays_of(run)["names"]) == ["0", "1"]
    assert metrics["classes_left_out"] == 1
    assert any("1 class without hulls" in text for text in run.summary["warnings"])
    # All points but those of the third class are classified rightly.
    assert run.summary["global_accuracy"] == pytest.approx(2 / 3)
