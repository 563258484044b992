"""Rounds whose parameters the server sees as their sum alone."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from app_runs import Recorder, Run, partition_of, phase_of, real_nodes, run
from errors import refuses
from graph_fixtures import user_fields
from tiers import only

from curvfed.server_app.run import RoundError
from curvfed.strategies.base.figures import SUMMED
from curvfed.strategies.base.statistics import Statistics
from curvfed.strategies.config.secure_phases import (
    MAX_EXAMPLES,
    client_vector,
    decoded,
    groups,
    mean_update,
    sum_encoding,
    vector_length,
    weighted_update,
)
from curvfed.strategies.errors import ConfigError, SecureSumError

CLIENTS = 4


def pair(folder, **settings) -> tuple[Run, Run]:
    """The same run in the open and by secure sums, also of classes that one client alone has."""
    settings["secure__min_holders"] = 1
    opened, secured = (
        run(folder, name, clients=CLIENTS, secure_sum=secure, **settings)
        for name, secure in (("open", False), ("secure", True))
    )
    return opened, secured


def close(one: Run, other: Run, tolerance: float = 1e-6) -> bool:
    return all(
        np.allclose(one.model[name], other.model[name], rtol=0, atol=tolerance)
        for name in one.model
    )


@pytest.mark.parametrize("norm", only(["group", "batch"], "group".__eq__))
def test_a_calibrated_classifier_is_that_of_the_open_run(norm, tmp_path):
    opened, secured = pair(
        tmp_path,
        method="spherefed",
        dataset="digits",
        model="convnet",
        images__norm=norm,
        num_rounds=1,
        images__train_subset=160,
        fine_tune_epochs=0,
    )
    assert "calibrated/head.weight" in secured.model
    assert close(opened, secured, 1e-4)  # the pseudo-inverse of few examples is badly conditioned
    assert abs(opened.summary["global_accuracy"] - secured.summary["global_accuracy"]) < 0.002


CALIBRATED = {
    "method": "spherefed",
    "dataset": "digits",
    "num_rounds": 1,
    "images__train_subset": 160,
    "fine_tune_epochs": 0,
    "secure_sum": True,
    "clients": CLIENTS,
}


def test_a_run_exchanges_keys_once_and_each_sum_is_one_message(tmp_path):
    """A calibration is no part of what a round costs."""
    result = run(tmp_path, **CALIBRATED | {"num_rounds": 2})
    phases = [row["phase"] for row in result.rounds]
    assert phases == ["keys", "agree", "train", "train", "calibrate"]
    for way in ("bytes_up", "bytes_down"):
        sizes = [
            float(row[way]) for row in result.rounds if row["phase"] in ("keys", "agree", "train")
        ]
        assert result.summary[way] == sum(sizes) / 2


def test_the_server_sees_no_parameters(tmp_path):
    recorder = Recorder()
    run(tmp_path, method="fedavg", secure_sum=True, clients=CLIENTS, intercept=recorder)
    for reply in recorder.replies("train"):
        assert set(reply["arrays"]) == {"masked"}
        numbers = reply["arrays"]["masked"].numpy()
        assert numbers.dtype == np.uint64
        # unmasked, most of them would be small
        assert len(np.unique(numbers)) > 0.99 * numbers.size


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("phase", ["keys", "agree", "train"])
def test_a_member_that_stays_away_ends_the_run_and_a_resumed_one_is_the_whole_one(phase, tmp_path):
    def gone(request, handle):
        reply = handle(request)
        is_member = partition_of(reply.content) == 1
        return None if is_member and phase_of(request.content) == phase else reply

    settings = {"secure_sum": True, "clients": CLIENTS, "secure__patience": 0}
    whole = run(tmp_path, "whole", **settings)
    with refuses("no-sum", "partition 1: no reply", error=RoundError):
        run(tmp_path, intercept=gone, **settings)
    resumed = run(tmp_path, resume=True, **settings)
    assert resumed.model_bytes == whole.model_bytes


def test_what_is_not_finite_or_too_large_is_no_part_of_a_sum():
    with refuses("not-finite", error=SecureSumError):
        client_vector(np.array([1.0, np.inf]), 3, {}, 1.0)
    with refuses("too-many-examples", MAX_EXAMPLES, error=SecureSumError) as caught:
        client_vector(np.zeros(2), MAX_EXAMPLES + 1, {}, 1.0)
    assert str(MAX_EXAMPLES + 1) not in str(caught.value)  # the server reads the text
    with refuses("value-too-large", "secure.clip", error=SecureSumError):
        client_vector(np.array([1.1 * MAX_EXAMPLES]), 1, {}, 1.0)


def test_the_order_of_names_is_of_no_account():
    arrays = {"b": np.array([[1.0, 2.0], [3.0, 4.0]], np.float32), "a": np.array([5.0])}
    received = {"a": np.array([4.0]), "b": np.ones((2, 2), np.float32)}
    vector, norm = weighted_update(arrays, received, 2, 1000.0)
    other, _ = weighted_update(dict(reversed(arrays.items())), received, 2, 1000.0)
    assert np.array_equal(vector, other)
    assert norm == pytest.approx(np.sqrt(15))
    total = Statistics(arrays, 2).unflatten(vector)
    back = mean_update(total, arrays, received)
    assert list(back) == ["b", "a"]
    assert all(
        np.array_equal(back[name], arrays[name]) and back[name].dtype == arrays[name].dtype
        for name in arrays
    )
    assert mean_update(replace(total, weight=0), arrays, received)["b"] is received["b"]


def test_a_long_update_is_shortened_by_its_norm_and_keeps_its_direction():
    received = {"a": np.zeros(2), "b": np.zeros(1), "variate/a": np.ones(1)}
    sent = {"a": [3.0, 0.0], "b": [4.0], "length": [7.0], "variate/a": [9.0]}
    vector, norm = weighted_update(
        {name: np.array(one) for name, one in sent.items()}, received, 3, 1.0
    )
    assert norm == 5
    # What is no parameter is no part of the norm; a variate follows from the update.
    assert np.allclose(vector, [3 * 0.6, 0, 3 * 0.8, 3 * 7, 3 * 9 / 5])


def test_figures_come_back_as_means_over_those_that_have_them():
    steps = sum_encoding(1.0, 3)
    clients = [
        client_vector(np.array([0.5]), weight, notes, 1.0)
        for weight, notes in [
            (3, {"loss": 1.5, "score": 0.25}),
            (4, {"loss": 0.5}),
            (2**20, {"loss": float("nan")}),
        ]
    ]
    assert all(len(client) == vector_length(1) == 2 + 2 * len(SUMMED) for client in clients)
    residues = sum(steps.encode(client).astype(object) for client in clients) % steps.modulus
    total, means = decoded(residues.astype(np.uint64), steps, {"sums": np.zeros(1)})
    assert total.weight == 7 + 2**20
    assert means == {"loss": (pytest.approx(1.0), 2), "score": (pytest.approx(0.25), 1)}
    assert abs(total.arrays["sums"][0] - 1.5) <= total.error


IMAGES = {"dataset": "digits", "num_rounds": 2, "images__train_subset": 160, "fine_tune_epochs": 0}


@pytest.mark.parametrize(
    "settings",
    [
        *({"method": method, "num_rounds": 3} for method in ("fedavg", "flatland", "fedper")),
        pytest.param({"method": "fedopt", **IMAGES}, marks=pytest.mark.long),
        pytest.param(
            {"method": "fedavg", **IMAGES, "aggregation": "flower:FedAvgM"}, marks=pytest.mark.long
        ),
        pytest.param({"method": "scaffold", **IMAGES, "batch_size": 0}, marks=pytest.mark.long),
        {"method": "scaffold", "num_rounds": 2},
        pytest.param({"method": "feddyn", **IMAGES}, marks=pytest.mark.long),
        {"method": "fednova", **IMAGES, "batch_size": 8, "alpha": 0.3},
        # One round: what quantisation leaves, two rounds of batch normalisation may make a hundred
        # times larger.
        pytest.param(
            {
                "method": "fednova",
                **IMAGES,
                "model": "convnet",
                "images__norm": "batch",
                "batch_size": 8,
                "num_rounds": 1,
            },
            marks=pytest.mark.long,
        ),
        pytest.param({"method": "pfedme", **IMAGES, "pfedme__beta": 0.5}, marks=pytest.mark.long),
        {"method": "fedavg", **IMAGES, "weights": "uniform"},
        {"method": "ccvr", **IMAGES, "share_statistics": True},
        pytest.param(
            {"method": "spherefed", **IMAGES, "spherefed__normalize": False}, marks=pytest.mark.long
        ),
    ],
    ids=lambda settings: "-".join(map(str, settings.values()))[:40],
)
def test_what_is_linear_in_the_updates_is_that_of_the_open_run(settings, tmp_path):
    opened, secured = pair(tmp_path, **settings)
    assert opened.model.keys() == secured.model.keys()
    assert close(opened, secured, 1e-3 if settings["method"] in ("ccvr", "spherefed") else 1e-5)
    means = [run.summary["personal_accuracy_mean"] for run in (opened, secured)]
    assert means[0] == pytest.approx(means[1], abs=0.002)


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "fedavg", "evaluate_every": 1},
        pytest.param(
            {"method": "fedbabu", **IMAGES, "fine_tune_epochs": 1}, marks=pytest.mark.long
        ),
        pytest.param({"method": "spherefed", **IMAGES}, marks=pytest.mark.long),
        {"method": "hull", "dataset": "uniform", "hull__classifier": "depth"},
    ],
    ids=lambda settings: settings["method"],
)
def test_no_figure_of_a_single_client_is_reported(settings, tmp_path):
    """Loss, scores, steps, seconds and examples of each client went beside the masked vector."""
    recorder = Recorder()
    opened, secured = (
        run(
            tmp_path,
            name,
            clients=CLIENTS,
            secure_sum=name == "secure",
            intercept=recorder if name == "secure" else None,
            **settings,
        )
        for name in ("open", "secure")
    )
    asked = [
        phase
        for phase in ("train", "evaluate", "fine-tune", "calibrate", "hulls", "moments")
        if recorder.replies(phase)
    ]
    assert asked
    for phase in asked:
        for reply in recorder.replies(phase):
            assert set(reply["arrays"]) == {"masked"}
            assert not dict(reply.get("metrics", {}))
            assert reply["header"]["num_examples"] == 0
    mean = opened.summary["personal_accuracy_mean"]  # uniform points have no test data
    assert secured.summary["personal_accuracy_mean"] == (mean and pytest.approx(mean, abs=0.02))
    assert secured.summary["personal_accuracy_std"] is None
    assert secured.summary["personal_accuracy_worst_decile"] is None
    for row in secured.clients:
        notes = ("score", "validation", "accuracy", "loss", "steps", "num_examples")
        assert not any(row.get(name) not in ("", "0", None) for name in notes)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"fraction_train": 0.5}, "secure-sum-with-fraction-train"),
        ({"clients": 1}, "too-few-clients"),
    ],
)
def test_sums_that_cannot_be_are_refused_before_the_first_round(settings, kind, tmp_path):
    recorder = Recorder()
    with refuses(kind, error=ConfigError):
        run(tmp_path, intercept=recorder, **{"secure_sum": True, "clients": CLIENTS} | settings)
    assert not recorder.replies("keys")


def test_what_guards_a_node_must_be_a_truth_value(tmp_path):
    wrong = [*product(("secure-sum", "share-statistics"), ("true", 1, "false"))]
    fields = [user_fields(60, seed=index) for index in range(len(wrong) + 2)]
    nodes = real_nodes(tmp_path / "nodes", fields)
    for node, (key, value) in zip(nodes, wrong):
        node[key] = value
    result = run(tmp_path, nodes=nodes, num_rounds=1)
    refused = sorted(result.described["refused"].values())
    assert len(refused) == len(wrong)
    for number, (key, value) in enumerate(wrong):
        assert refused[number].startswith(f"partition-id {number}: {key} is {value!r} in ")
        assert "allowed are true and false" in refused[number]


def test_a_node_takes_part_in_no_open_run_if_it_says_so(tmp_path):
    refused = {}
    for sums in (False, True):
        fields = [user_fields(60, seed=index) for index in range(3)]
        nodes = real_nodes(tmp_path / f"nodes-{sums}", fields)
        nodes[1]["secure-sum"] = True
        done = run(tmp_path, f"{sums}", nodes=nodes, secure_sum=sums, num_rounds=1)
        refused[sums] = len(done.described["refused"])
    assert refused == {False: 1, True: 0}


@pytest.mark.usefixtures("clock")
def test_many_clients_are_summed_in_groups_and_one_with_a_member_missing_is_left_out(tmp_path):
    assert list(map(len, groups(range(9)))) == [9]
    assert list(map(len, groups(range(23)))) == [6, 6, 6, 5]
    assert list(map(len, groups(range(23), size=12))) == [23]
    assert list(map(len, groups(range(24), size=12))) == [12, 12]

    def gone(request, handle):
        reply = handle(request)
        last = phase_of(request.content) == "train" and partition_of(reply.content) == 11
        return None if last and request.content["header"]["round"] == 2 else reply

    settings = {"method": "fedavg", "secure_sum": True, "clients": 12, "secure__patience": 0}
    one = run(tmp_path, "one", num_rounds=1, secure__group_size=12, **settings)
    grouped = run(tmp_path, "grouped", num_rounds=1, **settings)
    opened = run(tmp_path, "open", num_rounds=1, method="fedavg", clients=12)
    assert close(one, grouped)
    assert close(opened, grouped)
    partly = run(tmp_path, "partly", num_rounds=2, intercept=gone, **settings)
    assert [row["replies"] for row in partly.rounds if row["phase"] == "train"] == ["12", "6"]
