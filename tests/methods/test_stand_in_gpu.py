"""Every method on a device that stands in for a GPU: no tensor of the CPU among its own, no draw
from the CPU's generator.

Where the arithmetic is the same, results are those of the CPU bit for bit. Dropout is off: it draws
in another way there.
"""

import json
from typing import Any

import numpy as np
import pytest
import torch
from graph_fixtures import write_tu
from one_client import some_rounds
from stand_in_gpu import GPU, OnGpu, standing_in

import curvfed.server_app.global_model
from curvfed.client_app import clients_in_memory
from curvfed.deployments.inprocess import simulate
from curvfed.strategies.methods import METHODS

NODES: dict[str, Any] = {"dataset": "trees", "dropout": 0.0}
IMAGES: dict[str, Any] = {
    "dataset": "digits",
    "partition": "iid",
    "model": "cnn",
    "images.train-subset": 300,
    "images.test-subset": 50,
    "batch-size": 16,
}
OF_TASK = {"nodes": NODES, "images": IMAGES}
OF_METHOD = {"fedbn": {"model": "convnet"}}  # needs batch normalisation
WORKS = [
    *(
        pytest.param(
            name,
            OF_TASK[task] | OF_METHOD.get(name, {}),
            marks=[] if name in ("flatland", "hyperfed") else pytest.mark.long,
        )
        for name, method in METHODS.items()
        for task in method.tasks
        if task in OF_TASK and name != "fedopt"  # its server is Flower's
    ),
    ("hyperfed", IMAGES | {"hyperfed.negatives": "all", "hyperfed.mixup": 1.0}),
    (
        "fedavg",
        IMAGES
        | {
            "optimizer": "adam",
            "optimizer-state": "fresh",
            "images.augment": "crop-flip",
            "clip-norm": 1.0,
        },
    ),
    ("fedbabu", IMAGES | {"optimizer": "adam", "optimizer-state": "kept"}),
    ("fedavg", NODES | {"optimizer": "sgd"}),
]


@pytest.mark.parametrize(
    ("method", "base"), WORKS, ids=lambda one: one if isinstance(one, str) else one["dataset"]
)
def test_a_client_on_a_gpu_does_what_it_does_on_the_cpu(method, base):
    settings = base | {"method": method}
    on_cpu = some_rounds(settings)
    with standing_in():
        on_gpu = some_rounds(settings)
    # The CPU's Adam, and on some processors its convolutions, round by the entries' places in
    # memory; Adam's division by the root of small moments makes ten times as much of it.
    rounding = 1e-5 if base["dataset"] == "digits" else 0
    if base.get("optimizer") == "adam":
        rounding = max(1e-6, 10 * rounding)
    assert on_gpu[0] == pytest.approx(on_cpu[0], rel=1e-4 if rounding else 0, abs=0)
    assert on_gpu[1] == pytest.approx(on_cpu[1], rel=1e-4 if rounding else 0, abs=0)
    assert on_gpu[2].keys() == on_cpu[2].keys()
    for name, array in on_cpu[2].items():
        np.testing.assert_allclose(
            on_gpu[2][name], array, rtol=rounding, atol=rounding, err_msg=name
        )


def test_with_dropout_too(own_home):
    with standing_in():
        one, other = (some_rounds({"dataset": "trees", "method": "flatland"}) for _ in range(2))
    assert one[0] == other[0]  # by the seed of the client and the round


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(IMAGES | {"method": "spherefed"}, marks=pytest.mark.long),
        NODES | {"method": "flatland"},
        pytest.param(
            {"method": "flatland", "dataset": "MUTAG,BZR", "dropout": 0.0}, marks=pytest.mark.long
        ),
        pytest.param(
            {"method": "gcfl", "dataset": "MUTAG,BZR", "dropout": 0.0}, marks=pytest.mark.long
        ),
    ],
    ids=["images", "nodes", "graphs", "flat graphs"],
)
def test_whole_runs_are_equal(settings, tmp_path, monkeypatch):
    if "," in settings["dataset"]:
        for name in settings["dataset"].split(","):
            write_tu(tmp_path, name)
        settings = settings | {"data-dir": str(tmp_path)}

    def summary(name):
        clients_in_memory.forget_all()
        named = {"num-rounds": 2, "results-dir": str(tmp_path), "run-name": name}
        path = simulate(settings | named, 2)
        return json.loads((path / "summary.json").read_text())

    on_cpu = summary("cpu")
    with standing_in():
        monkeypatch.setattr(curvfed.server_app.global_model, "pick_device", lambda _: GPU)
        on_gpu = summary("gpu")
    assert on_gpu["metrics"] == on_cpu["metrics"]


def test_what_a_gpu_refuses_is_refused():
    with standing_in():
        there = torch.ones(3, device=GPU)
        assert isinstance(there, OnGpu)
        for wrong in (
            lambda: there + torch.ones(3),
            lambda: there.numpy(),
            lambda: torch.stack([there, torch.ones(3)]),
        ):
            with pytest.raises(RuntimeError):
                wrong()
        assert (there[torch.tensor([0])] * torch.tensor(2.0)).tolist() == [2.0]
