"""Curvature 0 is the limit of the curvatures below it: scores, gradients and steps of every curved
part tend to those at 0 in first order of the curvature, and at 0 nothing curved runs."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from app_runs import QUICK, run
from curvature_limits import SIZES, a_round, orders, shaken, values
from torch import Tensor, nn

from curvfed.geometry import normal_coordinates
from curvfed.geometry.frames import Chart
from curvfed.strategies.methods import METHODS
from curvfed.tasks.graphs import lorentz_layers, lorentz_modules
from curvfed.tasks.graphs.inputs import DenseGraphs, GraphInputs
from curvfed.tasks.graphs.model_spec import ModelSpec
from curvfed.tasks.graphs.sparse import Constant
from curvfed.tasks.heads import HeadSpec, PrototypeHead
from curvfed.tasks.images.client_task import objective


def graph_inputs() -> GraphInputs:
    """A ring of six nodes with two chords."""
    ends = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 1], [1, 2, 3, 4, 5, 0, 3, 4]])
    edges = torch.cat([ends, ends.flip(0)], dim=1)
    order = torch.argsort(edges[0] * 6 + edges[1])
    owner = torch.zeros(6, dtype=torch.int64)
    features = Constant.of(values(6, 3))
    return GraphInputs(features, edges[:, order], graph_of_node=owner, num_graphs=1)


def graph_network(task: str, kind: str, curvature: float) -> tuple[nn.Module, Callable[[], Tensor]]:
    spec = ModelSpec(task, kind, 3, 2, 4, dropout=0.0, curvature=curvature)
    model = shaken(spec.build(0))
    inputs = graph_inputs()
    return model, lambda: model(inputs)


def padded_network(kind: str, curvature: float) -> tuple[nn.Module, Callable[[], Tensor]]:
    """As `torch.func` maps it over graphs."""
    spec = ModelSpec("graphs", kind, 3, 2, 4, dropout=0.0, curvature=curvature)
    model = shaken(spec.build(0))
    graphs = DenseGraphs.of(graph_inputs(), 6)

    def outputs() -> Tensor:
        parameters = dict(model.named_parameters())
        single = DenseGraphs(*(field[0] for field in graphs))
        call = partial(torch.func.functional_call, model)
        return torch.func.vmap(lambda _: call(parameters, (single,)))(torch.zeros(1))

    return model, outputs


def prototypes(loss: str, curvature: float) -> tuple[nn.Module, Callable[[], Tensor]]:
    torch.manual_seed(0)
    head = PrototypeHead(HeadSpec("prototypes", 3, 4, curvature=curvature))
    model = shaken(nn.ModuleDict({"body": nn.Linear(5, 4), "head": head}))
    network = SimpleNamespace(head=head, features=model["body"])
    images = values(6, 5, seed=7)
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    loss_of = objective(loss, margin=3.0, negatives="all", mixup=0.0)

    def outputs() -> Tensor:
        value = loss_of(network, images, labels)
        return torch.cat([value.reshape(1), head(model["body"](images)).flatten()])

    return model, outputs


IMAGES = "flatland-images" in METHODS
"""Whether the extension with FlatLand's classifier of images is here."""


def lorentz_classifier(curvature: float) -> tuple[nn.Module, Callable[[], Tensor]]:
    from curvfed.extensions.lorentz_images.lorentz_head import LorentzHead  # may be deleted

    torch.manual_seed(0)
    head = LorentzHead(4, 3, "sigmoid", curvature)
    model = shaken(nn.ModuleDict({"body": nn.Linear(5, 4), "head": head}))
    images = values(6, 5, seed=7)
    return model, lambda: head(model["body"](images))


CASES = {
    "flatland.curvature": {
        "nodes": partial(graph_network, "nodes", "lorentz"),
        "graphs": partial(graph_network, "graphs", "lorentz"),
        "graphs by FlatLand's layers": partial(graph_network, "graphs", "lorentz-gcn"),
        "padded graphs": partial(padded_network, "lorentz"),
        "padded graphs by FlatLand's layers": partial(padded_network, "lorentz-gcn"),
    },
    "fedhgcn.curvature": {
        "nodes": partial(graph_network, "nodes", "lorentz"),
        "graphs": partial(graph_network, "graphs", "lorentz"),
    },
    "hyperfed.curvature": {
        "triplet loss": partial(prototypes, "triplet"),
        "geodesic loss": partial(prototypes, "geodesic"),
    },
    **({"flatland-images.curvature": {"classifier": lorentz_classifier}} if IMAGES else {}),
}
"""By the key of a family's curvature, its networks."""

NETWORKS = [(key, name) for key, cases in CASES.items() for name in cases]


def test_every_family_of_graphs_and_images_has_cases():
    """An extension with data of its own has them in its tests."""
    of_core = [row for row in METHODS.values() if set(row.tasks) & {"nodes", "graphs", "images"}]
    assert {row.curvature_key for row in of_core} - {""} <= CASES.keys()


@pytest.mark.parametrize(("key", "name"), NETWORKS)
def test_outputs_gradients_and_steps_tend_to_those_at_0_in_first_order(key, name):
    make = CASES[key][name]
    flat = a_round(make, 0.0)
    errors = [float((a_round(make, -size) - flat).norm() / flat.norm()) for size in SIZES]
    assert errors[-1] < 1e-5
    assert all(0.9 < order < 1.1 for order in orders(errors)[1:]), errors


def refuse(*arguments: object, **keywords: object) -> None:
    raise AssertionError("curved code runs at curvature 0")


CURVED = [
    (name, task)
    for name, row in METHODS.items()
    for task in row.tasks
    if row.curvature_key and task in QUICK
]


@pytest.mark.parametrize(("method", "task"), CURVED)
def test_at_curvature_0_nothing_curved_runs(method, task, tmp_path, monkeypatch):
    for function in ("_Exp0Factor", "_LorentzLinear", "_DistanceLogits"):
        monkeypatch.setattr(getattr(lorentz_layers, function), "apply", refuse)
    monkeypatch.setattr(lorentz_modules._Convolution, "apply", refuse)
    monkeypatch.setattr(normal_coordinates, "cdist", refuse)
    monkeypatch.setattr(Chart, "__init__", refuse)
    key = METHODS[method].curvature_key.replace(".", "__")
    settings = QUICK[task] | {"method": method, "num_rounds": 1, key: 0.0}
    done = run(tmp_path, "flat", **settings)
    assert done.summary["status"] == "completed"


@pytest.mark.parametrize(("method", "task"), CURVED)
def test_losses_of_a_round_at_a_small_curvature_are_those_at_0(method, task, tmp_path):
    key = METHODS[method].curvature_key.replace(".", "__")
    settings = QUICK[task] | {"method": method, "num_rounds": 1}
    losses = []
    for curvature in (0.0, -1e-6):
        done = run(tmp_path, f"at{curvature:g}", **settings, **{key: curvature})
        losses.append([float(row["loss"]) for row in done.clients if row["phase"] == "train"])
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)


def test_a_curvature_above_0_is_refused():
    with pytest.raises(ValueError, match="at most 0"):
        graph_network("nodes", "lorentz", 1.0)[1]()


def test_replaced_curvatures_keep_the_start():
    spec = ModelSpec("nodes", "lorentz", 3, 2, 4, dropout=0.0, curvature=0.0)
    flat = spec.build(3).state_dict()
    trainable = replace(spec, curvature=None).build(3).state_dict()
    assert all(torch.equal(trainable[name], value) for name, value in flat.items())
