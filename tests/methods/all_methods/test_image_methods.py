"""The methods on images, by small runs of the whole app on handwritten digits."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from app_runs import (
    Fault,
    Recorder,
    array_names,
    forged,
    parameters_in,
    partition_of,
    phase_of,
    real_nodes,
    run,
)
from errors import refuses
from image_fixtures import write_classes
from method_page import documented_methods
from PIL import Image
from safetensors.numpy import load_file
from tiers import only

from curvfed.client_app import clients_in_memory as live
from curvfed.client_app.data import load_data
from curvfed.client_app.node import Node
from curvfed.deployments.inprocess import simulated_nodes
from curvfed.server_app.directory.array_files import read_npz
from curvfed.server_app.run import RoundError
from curvfed.strategies.base import learner as learner_side
from curvfed.strategies.base.statistics import named_state
from curvfed.strategies.config.build_method import build_model, model_spec
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import flatten, resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.exchange import FederationError
from curvfed.strategies.wire.messages import CALIBRATE, Facts

IMAGE_METHODS = [name for name, method in METHODS.items() if "images" in method.tasks]
SMALL = {
    "dataset": "digits",
    "images__train_subset": 240,
    "images__test_subset": 100,
    "local_epochs": 2,
    "batch_size": 32,
}
ACCURATE = (
    *("fedavg", "spherefed", "hyperfed", "hyperfed-averaged", "fednova", "fedopt", "ccvr"),
    *("hyperfed-geodesic", "hyperfed-shared"),
)
MISSING_CLASSES = (
    *("hyperfed", "spherefed", "ccvr", "fednova", "fedrep", "afl", "fedala", "feddbe", "fedetf"),
    *("fedproto", "fedtgp", "fedhpro"),
)
"""Methods that could stumble over a client or a class without examples."""
OWN_STARTS = ("apple", "multi-task")
"""Aggregations that leave no model for all."""


def small(folder, name="run", **settings):
    return run(folder, name, **SMALL | settings)


def spec_of(result):
    """The settled configuration of a run, and its model."""
    config = resolve_defaults(
        parse({"dataset": "digits", "embedding-dim": 8} | {"method": result.summary["method"]}),
        "images",
    )
    facts = Facts(
        **result.described["facts"]
        | {"class_names": tuple(result.described["facts"]["class_names"])}
    )
    return config, model_spec(config, facts)


# What each sends and keeps is compared with the page for every method, in test_every_method.py.
@pytest.mark.parametrize(
    "method", only(IMAGE_METHODS, {"fedavg", "fedper", "hyperfed", "spherefed"}.__contains__)
)
def test_every_method_runs_and_keeps_what_is_personal(method, tmp_path):
    recorder = Recorder()
    more = {"num_rounds": 6 if method in ACCURATE else 3, "learning_rate": 0.1}
    result = small(tmp_path, method=method, intercept=recorder, **more)
    assert result.summary["status"] == "completed"
    config, spec = spec_of(result)
    page, row = documented_methods()[method], METHODS[method]
    names = list(named_state(build_model(spec, 0)))
    personal = row.personal_names(names)
    for reply in recorder.replies("fine-tune"):
        assert not array_names(reply)
    assert (result.summary["global_accuracy"] is None) == (
        bool(personal) or config.aggregation in OWN_STARTS
    )
    if method in ACCURATE:  # ten classes
        assert result.summary["global_accuracy"] > 0.6
    assert result.summary["personal_accuracy_mean"] > 0.2
    tunes = config.fine_tunes and page.sends
    assert [row["phase"] for row in result.rounds].count("fine-tune") == bool(tunes)
    if tunes:
        (file,) = (result.path / "checkpoint" / "clients" / "00000" / "tuned").glob("*.safetensors")
        assert parameters_in(load_file(file)).keys() == set(names)


def test_shared_prototypes_move_along_geodesics(tmp_path):
    settings = {"method": "hyperfed-shared", "num_rounds": 3, "learning_rate": 0.1}
    key = "hyperfed__steps_of_prototypes"
    flat = small(tmp_path, "flat", **settings)
    moved = small(tmp_path, "geodesic", **settings | {key: "geodesic"})
    assert moved.summary["global_accuracy"] > 0.6
    apart = moved.model["head.weight"] - flat.model["head.weight"]
    assert np.abs(apart).max() > 1e-3


def fixed_sent(recorder):
    """(phase, round, partition) of the requests that bring the fixed parameters."""
    return [
        (phase_of(asked), asked["header"]["round"], partition_of(reply))
        for asked, reply in recorder.pairs
        if "fixed" in asked
    ]


def test_a_fixed_head_is_sent_once_and_again_to_who_failed(tmp_path):
    recorder = Recorder()
    small(tmp_path, method="hyperfed", num_rounds=3, intercept=recorder)
    assert fixed_sent(recorder) == [("train", 1, partition) for partition in range(3)]

    recorder = Recorder()
    fault = Fault(1, forged(lambda reply: replace(reply, error="no")), "train", 2)
    small(
        tmp_path,
        "failed",
        method="hyperfed",
        num_rounds=3,
        intercept=lambda r, h: recorder(r, lambda x: fault(x, h)),
    )
    assert fixed_sent(recorder) == [
        *(("train", 1, partition) for partition in range(3)),
        ("train", 3, 1),
    ]


def test_a_client_that_lost_the_fixed_head_is_dropped_and_gets_it_anew(tmp_path):
    def lose(request, handle):
        live._clients.clear()  # as where a process per message is started
        for file in (tmp_path / "run").glob("checkpoint/clients/00002/fixed.safetensors"):
            if request.content["header"]["round"] == 2:
                file.unlink()
        return handle(request)

    result = small(tmp_path, method="spherefed", num_rounds=3, intercept=lose)
    reasons = {row["round"]: row["reasons"] for row in result.rounds if row["phase"] == "train"}
    assert reasons["1"] == reasons["3"] == ""
    assert "partition 2: the fixed parameters of this run are not stored" in reasons["2"]


@pytest.mark.parametrize("method", only(["hyperfed", "fedbabu", "fedper"], "hyperfed".__eq__))
def test_fine_tuning_leaves_no_trace_in_the_rounds(method, tmp_path):
    settings = {"method": method, "num_rounds": 2}
    plain = small(tmp_path, "plain", fine_tune_epochs=0, **settings)
    tuned = small(tmp_path, "tuned", fine_tune_every=1, fine_tune="all", **settings)
    assert all(np.array_equal(plain.model[name], tuned.model[name]) for name in plain.model)
    assert [row["phase"] for row in tuned.rounds] == ["train", "fine-tune"] * 2


@pytest.mark.parametrize("fine_tune", ["trained", "all", "head", "closed-form"])
def test_what_fine_tuning_changes(fine_tune, tmp_path):
    result = small(tmp_path, method="spherefed", fine_tune=fine_tune, num_rounds=1)
    changed = set()
    for partition in range(3):
        (file,) = (result.path / "checkpoint" / "clients" / f"{partition:05d}" / "tuned").glob(
            "*.safetensors"
        )
        personal = parameters_in(load_file(file))
        changed |= {
            name.split(".")[0]
            for name, array in personal.items()
            if not np.array_equal(array, result.model[name])
        }
    assert changed == {"trained": {"body"}, "all": {"body", "head"}}.get(fine_tune, {"head"})


def test_the_calibrated_head_is_the_least_squares_one_of_all_features(tmp_path):
    result = small(tmp_path, method="spherefed", num_rounds=2)
    config, spec = spec_of(result)
    model = build_model(spec, 0).eval()
    with torch.no_grad():
        for name, tensor in named_state(model).items():
            tensor.copy_(torch.from_numpy(result.model[name]))
    features, targets = [], []
    pixels = parse(flatten(config) | {"images.train-subset": 240, "images.test-subset": 100})
    for node in simulated_nodes(3):
        data = load_data(pixels, Node.read(node))
        mean, std = (torch.tensor(values)[:, None, None] for values in (data.mean, data.std))
        with torch.no_grad():
            z = model.features((data.images[data.train] / 255 - mean) / std).double()
        features.append(z / z.norm(dim=1, keepdim=True))
        targets.append(torch.eye(10, dtype=torch.float64)[data.labels[data.train]])
    pooled, _, _, _ = np.linalg.lstsq(
        torch.cat(features).numpy(), torch.cat(targets).numpy(), rcond=1e-6
    )
    head = result.model["calibrated/head.weight"]
    assert head.shape == (10, 8)
    # Features are float32 on one side, of another batch on the other, and V squares their condition
    # number.
    np.testing.assert_allclose(head, pooled.T, rtol=0, atol=1e-3)
    metrics = result.summary["metrics"]
    assert result.summary["global_accuracy"] == metrics["global_accuracy_calibrated"]
    assert metrics["global_accuracy_uncalibrated"] == float(result.rounds[1]["global_accuracy"])


def test_any_method_with_a_linear_classifier_is_calibrated_on_demand(tmp_path):
    plain = small(tmp_path, "plain", method="spherefed")
    asked = small(tmp_path, "asked", method="spherefed", calibration="ffc")
    assert all(np.array_equal(plain.model[name], asked.model[name]) for name in plain.model)
    without = small(tmp_path, "without", method="spherefed", calibration="none")
    assert "calibrated/head.weight" not in without.model
    fedavg = {"method": "fedavg", "calibration": "ffc", "fine_tune_epochs": 0}
    opened = small(tmp_path, "open", **fedavg)
    masked = small(tmp_path, "masked", secure_sum=True, secure__min_holders=1, **fedavg)
    for name in ("calibrated/head.weight", "calibrated/head.bias"):
        assert np.ptp(opened.model[name]) > 0
        np.testing.assert_allclose(masked.model[name], opened.model[name], atol=1e-3)
    assert opened.summary["metrics"]["global_accuracy_calibrated"] > 0.1


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({"method": "hyperfed"}, "classifier is linear"),
        ({"method": "fedetf"}, "classifier is linear"),
        ({"method": "fedbn"}, "one model for all clients"),
        ({"method": "fedavg", "dataset": "cora"}, "of images alone"),
    ],
)
def test_a_calibration_without_a_shared_linear_classifier_is_refused(settings, allowed):
    with pytest.raises(ConfigError, match=allowed):
        parse({"dataset": "digits", "calibration": "ffc"} | settings)


def test_repeated_calibrations_go_with_an_aggregation_without_a_memory():
    raw = {"method": "fedavg", "dataset": "digits", "calibration": "ffc", "calibration-every": 2}
    for aggregation in ("auto", "fednova", "consistent"):
        assert parse(raw | {"aggregation": aggregation}).calibration_every == 2
    for aggregation in ("fedopt", "flower:FedAvgM"):
        with pytest.raises(ConfigError, match="keeps nothing of the classifier"):
            parse(raw | {"aggregation": aggregation})


@pytest.mark.parametrize("method", only(["spherefed", "fedavg"], "spherefed".__eq__))
def test_training_goes_on_with_the_classifier_of_a_calibration(method, tmp_path):
    settings = {"method": method, "calibration": "ffc", "fine_tune_epochs": 0}
    plain = small(tmp_path, "plain", num_rounds=3, **settings)
    often = small(tmp_path, "often", num_rounds=3, calibration_every=2, **settings)
    rows = [row["round"] for row in often.rounds if row["phase"] == "calibrate"]
    assert rows == ["2", "3"]
    assert np.abs(often.model["head.weight"] - plain.model["head.weight"]).max() > 1e-2
    small(tmp_path, "resumed", num_rounds=2, calibration_every=2, **settings)
    again = {"num_rounds": 3, "calibration_every": 2, "resume": True}
    resumed = small(tmp_path, "resumed", **again, **settings)
    assert all(np.array_equal(resumed.model[key], often.model[key]) for key in often.model)


def test_a_calibration_of_graphs_is_refused_before_any_round(tmp_path):
    with pytest.raises(FederationError, match="classifiers of images alone"):
        run(tmp_path, method="fedavg", dataset="trees", calibration="ffc")


def test_a_calibration_that_fails_costs_nothing_else(tmp_path):
    def refuse(request, handle):
        reply = handle(request)
        if phase_of(request.content) == "calibrate":
            return forged(lambda r: replace(r, error="no"))(request, lambda _: reply)
        return reply

    result = small(tmp_path, method="spherefed", intercept=refuse)
    assert result.summary["status"] == "completed"
    assert "0 good replies" in result.summary["metrics"]["not_calibrated"]
    assert result.summary["global_accuracy"] == float(result.rounds[1]["global_accuracy"])
    assert not any(name.startswith("calibrated/") for name in result.model)
    assert result.rounds[-1]["phase"] == "fine-tune"


def test_work_that_a_client_cannot_have_done_is_dropped(tmp_path):
    steps = [1e15, 0.0, 2.5]

    def forge(reply):
        if reply.partition == len(steps):
            return replace(reply, num_examples=10**15)
        if reply.partition < len(steps):
            return replace(reply, metrics=reply.metrics | {"steps": steps[reply.partition]})
        return reply

    def intercept(request, handle):
        is_second = request.content["header"]["round"] == 2
        if is_second and phase_of(request.content) == "train":
            return forged(forge)(request, handle)
        return handle(request)

    result = small(tmp_path, method="fednova", clients=6, intercept=intercept)
    reasons = [row["dropped"] for row in result.clients if row["round"] == "2"]
    for reason, number in zip(reasons, steps, strict=False):
        assert f"steps is {number}" in reason
    assert "allowed is a whole number" in reasons[steps.index(2.5)]
    assert "claims 1000000000000000 examples" in reasons[len(steps)]
    assert result.rounds[1]["replies"] == "2"


def test_an_aggregate_that_is_not_finite_ends_the_run_before_it_is_kept(tmp_path):
    huge = forged(
        lambda r: replace(r, arrays={n: np.full_like(a, 3e38) for n, a in r.arrays.items()})
    )
    with refuses("not-finite", error=RoundError):
        small(
            tmp_path,
            method="fedopt",
            fedopt__learning_rate=10.0,
            update_bound=0,
            intercept=Fault(1, huge, "train", 1),
        )
    assert not list((tmp_path / "run" / "checkpoint" / "server").glob("*"))


@pytest.mark.parametrize("method", only(MISSING_CLASSES, "spherefed".__eq__))
def test_clients_without_images_and_classes_that_nobody_has(method, tmp_path):
    settings = {"alpha": 1e-3, "min_client_size": 0, "clients": 12, "images__train_subset": 60}
    result = small(tmp_path, method=method, num_rounds=2, **settings)
    assert result.summary["status"] == "completed"
    first = [row for row in result.clients if (row["phase"], row["round"]) == ("train", "1")]
    assert 0 in [int(row["num_examples"]) for row in first]
    assert not any(row["dropped"] for row in result.clients)
    counts = [client["statistics"]["class_counts"] for client in result.described["clients"]]
    assert any(sum(one) == 0 for one in counts)


def test_a_client_whose_loss_is_nan_is_dropped_by_name(tmp_path, monkeypatch):
    train = learner_side.train

    def poisoned(model, task, optimizer, *rest, **keywords):
        if task.num_examples == worst:
            with torch.no_grad():
                model.get_parameter("body.0.0.weight").fill_(math.nan)
        return train(model, task, optimizer, *rest, **keywords)

    plain = small(tmp_path, "plain", method="hyperfed", num_rounds=1)
    worst = int(plain.clients[1]["num_examples"])
    monkeypatch.setattr(learner_side, "train", poisoned)
    result = small(tmp_path, method="hyperfed", num_rounds=2, fine_tune_epochs=0)
    assert {
        row["partition"]
        for row in result.clients
        if "the loss is nan in local epoch 1" in row["dropped"]
    } == {"1"}
    assert all(np.isfinite(array).all() for array in result.model.values())


def inflated(place):
    """Sums of which one number is out of all measure."""

    def change(sums):
        sums[place] = 1e300
        return sums

    return change


@pytest.mark.parametrize(("method", "places"), [("spherefed", (-1, 1)), ("ccvr", (-2, 10))])
def test_sums_that_are_none_are_dropped(method, places, tmp_path):
    """One wrong sum from each of seven of nine clients."""
    changes = [
        *map(inflated, places),
        lambda sums: np.full_like(sums, math.nan),
        lambda sums: sums[:-1],
        lambda sums: sums.astype(np.float32),
        lambda sums: 2 * sums,
        lambda sums: -sums,
    ]

    def forge(reply):
        change = dict(enumerate(changes)).get(reply.partition, np.copy)
        return replace(reply, arrays={"sums": change(np.array(reply.arrays["sums"]))})

    def answer(request, handle):
        is_sum = phase_of(request.content) == CALIBRATE
        return forged(forge)(request, handle) if is_sum else handle(request)

    settings = {"clients": 9, "images__train_subset": 450}
    result = small(tmp_path, method=method, num_rounds=1, intercept=answer, **settings)
    (row,) = [row for row in result.rounds if row["phase"] == CALIBRATE]
    assert (row["replies"], row["dropped"]) == ("2", "7")
    assert all(np.isfinite(array).all() for array in result.model.values())


def folders(tmp_path, *shapes, classes=("cat", "dog")):
    """Real nodes with a folder of images each."""
    nodes = real_nodes(tmp_path / "nodes", [{}] * len(shapes))
    for index, (node, shape) in enumerate(zip(nodes, shapes, strict=True)):
        node["data-path"] = str(tmp_path / f"own{index}")
        write_classes(tmp_path / f"own{index}", dict.fromkeys(classes, 12), seed=index, shape=shape)
    return nodes


def test_real_nodes_with_folders_of_their_own(tmp_path):
    nodes = folders(tmp_path, (16, 16, 3), (16, 16, 3))
    write_classes(tmp_path / "test", {"cat": 5, "dog": 5}, seed=9, shape=(16, 16, 3))
    settings = {"method": "hyperfed", "nodes": nodes, "test_data": str(tmp_path / "test")}
    settings |= {"local_epochs": 1}
    result = run(tmp_path, **settings)
    assert result.described["facts"]["shape"] == "3x16x16"
    assert result.summary["global_accuracy"] == float(result.rounds[-2]["global_accuracy"])
    assert all(not client["statistics"] for client in result.described["clients"])
    assert list((tmp_path / "nodes" / "state0").rglob("tuned/*.safetensors"))
    write_classes(tmp_path / "more", {"cat": 5, "eel": 5}, seed=9, shape=(16, 16, 3))
    with pytest.raises(ConfigError, match=r"classes \['eel'\]"):
        run(tmp_path, "unfit", **settings | {"test_data": str(tmp_path / "more")})


def test_nodes_whose_16_bit_images_have_other_depths_are_refused_by_name(tmp_path):
    nodes = folders(tmp_path, (16, 16), (16, 16), (16, 16), (16, 16))
    for node, factor in zip(nodes, (257, 40, 257, 0), strict=True):
        for path in Path(node["data-path"]).glob("*/*.png"):
            pixels = np.asarray(Image.open(path))
            if factor:
                Image.fromarray(pixels.astype(np.uint16) * factor).save(path)
    settings = {"method": "fedavg", "num_rounds": 0, "nodes": nodes}
    result = run(tmp_path, "apart", **settings)
    [(name, reason)] = result.described["refused"].items()
    assert name == "partition-id 1"
    for words in ("12 bits", "the others' as 16", "images.bits=16"):
        assert words in reason
    assert result.described["facts"]["bits"] == 16
    result = run(tmp_path, "together", images__bits=16, **settings)
    assert not result.described["refused"]


def test_images_too_small_for_a_network_are_named_with_the_key_that_resizes_them(tmp_path):
    nodes = folders(tmp_path, (1, 1, 3), (1, 1, 3))
    with pytest.raises(ConfigError, match=r"images are 3x1x1 .*images\.size=32") as caught:
        run(tmp_path, method="fedavg", nodes=nodes)
    assert "model = " not in str(caught.value)


def test_grey_images_among_colour_are_refused_by_name_or_converted(tmp_path):
    nodes = folders(tmp_path, (16, 16, 3), (16, 16), (16, 16, 3))
    settings = {"method": "fedavg", "num_rounds": 0, "nodes": nodes}
    result = run(tmp_path, "apart", **settings)
    assert result.described["refused"] == {
        "partition-id 1": (
            "its data are images of 1x16x16 scored by accuracy, the others' are images of 3x16x16"
            " scored by accuracy; set images.channels=1 for grey images at all nodes, or"
            " images.channels=3 for colour"
        )
    }
    together = run(tmp_path, "together", images__channels=3, **settings | {"num_rounds": 1})
    assert together.summary["num_clients"] == 3


def test_negative_variances_are_dropped(tmp_path):
    def forge(reply):
        return replace(
            reply,
            arrays={
                name: -np.array(array) if name.endswith("running_var") else array
                for name, array in reply.arrays.items()
            },
        )

    settings = {
        "images__norm": "batch",
        "model": "convnet",
        "method": "fedavg",
        "num_rounds": 1,
        "local_epochs": 1,
    }
    result = small(tmp_path, intercept=Fault(1, forged(forge), "train", 1), **settings)
    assert "negative variances" in result.rounds[0]["reasons"]


def shown_images(result):
    """The images of a run's `global_test.npz`, which its report shows, by the name of their class."""
    test = read_npz(result.path / "global_test.npz")
    names = result.described["facts"]["class_names"]
    if "images" not in test:
        return {}
    return {names[label]: image for image, label in zip(test["images"], test["image_labels"])}


