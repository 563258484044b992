"""An aggregation of one's own that changes the average: secure sums if it needs only the mean, and
a resumed run that equals an uninterrupted one."""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from app_runs import Run

import curvfed
from curvfed.strategies.base.aggregation import Average
from curvfed.strategies.base.flower_strategy import FlowerStrategy
from curvfed.strategies.base.further_state import packed, unpacked, whole_state
from curvfed.strategies.base.method import Method
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods.fednova import FedNovaServer
from curvfed.strategies.methods.fedopt import FedOpt, Keys
from curvfed.strategies.wire.store import Store

pytestmark = pytest.mark.usefixtures("own_methods")

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


@pytest.mark.parametrize("half", [FedNovaServer, Server])
def test_an_aggregation_has_one_name_by_class_and_by_import_path(half):
    names = {
        Method("an average", space="flat", server=server).aggregation
        for server in (half, f"{half.__module__}:{half.__name__}")
    }
    assert names == {half.name}


class Slowing(FlowerStrategy):
    """Flower's FedAdam with steps that become smaller; only the subclass names the strategy."""

    summed_clients = "any"

    def begin(self, arrays):
        super().begin(arrays)
        self.number = 0

    def choice(self):
        return "flower:FedAdam", {"eta": 0.1}

    def aggregate(self, replies):
        start = self._arrays
        super().aggregate(replies)
        self.number += 1
        self._arrays = {
            name: (array + (self._arrays[name] - array) / self.number).astype(array.dtype)
            for name, array in start.items()
        }


class Configured(Slowing):
    """Its strategy needs an attribute of its own, so its base class cannot be set up alone."""

    def begin(self, arrays):
        self.settings = {"eta": 0.1}
        super().begin(arrays)

    def choice(self):
        return "flower:FedAdam", self.settings


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


@pytest.mark.parametrize(("server", "clients"), [(Server, "any"), (Same, "any"), (Longest, "none")])
def test_an_average_inherits_secure_sums_if_it_needs_only_the_mean(server, clients):
    assert row(server).summed_clients() == clients


def test_an_average_with_momentum_runs_under_secure_sums(tmp_path):
    keys = SMALL | {"results_dir": tmp_path, "num_rounds": 2}
    in_the_open = curvfed.simulate(row(Server), **keys)
    masked = curvfed.simulate(row(Server), secure_sum=True, **keys)
    for name, array in parameters(in_the_open).items():
        np.testing.assert_allclose(parameters(masked)[name], array, atol=1e-4)
    with pytest.raises(ConfigError, match="its server uses single replies"):
        curvfed.simulate(row(Longest), secure_sum=True, **keys)


@pytest.mark.parametrize("server", [Server, Slowing])
def test_a_resumed_run_goes_on_with_the_attributes_of_its_aggregation(server, tmp_path):
    keys = SMALL | {"results_dir": tmp_path}
    whole = curvfed.simulate(row(server), run_name="whole", num_rounds=4, **keys)
    curvfed.simulate(row(server), run_name="parts", num_rounds=2, **keys)
    parts = curvfed.simulate(row(server), run_name="parts", num_rounds=4, resume=True, **keys)
    for name, array in parameters(whole).items():
        np.testing.assert_array_equal(parameters(parts)[name], array)


class Counting(Average):
    """The average, with a figure of the run that no attribute of its own stands behind."""

    def aggregate(self, replies):
        super().aggregate(replies)
        self.figures = {"replies_seen": self.figures.get("replies_seen", 0) + len(replies)}


def seen(run):
    return run.summary["metrics"]["replies_seen"]


def test_a_resumed_run_has_the_figures_of_its_aggregation(tmp_path):
    keys = SMALL | {"results_dir": tmp_path, "run_name": "own", "num_rounds": 2}
    made = curvfed.simulate(row(Counting), **keys)
    resumed = curvfed.simulate(row(Counting), resume=True, **keys)
    assert seen(made) == seen(resumed) > 0
    longer = curvfed.simulate(row(Counting), resume=True, **keys | {"num_rounds": 3})
    assert seen(longer) == seen(made) * 1.5


