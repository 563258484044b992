"""Within a step nothing asks for a number: on a GPU each would make the processor wait for all that
was begun.

Tried on the CPU, where the same calls are made. What is looked at once in a pass, such as its
losses, is allowed.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from one_client import CLIENTS, a_client
from tiers import only
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from curvfed.client_app.client import Client
from curvfed.strategies.base.learner import Learner, run_epochs
from curvfed.strategies.config.build_method import initial_aggregation, learner_class
from curvfed.strategies.methods import METHODS
from curvfed.tasks.graphs import lorentz_modules as lorentz_ops

READS = (
    *("item", "tolist", "numpy", "cpu", "__bool__", "__float__", "__int__"),
    *("__index__", "__array__"),
)
WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal", "is_nonzero")

IMAGES = {
    "dataset": "digits",
    "partition": "iid",
    "model": "cnn",
    "images.train-subset": 960,
    "images.test-subset": 50,
}
GRAPHS = {"dataset": "trees"}
MODELS = {"fedbn": "convnet"}  # needs batch normalisation
LEARNERS = [
    *(
        (name, IMAGES | {"model": MODELS.get(name, "cnn")})
        for name, method in METHODS.items()
        if "images" in method.tasks and learner_class(method).train is Learner.train
    ),
    *(
        (name, GRAPHS)
        for name, method in METHODS.items()
        if "nodes" in method.tasks and learner_class(method).train is Learner.train
    ),
    ("hyperfed", IMAGES | {"hyperfed.negatives": "all"}),
    ("hyperfed", IMAGES | {"hyperfed.mixup": 1.0}),
    ("fedavg", IMAGES | {"mixed-precision": True, "clip-norm": 1.0}),
]


class Waiting(TorchDispatchMode):
    """Counts the operations whose result's size or value the processor must know."""

    def __init__(self, result):
        super().__init__()
        self._counts = result

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.__name__.partition(".")[0]
        if any(name.startswith(one) for one in WAITS):
            self._counts[name] += 1
        if name in ("index", "index_put_") and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        ):
            self._counts["index by a mask"] += 1
        return func(*args, **(kwargs or {}))


@pytest.fixture
def waits(monkeypatch):
    """What a pass over a client's examples asks for."""

    def of(client) -> Counter:
        result: Counter = Counter()

        def counting(name, whole):
            def call(self, *args, **kwargs):
                result[name] += 1
                return whole(self, *args, **kwargs)

            return call

        run_epochs(client.learner, 1)  # what is made at the first one stays
        with monkeypatch.context() as patch, Waiting(result):
            # as on a GPU; the CPU has it at hand
            patch.setattr(lorentz_ops, "_number", lambda scalar: scalar)
            for name in READS:
                patch.setattr(Tensor, name, counting(name, getattr(Tensor, name)))
            run_epochs(client.learner, 1)
        return result

    return of


def a_started_client(settings: Mapping[str, Any]) -> Client:
    """A client that has received the model of the first round."""
    client, facts = a_client(settings)
    server = initial_aggregation(client.config, facts, range(CLIENTS))
    client.learner.receive(server.sent_to(0))
    return client


@pytest.mark.parametrize(
    ("method", "base"),
    only(LEARNERS, LEARNERS[::5].__contains__),
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_a_pass_asks_for_does_not_grow_with_its_steps(waits, own_home, method, base):
    if base["dataset"] == "trees":  # a pass is one step
        assert waits(a_started_client(base | {"method": method})) == {"tolist": 1}
        return
    few, many = (
        waits(a_started_client(base | {"method": method, "batch-size": size})) for size in (32, 8)
    )
    assert few["tolist"] == 1  # it is counted at all
    assert few == many


def test_a_step_that_asks_is_counted(waits, own_home, monkeypatch):
    client = a_started_client(IMAGES | {"method": "fedavg", "batch-size": 8})
    whole = client.task.loss
    monkeypatch.setattr(
        client.task,
        "loss",
        lambda model, batch: whole(model, batch) * float(batch.inputs.sum() != 1.5),
    )
    assert waits(client)["__float__"] == client.task.num_steps
