"""Methods and networks as objects run as named ones do; the unfit are refused at once."""

import functools

import numpy as np
import pytest
import torch
from app_runs import Run as Files
from graph_fixtures import write_user_graph
from torch import Tensor, nn

import curvfed
from curvfed.strategies.base.aggregation import Average
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import Method
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS
from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError

SMALL = {"num_supernodes": 2, "num_rounds": 2, "embedding_dim": 8, "quiet": True}


@pytest.fixture(autouse=True)
def here(own_home, own_methods):
    """A home of its own, which is returned."""
    return own_home


class Mean(nn.Module):
    """A network that averages neighbours between two layers."""

    def __init__(self, num_features: int, num_classes: int, width: int = 8) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(num_features, width), nn.Linear(width, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        hidden: Tensor = self.first(x).relu()
        logits: Tensor = self.head(hidden.index_add(0, edge_index[1], hidden[edge_index[0]]))
        return logits


class Headless(nn.Module):
    """A network without a part that a method could keep at the clients."""

    def __init__(self, num_features: int, num_classes: int, width: int = 8) -> None:
        super().__init__()
        self.only = nn.Linear(num_features, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        logits: Tensor = self.only(x)
        return logits


class Slower(Learner):
    """FedAvg's way under another name."""


@pytest.mark.parametrize("has_own_data", [False, True])
def test_a_network_without_personal_parameters_is_refused_before_anything_is_made(
    has_own_data, tmp_path
):
    settings = SMALL | {"model": Headless, "results_dir": tmp_path / "results"}
    if has_own_data:
        write_user_graph(tmp_path / "own.pt")
        settings |= {"data": [tmp_path / "own.pt"] * 2}
        del settings["num_supernodes"]
    with pytest.raises(
        ConfigError, match=r'"fedper" keeps head\.\* at each client, and this model'
    ):
        curvfed.simulate("fedper", **settings)
    assert not (tmp_path / "results").exists()


def test_a_method_whose_personal_parameters_no_network_has_is_refused():
    method = Method("fedper with a misspelt pattern", space="flat", personal=("hed.*",))
    with pytest.raises(ConfigError, match=r'model = "gcn": .* keeps hed\.\* at each client'):
        curvfed.simulate(method, **SMALL)


def test_a_class_of_a_network_runs_as_its_name_does_and_predicts():
    by_name = curvfed.simulate("fedavg", model=f"{__name__}:Mean", **SMALL)
    by_class = curvfed.simulate("fedavg", model=Mean, **SMALL)
    assert by_class.config["model"] == f"{__name__}:Mean"
    assert Files(by_class.path).model_bytes == Files(by_name.path).model_bytes
    assert len(by_class.predict("trees", client=0))
    resumed = curvfed.simulate(
        "fedavg", model=Mean, run_name=by_class.path.name, resume=True, **SMALL | {"num_rounds": 3}
    )
    assert resumed.summary["rounds"] == 3


def test_keywords_of_a_factory_are_set_by_a_partial():
    run = curvfed.simulate("fedavg", model=functools.partial(Mean, width=16), **SMALL)
    assert run.config["model"] == f"{__name__}:Mean(width=16)"
    assert {
        array.shape[0] for name, array in Files(run.path).model.items() if name == "first.bias"
    } == {16}


def test_a_class_within_a_function_runs_and_another_process_is_reported_why_it_cannot():
    class Local(Mean):
        pass

    run = curvfed.simulate("fedavg", model=Local, **SMALL)
    assert len(run.predict("trees", client=0))
    plugins._OBJECTS.pop(str(run.config["model"]))  # as in another process
    with pytest.raises(DataError, match="in the program that started the run"):
        run.predict("trees", client=0)


class Mine(Average):
    """The average, under a name of its own."""


class Inferring(Average):
    """The average, which could infer gradients from the clients' steps."""

    plain_sgd = True


def test_an_aggregation_that_infers_gradients_refuses_other_steps():
    row = Method("an average", space="flat", server=Inferring)
    for settings in ({"optimizer": "adam"}, {"optimizer": "sgd", "optimizer_state": "kept"}):
        with pytest.raises(ConfigError, match='optimizer="sgd" optimizer-state="fresh" with infer'):
            curvfed.simulate(row, model="gcn", **settings, **SMALL)


class Private(Learner):
    """A learner that states that it hides records."""

    hides_records = True


class Bare(Private):
    """One that does not."""


def test_a_learner_hides_records_only_if_its_own_class_says_so():
    assert Learner.hides_records
    assert Private.hides_records
    assert not Bare.hides_records
    assert not Slower.hides_records


def test_a_row_and_a_learner_run_as_methods_of_packages_do():
    row = Method("my average", space="flat", server=Mine)
    average = curvfed.simulate("fedavg", model="gcn", **SMALL)
    for method, name in ((row, "mine"), (Slower, "slower")):
        run = curvfed.simulate(method, model="gcn", **SMALL)
        assert run.config["method"] == name
        assert name in METHODS
        arrays = Files(average.path).model
        assert all(
            np.array_equal(array, arrays[name]) for name, array in Files(run.path).model.items()
        )
        assert len(run.predict("trees", client=0))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"model": Mean(2, 2)}, "network of the class Mean; allowed is the class"),
        ({"model": 3}, "model is 3; allowed is a name, a class or a function"),
        ({"model": f"{__name__}:Mean(8)"}, r"keywords such as \(width=32\)"),
        ({"model": f"{__name__}:Mean(width=torch.pi)"}, r"keywords such as \(width=32\)"),
        ({"model": f"{__name__}:Mean(depth=2)"}, "unexpected keyword argument 'depth'"),
        ({"model": "nothing_here:Net"}, "ModuleNotFoundError: No module named 'nothing_here'"),
        ({"method": torch}, "allowed is a name, a .*Method, or a subclass of .*Learner"),
        ({"method": METHODS["fedprox"]}, '"fedprox" of a method of curvfed\'s'),
    ],
)
def test_what_is_neither_is_refused_before_anything_is_made(keys, words, here):
    with pytest.raises(ValueError, match=words):
        curvfed.simulate(**{"method": "fedavg"} | SMALL | keys)
    assert not (here / "curvfed" / "results").exists()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("personal", "head.*", "'head.\\*'; allowed is a tuple of str"),
        ("personal", ["head.*"], "allowed is a tuple of str"),
        ("tasks", "nodes", "'nodes'; allowed is a tuple of str"),
        ("keys", object, "allowed is a dict of tables by their names"),
        ("settings", None, "None; allowed is a dict by task"),
    ],
)
def test_an_entry_of_a_wrong_type_is_refused_where_the_row_is_written(name, value, words):
    with pytest.raises(TypeError, match=f"^{name} of a method is .*{words}"):
        Method("my average", space="flat", **{name: value})


def test_what_is_no_server_half_is_refused_by_its_class():
    with pytest.raises(ConfigError, match="server half is <class 'object'>; allowed is a subclass"):
        curvfed.simulate(Method("my average", space="flat", server=object), **SMALL)
