"""Memory is asked for before a model is made; a node where it runs out is dropped."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from app_runs import run
from errors import refuses
from graph_fixtures import write_user_graph
from tiers import only

import curvfed.client_app.resources
from curvfed.client_app.data import load_data
from curvfed.client_app.node import Node
from curvfed.client_app.resources import device_of, fitting_model, memory_error
from curvfed.strategies.base.training import TrainingError
from curvfed.strategies.config.build_method import build_model, model_spec
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.graphs.client_task import NodeTask
from curvfed.tasks.kinds import KINDS

GIB = 2**30
CPU, CUDA = torch.device("cpu"), torch.device("cuda:1")


@pytest.fixture
def graph(tmp_path):
    write_user_graph(tmp_path / "own.pt")
    return load_data(parse({}), Node(partition=0, data_path=tmp_path / "own.pt"))


def spec_of(width: int = 16, task: str = "nodes", num_features: int = 8, **keys):
    config = resolve_defaults(parse({"embedding-dim": width, "method": "fedavg", **keys}), task)
    return model_spec(config, Facts(task, num_features, ("a", "b"))), config


def on_cuda(monkeypatch, free: int, reserved: int = 0, allocated: int = 0) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, 80 * GIB))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: reserved)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: allocated)


@pytest.mark.parametrize("free", [-1, 0])
def test_a_model_fits_to_the_byte(free, graph, monkeypatch):
    spec, config = spec_of()
    values = sum(parameter.numel() for parameter in build_model(spec, 0).parameters())
    needed = values * 4 * 5 + graph.bytes_on(CPU)  # weights, gradients, two moments, a copy
    monkeypatch.setattr(curvfed.client_app.resources, "free_memory", lambda device: needed + free)
    if free < 0:
        with pytest.raises(
            ConfigError, match=f"training a model of {values:,} parameters takes 0.0 GiB"
        ):
            fitting_model(spec, config, graph, CPU)
    else:
        made = fitting_model(spec, config, graph, CPU)
        assert all(map(torch.equal, made.parameters(), build_model(spec, 0).parameters()))


@pytest.mark.parametrize(
    ("optimizer", "momentum", "values"), [("adam", 0.9, 5), ("sgd", 0.9, 4), ("sgd", 0.0, 3)]
)
def test_what_an_optimiser_keeps(optimizer, momentum, values, graph, monkeypatch):
    spec, config = spec_of(width=4096, optimizer=optimizer, momentum=momentum)
    monkeypatch.setattr(curvfed.client_app.resources, "free_memory", lambda device: 0)
    with pytest.raises(ConfigError, match=rf"takes {4096 * (4096 + 8) * 4 * values / GIB:.1f} GiB"):
        fitting_model(spec, config, graph, CPU)


def test_a_network_that_is_far_too_large_is_not_even_begun(graph, monkeypatch):
    spec, config = spec_of(width=65_536)
    monkeypatch.setattr(
        curvfed.client_app.resources,
        "build_model",
        lambda *_: pytest.fail("4 billion weights were made"),
    )
    monkeypatch.setattr(curvfed.client_app.resources, "free_memory", lambda device: 15 * GIB)
    with pytest.raises(ConfigError, match=r"takes 80\.0 GiB .*; device cpu has 15\.0 GiB free"):
        fitting_model(spec, config, graph, CPU)


def test_a_gpu_that_is_too_small(graph, monkeypatch):
    spec, config = spec_of(width=8192)
    on_cuda(monkeypatch, GIB)
    monkeypatch.setattr(
        curvfed.client_app.resources, "move_to_device", lambda *_: pytest.fail("it was put there")
    )
    with pytest.raises(ConfigError, match=r"takes 1\.3 GiB .*; device cuda:1 has 1\.0 GiB free"):
        fitting_model(spec, config, graph, CUDA)


@pytest.mark.parametrize("width", [1, 2, 16, 100])
@pytest.mark.parametrize("num_features", [1, 50])
@pytest.mark.parametrize(
    ("task", "kind"), [(task, kind) for task in ("nodes", "graphs") for kind in KINDS[task].models]
)
def test_the_lower_bound_is_one_and_is_near(task, kind, num_features, width):
    spec = replace(spec_of(width, task, num_features)[0], kind=kind)
    values = sum(parameter.numel() for parameter in build_model(spec, 0).parameters())
    assert spec.min_parameters <= values
    assert values <= 2 * spec.min_parameters + 50 * (width + 4)


def test_data_of_nodes_on_a_device(graph):
    features, edges = graph.features.nbytes, graph.edge_index.nbytes
    assert graph.bytes_on(CUDA) == 2 * (features + edges)
    assert graph.bytes_on(CPU) == features + edges
    inputs = NodeTask(graph, graph.class_names, CPU).inputs
    made = inputs.features.transpose.nbytes + sum(
        part.nbytes
        for part in (inputs.adjacency.matrix.col_indices(), inputs.adjacency.matrix.values())
    )
    loops = 8 * inputs.num_nodes  # an index and a weight for every node
    assert made - loops == graph.bytes_on(CPU) - edges // 2


def test_a_client_for_which_there_is_no_memory_is_dropped_with_the_figures(tmp_path, monkeypatch):
    real = curvfed.client_app.resources.free_memory
    asked: list[torch.device] = []

    def free(device):
        asked.append(device)
        return 1000 if len(asked) == 1 else real(device)

    monkeypatch.setattr(curvfed.client_app.resources, "free_memory", free)
    rows = run(tmp_path).clients
    (dropped,) = {row["dropped"] for row in rows if row["round"] == "1"} - {""}
    assert dropped.startswith("training a model of ")
    assert "; device cpu has 0.0 GiB free. Use a smaller embedding-dim" in dropped
    # its memory was free again
    assert [row["dropped"] for row in rows if row["round"] == "2"] == [""] * 3
    assert len(asked) == 4  # once for every client that is set up, not for every message


def out_of_memory(*_: object) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB")


def one_more(*_: object) -> None:
    torch.empty(2**60)


def of_numpy(*_: object) -> None:
    np.empty(2**59)


@pytest.mark.parametrize("fail", [out_of_memory, one_more, of_numpy])
def test_memory_that_runs_out_is_reported(fail):
    with pytest.raises((MemoryError, RuntimeError)) as raised:
        fail()
    notes = memory_error(raised.value, parse({"batch-size": 77}), Node(partition=0, device="cpu"))
    assert isinstance(notes, TrainingError)
    assert "device cpu ran out of memory at batch-size = 77" in str(notes)


@pytest.mark.parametrize("where", only(["batches", "scores"], "batches".__eq__))
def test_a_client_that_runs_out_of_memory_is_dropped_and_the_run_goes_on(
    where, tmp_path, monkeypatch
):
    real, calls = getattr(NodeTask, where), []

    def failing(self, model):
        calls.append(where)
        if len(calls) == 1:
            out_of_memory()
        return real(self, model)

    monkeypatch.setattr(NodeTask, where, failing)
    result = run(tmp_path, batch_size=900)
    (dropped,) = {row["dropped"] for row in result.clients} - {""}
    assert dropped.startswith("device cpu ran out of memory at batch-size = 900; use a smaller")
    assert result.summary["status"] == "completed"
    assert result.rounds[-1]["dropped"] == "0"


# The device itself


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:-1", "cuda:x", "mps", "meta", "CPU", "0"])
def test_names_of_no_device(name):
    with refuses("no-such-device", f'"{name}"', "cuda:N", error=ConfigError):
        device_of(parse({}), Node(partition=0, device=name))


def test_a_machine_with_two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number: "ABC"[number] * 3)
    assert device_of(parse({}), Node(partition=0, device="cuda:1")) == torch.device("cuda:1")
    assert device_of(parse({"device": "cpu"}), Node(partition=0)) == CPU
    with refuses("no-such-device", '"cuda:2"', "cuda:0 (AAA), cuda:1 (BBB)", error=ConfigError):
        device_of(parse({}), Node(partition=0, device="cuda:2"))
