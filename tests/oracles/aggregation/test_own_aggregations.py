"""An aggregation of one's own that changes the average: secure sums if it needs only the mean, and
a resumed run that equals an uninterrupted one."""

import numpy as np
import pytest
from app_runs import Run

import curvfed
from curvfed.deployments.commands.check import parts_of
from curvfed.strategies.base.aggregation import Average
from curvfed.strategies.base.method import Method
from curvfed.strategies.errors import ConfigError

SMALL = {
    "dataset": "trees",
    "num_supernodes": 3,
    "embedding_dim": 4,
    "model": "gcn",
    "report": False,
    "quiet": True,
}


class Server(Average):
    """FedAvg with momentum at the server, kept in an attribute that no `state` stores."""

    def begin(self, arrays):
        super().begin(arrays)
        self.momentum = {name: np.zeros_like(array) for name, array in arrays.items()}

    def aggregate(self, replies):
        start = self._arrays
        super().aggregate(replies)
        for name, array in start.items():
            self.momentum[name] = 0.9 * self.momentum[name] + self._arrays[name] - array
        self._arrays = {
            name: (array + self.momentum[name]).astype(array.dtype) for name, array in start.items()
        }


class Longest(Average):
    """The update with the largest weight: single updates, not their mean."""

    def aggregate(self, replies):
        self._arrays = dict(max(replies.values(), key=lambda reply: reply.weight).arrays)


class Same(Average):
    """The average by another class."""


class Handle(Server):
    """An aggregation with an attribute that cannot be stored."""

    def begin(self, arrays):
        super().begin(arrays)
        self.lookup = lambda: None


def row(server) -> Method:
    return Method("an average of one's own", space="flat", server=server)


def parameters(run):
    return Run(run.path).model


@pytest.mark.parametrize(
    ("server", "text"),
    [
        (Server, "possible: the server needs only the sum of the updates"),
        (Same, "possible: the server needs only the sum of the updates"),
        (Longest, "refused: its aggregation, longest, needs single updates"),
    ],
)
def test_an_average_inherits_secure_sums_if_it_needs_only_the_mean(server, text):
    assert dict(parts_of("own", row(server)))["secure-sum"] == text


def test_an_average_with_momentum_runs_under_secure_sums(tmp_path):
    keys = SMALL | {"results_dir": tmp_path, "num_rounds": 2}
    in_the_open = curvfed.simulate(row(Server), **keys)
    masked = curvfed.simulate(row(Server), secure_sum=True, **keys)
    for name, array in parameters(in_the_open).items():
        np.testing.assert_allclose(parameters(masked)[name], array, atol=1e-4)
    with pytest.raises(ConfigError, match="its server uses single replies"):
        curvfed.simulate(row(Longest), secure_sum=True, **keys)


def test_a_resumed_run_goes_on_with_the_attributes_of_its_aggregation(tmp_path):
    keys = SMALL | {"results_dir": tmp_path}
    whole = curvfed.simulate(row(Server), run_name="whole", num_rounds=4, **keys)
    curvfed.simulate(row(Server), run_name="parts", num_rounds=2, **keys)
    parts = curvfed.simulate(row(Server), run_name="parts", num_rounds=4, resume=True, **keys)
    for name, array in parameters(whole).items():
        np.testing.assert_array_equal(parameters(parts)[name], array)


def test_a_run_with_an_attribute_that_cannot_be_stored_is_not_resumed(tmp_path):
    keys = SMALL | {"results_dir": tmp_path, "run_name": "own"}
    curvfed.simulate(row(Handle), num_rounds=1, **keys)
    with pytest.raises(ConfigError, match="keeps lookup: function, which its inherited state"):
        curvfed.simulate(row(Handle), num_rounds=2, resume=True, **keys)


def test_the_name_of_a_server_half_is_never_empty():
    assert Server.name == "server"
