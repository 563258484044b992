"""What only a GPU does. `make gpu` runs these; without a GPU they are skipped."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from app_runs import Run
from command_runs import command_run, rounds_of
from graph_fixtures import write_tu
from one_client import a_client, some_rounds
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

import curvfed.client_app.client
from benchmarks.gpu import waits
from curvfed.client_app import clients_in_memory
from curvfed.client_app.client import Client
from curvfed.client_app.node import Node
from curvfed.client_app.resources import device_of, free_memory, memory_error
from curvfed.deployments.inprocess import simulate
from curvfed.strategies.base.learner import run_epochs
from curvfed.strategies.base.optimizer import Adam
from curvfed.strategies.base.training import TrainingError
from curvfed.strategies.config.device import move_to_device
from curvfed.strategies.config.parse import parse
from curvfed.strategies.methods import METHODS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not torch.cuda.is_available(),
        reason="torch finds no CUDA GPU on this machine; make gpu runs these where there is one",
    ),
    pytest.mark.filterwarnings("ignore"),  # of libraries about the device, which are not ours
]

GPU = torch.device("cuda:0")
NODE = Node(partition=0)
NODES: dict[str, Any] = {
    "dataset": "trees",
    "dropout": 0.0,
    "optimizer": "sgd",
    "learning-rate": 0.05,
}
IMAGES: dict[str, Any] = {
    "dataset": "digits",
    "partition": "iid",
    "model": "cnn",
    "images.train-subset": 960,
    "images.test-subset": 50,
    "learning-rate": 0.01,
    "clip-norm": 1.0,
    "optimizer": "sgd",
}
OF_TASK = {"nodes": NODES, "images": IMAGES}
WORKS = [
    *(
        (name, OF_TASK[task])
        for name, method in METHODS.items()
        for task in method.tasks
        if task in OF_TASK and name != "fedopt"  # its server is Flower's
    ),
    ("hyperfed", IMAGES | {"hyperfed.negatives": "all", "hyperfed.mixup": 1.0}),
    ("flatland", NODES | {"batch-size": 20}),
    ("fedavg", NODES | {"batch-size": 20}),
]


class DrawsOfCpu(TorchDispatchMode):
    """Random numbers are the CPU's, and are moved: the generators differ for one seed."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        device = torch.device(kwargs.get("device") or getattr(args[0], "device", "cpu"))
        if device.type == "cpu" or torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        args = tree_map(lambda one: one.cpu() if isinstance(one, torch.Tensor) else one, args)
        result = func(*args, **(kwargs | ({"device": "cpu"} if "device" in kwargs else {})))
        return tree_map(
            lambda one: one.to(device) if isinstance(one, torch.Tensor) else one, result
        )


@pytest.fixture(autouse=True)
def exact():
    """Convolutions and products in float32, not in the shorter TensorFloat-32."""
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before


@pytest.fixture
def cpu_seeds(monkeypatch):
    """Clients seed the CPU's generator, whatever their device."""
    monkeypatch.setattr(
        curvfed.client_app.client,
        "seed_dropout",
        lambda seed, device: torch.default_generator.manual_seed(seed),
    )


def summary(settings, clients=3):
    clients_in_memory.forget_all()
    return json.loads((simulate(settings, clients) / "summary.json").read_text())


@pytest.mark.parametrize(
    ("method", "base"), WORKS, ids=lambda one: one if isinstance(one, str) else one["dataset"]
)
def test_every_kind_of_local_work_equals_the_cpus(method, base, cpu_seeds):
    losses, _, sent = some_rounds(base | {"method": method, "device": "cpu"})
    with DrawsOfCpu():
        gpu_losses, _, gpu_sent = some_rounds(base | {"method": method, "device": "cuda:0"})
    np.testing.assert_allclose(gpu_losses, losses, rtol=1e-4)
    assert gpu_sent.keys() == sent.keys()
    for name, array in sent.items():
        largest = max(float(np.abs(array).max(initial=0)), 1e-3)
        np.testing.assert_allclose(gpu_sent[name], array, rtol=0, atol=1e-3 * largest, err_msg=name)


@pytest.mark.parametrize("method", ["flatland", "gcfl"])
def test_classifiers_of_graphs_equal_the_cpus(method, tmp_path, own_home, cpu_seeds):
    names = ("MUTAG", "BZR")
    for name in names:
        write_tu(tmp_path, name)
    settings = {"method": method, "dataset": ",".join(names), "data-dir": str(tmp_path)}
    settings |= {"dropout": 0.0, "num-rounds": 2, "results-dir": str(tmp_path)}
    summary(settings | {"device": "cpu", "run-name": "cpu"}, 2)
    with DrawsOfCpu():
        summary(settings | {"device": "cuda:0", "run-name": "gpu"}, 2)
    losses, gpu_losses = (
        [float(row["loss"]) for row in Run(tmp_path / name).rounds] for name in ("cpu", "gpu")
    )
    assert gpu_losses == pytest.approx(losses, rel=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        IMAGES | {"method": "hyperfed"},
        IMAGES | {"method": "fedrep", "mixed-precision": True},
        {"dataset": "trees", "method": "flatland"},
        {"dataset": "trees", "method": "fedhgcn"},
    ],
    ids=lambda settings: settings["method"],
)
def test_a_resumed_run_has_the_bits_of_one_without_interruption(settings, tmp_path):
    base = settings | {"device": "cuda:0", "results-dir": str(tmp_path)}
    summary(base | {"run-name": "whole", "num-rounds": 3})
    summary(base | {"run-name": "parts", "num-rounds": 2})
    summary(base | {"run-name": "parts", "num-rounds": 3, "resume": True})
    whole, parts = (Run(tmp_path / name) for name in ("whole", "parts"))
    expected = whole.model | whole.personal(0)
    continued = parts.model | parts.personal(0)
    assert continued.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(continued[name], array, err_msg=name)


