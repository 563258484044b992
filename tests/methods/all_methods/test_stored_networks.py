"""Networks are ordinary modules of torch: they are pickled, stored and copied."""

import copy
import io
import pickle

import pytest
import torch
from app_runs import EVERY
from tiers import only

from curvfed.nn import CurvedNet, LorentzConv, LorentzLinear, LorentzReadout
from curvfed.strategies.config.build_method import build_model, model_spec
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks.kinds import KINDS

WAYS = {
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
    "torch": lambda module: stored_by_torch(module),
    "copy": copy.deepcopy,
}


def stored_by_torch(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def check_stored(module):
    for way, store in WAYS.items():
        again = store(module)
        assert type(again) is type(module)
        for (name, one), (_, other) in zip(
            module.state_dict().items(), again.state_dict().items(), strict=True
        ):
            assert torch.equal(one, other), (way, name)
        assert str(again) == str(module)
    if hasattr(module, "curvature"):
        curvatures = [torch.as_tensor(each.curvature).tolist() for each in (again, module)]
        assert curvatures[0] == curvatures[1]


def network(task, **settings):
    shape = {"vgg13": "3x32x32", "resnet18": "3x32x32"}.get(settings.get("model", ""), "1x28x28")
    facts = Facts(task, 8, ("a", "b", "c"), shape if task == "images" else "")
    return build_model(model_spec(resolve_defaults(parse(settings), task), facts), 0)


@pytest.mark.parametrize(
    ("method", "task"), only(EVERY, lambda case: case[0] in ("fedavg", "flatland", "fed-pub"))
)
def test_the_network_of_every_method(method, task):
    check_stored(network(task, method=method))


@pytest.mark.parametrize(
    ("task", "model"),
    only(
        [(task, model) for task, kind in KINDS.items() for model in kind.models],
        lambda case: case[1] in ("lorentz", "gated", "gin", "cnn", "prototypes"),
    ),
)
def test_every_network(task, model):
    method = "local" if task == "links" else "fedavg"
    check_stored(network(task, method=method, model=model))


@pytest.mark.parametrize("curvature_map", ["sigmoid", "exp"])
def test_networks_of_ones_own(curvature_map):
    net = CurvedNet(curvature_map)
    net.layers = torch.nn.ModuleList([LorentzConv(4, 3), LorentzLinear(3, 3), LorentzReadout(3, 2)])
    with torch.no_grad():
        net.k.fill_(0.3)
    check_stored(net)
