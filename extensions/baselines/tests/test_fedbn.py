"""FedBN: which tensors stay at the clients, and what it refuses."""

import pytest
from errors import refuses
from guards import needs_privacy
from tiers import only
from torch import nn

from curvfed.strategies.config.parse import parse
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS
from curvfed.tasks.images.models import ImageModelSpec
from curvfed.tasks.kinds import KINDS

NETS = [name for name in KINDS["images"].models if name not in ("cnn", "features")]
"""The networks with normalisation."""


@pytest.mark.parametrize("kind", only(NETS, "convnet".__eq__))
def test_all_tensors_of_batch_normalisation_stay_and_no_others(kind):
    model = ImageModelSpec(kind, (1, 16, 16), "batch", 4, 3).build(seed=0)
    norms = [name for name, layer in model.named_modules() if isinstance(layer, nn.BatchNorm2d)]
    expected = {
        f"{name}.{tensor}"
        for name in norms
        for tensor in ("weight", "bias", "running_mean", "running_var")
    }
    names = {*expected, *(name for name, _ in model.named_parameters())}
    assert METHODS["fedbn"].personal_names(names) == expected


def test_a_network_without_batch_normalisation_is_refused_by_name():
    with refuses("no-batch-norm", "fedbn", "convnet", error=ConfigError):
        METHODS["fedbn"].personal_names(["body.0.0.weight", "head.weight"])


@needs_privacy
def test_examples_cannot_be_hidden_by_private_steps():
    keys = {"dp.unit": "record", "dp.epsilon": 8.0, "dataset": "digits"}
    with refuses("dp-unit-with-method", "fedbn", "batch normalisation", error=ConfigError):
        parse(keys | {"method": "fedbn"})