@pytest.mark.parametrize(
    "settings",
    [
        {"dataset": "trees", "method": "flatland"},
        IMAGES | {"method": "hyperfed", "images.augment": "crop-flip", "mixed-precision": True},
    ],
    ids=["nodes", "images"],
)
def test_draws_are_those_of_the_seed(settings):
    one, other = (some_rounds(settings | {"device": "cuda:0"})[0] for _ in range(2))
    np.testing.assert_allclose(one, other, rtol=1e-3)  # sums by atomic operations come in any order


def test_images_lie_on_the_device_as_bytes_and_batches_are_made_there():
    client, _ = a_client(IMAGES | {"method": "fedavg", "device": "cuda:0"})
    assert (client.task._bytes.device, client.task._bytes.dtype) == (GPU, torch.uint8)
    batch = next(iter(client.task.batches(client.model)))
    assert (batch.inputs.device, batch.inputs.dtype, batch.labels.device) == (
        GPU,
        torch.float32,
        GPU,
    )
    assert next(client.model.parameters()).is_contiguous(memory_format=torch.channels_last)


def test_adam_on_convolutions_with_the_channels_last():
    config = parse({"method": "fedavg", "dataset": "digits", "model": "cnn"})
    nets = [torch.nn.Conv2d(3, 8, 5), torch.nn.Conv2d(3, 8, 5)]
    nets[1].load_state_dict(nets[0].state_dict())
    ours, theirs = (move_to_device(net, GPU) for net in nets)
    adam = Adam(dict(ours.named_parameters()), 0.1, config.weight_decay, undecayed=())
    peer = torch.optim.Adam(theirs.parameters(), 0.1, weight_decay=config.weight_decay)
    images = torch.randn(4, 3, 9, 9, device=GPU)
    for _ in range(3):
        for net, optimizer in ((ours, adam), (theirs, peer)):
            optimizer.zero_grad()
            net(images).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight)


@pytest.mark.parametrize("settings", [{"secure-sum": True}, {}], ids=["masked", "plain"])
def test_sums_on_the_cpu_of_models_on_a_gpu(settings, own_home):
    result = summary(IMAGES | {"method": "fedavg", "device": "cuda:0", "num-rounds": 2} | settings)
    assert result["status"] == "completed"


@pytest.mark.parametrize("device", ["cuda:0", "cpu"])
def test_personal_state_of_a_gpu_is_read_on_any_device(device, own_home, tmp_path):
    settings = {"dataset": "trees", "method": "flatland", "results-dir": str(tmp_path)}
    client, facts = a_client(settings | {"device": "cuda:0"})
    client.fit(1)
    client.commit(1, 0)
    again = Client(parse(settings | {"device": device}), "benchmark", client.node)
    again.prepare(facts, 1)
    for name, tensor in client.personal.items():
        assert again.personal[name].device.type == torch.device(device).type
        assert torch.equal(again.personal[name].cpu(), tensor.cpu())


def test_mixed_precision_computes_in_bfloat16_and_keeps_float32():
    client, _ = a_client(IMAGES | {"method": "fedavg", "mixed-precision": True, "device": "cuda:0"})
    plain, _ = a_client(IMAGES | {"method": "fedavg", "device": "cuda:0"})
    seen = []
    client.model.body.register_forward_hook(lambda *of: seen.append(of[-1].dtype))
    losses = [run_epochs(one.learner, 1).loss for one in (client, plain)]
    assert set(seen) == {torch.bfloat16}
    assert {parameter.dtype for parameter in client.parameters.values()} == {torch.float32}
    assert losses[0] == pytest.approx(losses[1], rel=0.1)


def test_device_names(own_home):
    for name in ("auto", "cuda", "cuda:0"):
        assert device_of(parse({"device": name}), NODE).type == "cuda"
        assert free_memory(device_of(parse({"device": name}), NODE)) > 0
    assert device_of(parse({"device": "cuda:0"}), Node(partition=0, device="cpu")).type == "cpu"
    client, _ = a_client(NODES | {"method": "fedavg"})
    assert client.device.type == "cuda"


@pytest.mark.parametrize("method", ["hyperfed", "spherefed", "fedavg"])
def test_no_step_waits_for_the_gpu(method):
    few, many = (
        a_client(
            IMAGES | {"method": method, "batch-size": size, "device": "cuda:0", "clip-norm": 0.0}
        )[0]
        for size in (32, 8)
    )
    result = []
    for client in (few, many):
        run_epochs(client.learner, 1)  # what is made at the first pass stays
        result.append(waits(lambda client=client: run_epochs(client.learner, 1)))
    assert result[0] == result[1] > 0


def test_a_share_of_a_gpu_for_each_client():
    pytest.importorskip("ray")
    settings = {"method": "flatland", "dataset": "trees", "num-rounds": 2, "device": "cuda:0"}
    with command_run("run", settings, 4, "--gpus", "0.25") as (process, run):
        rows = rounds_of(run, process)
    assert [row["dropped"] for row in rows if row["phase"] == "train"] == ["0", "0"]


def test_memory_that_runs_out_is_reported():
    with pytest.raises(torch.OutOfMemoryError) as raised:
        torch.empty(2**42, device=GPU)
    notes = memory_error(raised.value, parse({"device": "cuda:0"}), NODE)
    assert isinstance(notes, TrainingError)
    assert "device cuda:0 ran out of memory" in str(notes)