@pytest.mark.parametrize(
    ("server", "attribute"), [(Handle, "lookup: function"), (Configured, "_flower: FedAdam")]
)
def test_a_run_with_an_attribute_that_cannot_be_stored_is_not_resumed(server, attribute, tmp_path):
    keys = SMALL | {"results_dir": tmp_path, "run_name": "own"}
    curvfed.simulate(row(server), num_rounds=1, **keys)
    with pytest.raises(ConfigError, match=f"keeps {attribute}, which its inherited state"):
        curvfed.simulate(row(server), num_rounds=2, resume=True, **keys)


class NotesOnce(Average):
    """The average, with a figure of its first round alone."""

    def aggregate(self, replies):
        super().aggregate(replies)
        if not self.figures:
            self.figures = {"noted": 1.0}
            self.round_figures = {"seen": len(replies)}


def test_figures_of_a_round_are_not_those_of_the_next(tmp_path):
    made = curvfed.simulate(row(NotesOnce), num_rounds=3, results_dir=tmp_path, **SMALL)
    seen_by_round = [line["seen"] for line in Run(made.path).rounds if line["phase"] == "train"]
    assert seen_by_round == ["3", "", ""]


class Measuring(Average):
    """The average, with figures in the types in which NumPy and torch compute them."""

    def aggregate(self, replies):
        super().aggregate(replies)
        self.figures = {"norm": np.float32(0.5), "of_layers": np.ones(2), "gap": torch.tensor(2.0)}
        self.figures["seen"] = {2}
        self.round_figures = {"gap": torch.tensor(2.0)}


def test_figures_may_be_numbers_and_arrays_of_numpy_and_torch(tmp_path):
    keys = SMALL | {"results_dir": tmp_path, "run_name": "own"}
    curvfed.simulate(row(Measuring), num_rounds=1, **keys)
    made = curvfed.simulate(row(Measuring), num_rounds=2, resume=True, **keys)
    expected = {"norm": 0.5, "of_layers": [1.0, 1.0], "gap": 2.0, "seen": "{2}"}
    assert expected.items() <= made.summary["metrics"].items()
    assert [line["gap"] for line in Run(made.path).rounds if line["phase"] == "train"] == [
        "2.0"
    ] * 2


def test_fedopt_stores_nothing_beside_its_state():
    start = {"w": np.zeros(2, np.float32)}
    server = FedOpt(start, keys=Keys(optimizer="adam"))
    assert whole_state(server).keys() == server.state().keys()


GENERATORS = [
    kind
    for kind in vars(np.random).values()
    if isinstance(kind, type)
    and issubclass(kind, np.random.BitGenerator)
    and kind is not np.random.BitGenerator
]


@pytest.mark.parametrize("kind", GENERATORS, ids=lambda kind: kind.__name__)
def test_every_generator_of_numpy_goes_on_where_it_was_stored(kind, tmp_path):
    generator = np.random.Generator(kind(7))
    generator.integers(10, size=5, dtype=np.uint32)
    store = Store(tmp_path)
    store.save(1, packed({"draws": [generator]}), {})
    attributes, missing = unpacked(store.load(1)[0])
    assert missing == []
    np.testing.assert_array_equal(attributes["draws"][0].normal(size=9), generator.normal(size=9))


class Pair(NamedTuple):
    first: int
    second: int


class OwnBits(np.random.PCG64):
    """Bits of a user's own class."""


UNSTORED = {
    "texts": np.array(["a", "b"]),
    "complex": np.ones(2, complex),
    "times": np.array(["2026-01-01"], "datetime64[D]"),
    "big-endian": np.ones(2, ">f4"),
    "long": np.ones(2, np.longdouble),
    "records": np.zeros(2, [("x", "f4")]),
    "objects": np.array([None]),
    "masked": np.ma.masked_equal([1.0, 2.0], 2.0),
    "complex number": np.complex64(1),
    "long number": np.longdouble(1),
    "time": np.datetime64("2026-01-01"),
    "tuple with names": Pair(1, 2),
    "generator": np.random.Generator(OwnBits(1)),
}


@pytest.mark.parametrize("name", UNSTORED)
def test_a_value_that_a_file_cannot_store_ends_no_run_and_is_named(name, tmp_path):
    value = UNSTORED[name]
    store = Store(tmp_path)
    store.save(1, packed({"own": {"part": value}, "steps": 3}), {})
    expected = ({"steps": 3}, [f"own: {type(value).__name__}"])
    assert unpacked(store.load(1)[0]) == expected
