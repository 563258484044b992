"""Models of others, `model="package.module:factory"`: trained, scored, resumed, predicted by."""

import numpy as np
import pytest
import torch
from app_runs import QUICK, Recorder, array_names, parameters_in, run
from graph_fixtures import user_graphs
from test_resume import interrupted
from tiers import only

from curvfed.deployments.predict import TrainedRun, predict
from curvfed.strategies.errors import ConfigError
from curvfed.tasks.errors import DataError

# PyTorch Geometric's, where it is imported.
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

GCN = {"convs.0.bias", "convs.0.lin.weight", "convs.1.bias", "convs.1.lin.weight"}
CONV = {
    "net.0.weight",
    "net.0.bias",
    "net.1.weight",
    "net.1.bias",
    "net.1.running_mean",
    "net.1.running_var",
}
HEAD = {"head.weight", "head.bias"}


def test_a_model_of_nodes_is_averaged_and_predicts(tmp_path):
    settings = {
        "method": "fedavg",
        "model": "plugin_models:gcn",
        "num_rounds": 4,
        "learning_rate": 0.05,
    }
    recorder = Recorder()
    whole = run(tmp_path, "whole", intercept=recorder, **settings)
    assert set(whole.model) == GCN
    assert set().union(*map(array_names, recorder.requests("train"))) == GCN
    assert float(whole.rounds[-1]["loss"]) < float(whole.rounds[0]["loss"])
    assert 'model = "plugin_models:gcn"' in (whole.path / "config.toml").read_text()
    interrupted(tmp_path, 9, True, name="stopped", **settings)
    assert run(tmp_path, "stopped", resume=True, **settings).figures == whole.figures
    result = predict(TrainedRun.read(whole.path), "trees", client=1)
    printed = next(
        float(value) for name, value in result.notes.items() if name.startswith("accuracy on")
    )
    last = next(
        row
        for row in reversed(whole.clients)
        if row["partition"] == "1" and row["phase"] == "train"
    )
    assert 0 < printed <= 1
    assert last["score"]


@pytest.mark.parametrize(
    ("model", "method"), [("gat", "fedprox"), ("gat", "local"), ("gcn", "scaffold")]
)
def test_other_methods_take_it(model, method, tmp_path):
    result = run(tmp_path, method=method, model=f"plugin_models:{model}", local_epochs=2)
    assert result.summary["status"] == "completed"
    assert (set(result.model) == set()) == (method == "local")
    kept = {name for name in result.personal(0) if not name.startswith("optimizer/")}
    assert bool(kept) == (method in ("local", "scaffold"))


def test_logits_of_another_number_than_the_classes_are_refused_in_the_first_round(tmp_path):
    with pytest.raises(
        RuntimeError, match=r"round 1, .* returns a tensor \(n, 11\); allowed are logits \(n, 6\)"
    ):
        run(tmp_path, method="fedavg", model="plugin_models:wide", num_rounds=2)


KEPT = {"k", "first.time", "first.gate", "second.time", "second.gate"}


@pytest.mark.parametrize("method", ["fedavg", "flatland"])
def test_lorentz_layers_in_a_network_of_ones_own(method, tmp_path):
    """FlatLand finds what is personal by names, and starts each curvature from the graph."""
    settings = {
        "method": method,
        "model": "plugin_models:Curved",
        "num_rounds": 4,
        "learning_rate": 0.05,
    }
    whole = run(tmp_path, "whole", **settings)
    stays = KEPT if method == "flatland" else set()
    shared = {
        f"{layer}.{name}" for layer in ("first", "second", "head") for name in ("weight", "bias")
    } | KEPT
    assert set(whole.model) == shared - stays
    assert parameters_in(whole.personal(0)).keys() == stays
    first = [
        abs(float(row["curvature"]) + 1)
        for row in whole.clients
        if row["round"] == "1" and row["phase"] == "train"
    ]
    assert (max(first) > 0.1) == (method == "flatland")  # a step of training moves it by less
    assert float(whole.rounds[-1]["loss"]) < float(whole.rounds[0]["loss"])
    interrupted(tmp_path, 9, True, name="stopped", **settings)
    assert run(tmp_path, "stopped", resume=True, **settings).figures == whole.figures
    result = predict(TrainedRun.read(whole.path), "trees", client=1)
    assert torch.isfinite(result.probabilities).all()


def test_whole_graphs(tmp_path):
    torch.save(user_graphs(48), tmp_path / "graphs.pt")
    settings = {
        "dataset": str(tmp_path / "graphs.pt"),
        "model": "plugin_models:Pooled",
        "local_epochs": 2,
    }
    result = run(tmp_path, method="fedper", **settings)
    running = {"norm.module.running_mean", "norm.module.running_var"}
    assert (
        set(result.model)
        == {"layer.bias", "layer.lin.weight", "norm.module.weight", "norm.module.bias"} | running
    )
    assert parameters_in(result.personal(1)).keys() == HEAD
    assert np.abs(result.model["norm.module.running_mean"]).max() > 0


@pytest.mark.parametrize(
    ("method", "shared"),
    only(
        [("fedavg", CONV | HEAD), ("fedrep", CONV), ("ditto", CONV | HEAD)],
        lambda case: case[0] == "fedrep",
    ),
)
def test_images(method, shared, tmp_path):
    settings = QUICK["images"] | {"model": "plugin_models:Conv", "global_every": 1}
    whole = run(tmp_path, "whole", method=method, **settings)
    assert set(whole.model) == shared
    assert (whole.summary["global_accuracy"] is None) == (method == "fedrep")
    interrupted(tmp_path, 7, False, name="stopped", method=method, **settings)
    assert run(tmp_path, "stopped", resume=True, method=method, **settings).figures == whole.figures
    result = predict(
        TrainedRun.read(whole.path), "digits", client=None if method == "fedavg" else 0
    )
    assert torch.isfinite(result.probabilities).all()


IMAGES = QUICK["images"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "fedper", "model": "gcn"}, "keeps head.* at each client"),
        ({"method": "flatland-euclidean", "model": "gcn"}, "keeps *.time, *.to_time"),
        ({"method": "fedper", "model": "headless"} | IMAGES, "keeps head.* at each client"),
        ({"method": "hyperfed", "model": "Conv"} | IMAGES, "a model of curvfed's"),
        ({"method": "ccvr", "model": "Conv"} | IMAGES, "a model of curvfed's"),
        ({"method": "moon", "model": "gcn"}, "a model of curvfed's"),
        ({"method": "fed-pub", "model": "gcn"}, "auto, gcn or gin"),
        ({"method": "fedavg", "model": "gcn", "fine_tune": "head"}, 'fine-tune = "head" and model'),
        ({"method": "fedavg", "model": "absent"}, "must be installed wherever"),
        ({"method": "fedavg", "model": "broken"}, "fails for (300, 6) (RuntimeError; the log"),
        ({"method": "fedavg", "model": "number"}, "returns an int for (300, 6)"),
    ],
)
def test_what_will_not_do_says_why(settings, words, tmp_path):
    with pytest.raises((ConfigError, DataError)) as refused:
        run(tmp_path, **settings | {"model": f"plugin_models:{settings['model']}"})
    assert words in str(refused.value)
    assert f"plugin_models:{settings['model']}" in str(refused.value)