def test_an_image_per_class_of_the_users_own_folder_is_stored(tmp_path):
    for number, name in enumerate("abc"):
        for place in range(20):
            image = np.zeros((40, 80, 3), np.uint8)
            image[:, :40, number] = 255
            (tmp_path / "own" / name).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(tmp_path / "own" / name / f"{place}.png")
    settings = {"method": "fedavg", "num_rounds": 0}
    result = run(tmp_path, dataset=str(tmp_path / "own"), **settings)
    shown = shown_images(result)
    assert list(shown) == ["a", "b", "c"]
    for number, image in enumerate(shown.values()):
        assert image.shape == (32, 64, 3)
        assert image[:, :30, number].min() == 255
        assert image[:, 36:].max() == 0
    assert not shown_images(run(tmp_path, "public", **settings | {"dataset": "digits"}))


def test_no_image_of_a_node_is_stored(tmp_path):
    nodes = folders(tmp_path, (16, 16), (16, 16))
    settings = {"method": "fedavg", "num_rounds": 0, "nodes": nodes}
    result = run(tmp_path, **settings)
    assert not (result.path / "global_test.npz").exists()
    own = write_classes(tmp_path / "test", {"cat": 5, "dog": 5}, seed=9, shape=(16, 16))
    result = run(tmp_path, "tested", **settings | {"test_data": str(tmp_path / "test")})
    for name, image in shown_images(result).items():
        assert any((image[..., 0] == one).all() for one in own[name])


def test_a_single_class_has_no_negatives(tmp_path):
    nodes = folders(tmp_path, (16, 16), (16, 16), classes=("cat",))
    with refuses("too-few-classes", "hyperfed", 2, error=ConfigError):
        run(tmp_path, method="hyperfed", nodes=nodes)
    assert run(tmp_path, "sphere", method="spherefed", nodes=nodes).summary["status"] == "completed"
