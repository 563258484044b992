"""Runs with differentially private secure sums: what leaves a node, what it costs, how much noise
the sum has, and which runs are refused."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from app_runs import Recorder, phase_of, run, value_names
from hull_nodes import nodes_of
from other_settings import FirstUnder, keys_under
from policies import costs, sharing_nodes, with_policy

from curvfed.deployments.arguments import read_request
from curvfed.extensions.privacy.accountant import noise_multiplier
from curvfed.extensions.privacy.adaptive_clip import SHARE
from curvfed.extensions.privacy.sum_noise import honest_shares
from curvfed.server_app.run import RoundError
from curvfed.strategies.config.holders import sums_by_name
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import defaults, resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.exchange import FederationError
from curvfed.strategies.wire.messages import MESSAGE_TYPES

pytestmark = pytest.mark.usefixtures("own_home")

SUMS = {
    "method": "hull",
    "dp__cell": 2.0,
    "dataset": "uniform",
    "points__num": 300,
    "secure_sum": True,
    "dp__unit": "record",
    "dp__epsilon": 4.0,
}
ROUNDS = {
    "method": "fedavg",
    "dataset": "trees",
    "secure_sum": True,
    "num_rounds": 2,
    "learning_rate": 0.0,
    "weight_decay": 0.0,
    "dp__unit": "client",
    "dp__epsilon": 8.0,
    "dp__force": True,
}
"""Without any update, so that the model's change is the noise."""


def nodes_in(folder, policy):
    return with_policy(folder, sharing_nodes(folder), policy)


def test_one_noisy_sum_leaves_is_paid_once_and_the_budget_ends_the_next(tmp_path):
    policy = "[privacy]\nmax-epsilon = 5\n[sums]\nothers-examples = 1000\n"
    nodes = nodes_in(tmp_path, policy)  # which state no numbers of examples to each other
    recorder = Recorder()
    made = run(tmp_path, "first", nodes=nodes, clients=3, intercept=recorder, **SUMS)
    for reply in recorder.replies("hulls"):
        assert {name.partition(".")[0] for name in value_names(reply)} <= {
            "header",
            "arrays",
            "parts",
        }
        assert not reply["header"]["num_examples"]
    assert not recorder.replies("evaluate")
    assert all(not reply["statistics"] for reply in recorder.replies("describe"))
    (line,) = costs(tmp_path)
    assert line["noise"] == noise_multiplier(4.0, 1e-5)
    assert made.summary["metrics"]["privacy_epsilon"] == pytest.approx(4, rel=1e-3)
    assert "points_summed" not in made.summary["metrics"]
    with pytest.raises(FederationError, match=r"max-epsilon = 5"):
        run(tmp_path, "second", nodes=nodes, clients=3, **SUMS)
    assert len(costs(tmp_path)) == 1


@pytest.mark.usefixtures("clock")
def test_a_sum_that_is_asked_again_costs_once_and_has_the_same_noise(tmp_path):
    """Another draw of the noise would be another release."""
    nodes = nodes_in(tmp_path, "[privacy]\nmax-epsilon = 5\n")
    sent = []

    def lose(request, handle):
        reply = handle(request)
        if phase_of(request.content) != "hulls":
            return reply
        sent.append(reply.content["parts"])
        return None

    with pytest.raises(RoundError):
        run(tmp_path, nodes=nodes, clients=3, intercept=lose, secure__patience=0, **SUMS)
    assert len(sent) == 3
    assert len(costs(tmp_path)) == 1
    made = run(tmp_path, nodes=nodes, clients=3, resume=True, secure__patience=0, **SUMS)
    assert made.summary["status"] == "completed"
    assert len(costs(tmp_path)) == 1


@pytest.mark.usefixtures("clock")
def test_a_vector_with_less_noise_is_not_had_for_the_price_of_more(tmp_path, monkeypatch):
    """Members stored the vectors that their budgets then refused, and sent them for the price of a
    run of the same name with the noise of epsilon = 4."""
    dear = keys_under(tmp_path, SUMS | {"dp__epsilon": 100.0})
    twice = FirstUnder(monkeypatch, dear, "hulls")
    nodes = nodes_in(tmp_path, "[privacy]\nmax-epsilon = 5\n")
    with pytest.raises(RoundError, match="the noise of another configuration"):
        run(tmp_path, nodes=nodes, clients=3, intercept=twice, secure__patience=0, **SUMS)
    assert ["max-epsilon" in error for error in twice.errors] == [True] * 3
    assert not costs(tmp_path)


def test_noise_that_is_lost_is_not_drawn_again(tmp_path):
    nodes = nodes_in(tmp_path, "[privacy]\nmax-epsilon = 5\n")
    run(tmp_path, nodes=nodes, clients=3, **SUMS)
    shutil.rmtree(tmp_path / "run" / "checkpoint")
    for node in nodes:
        for folder in Path(node["state-path"]).rglob("sums"):
            shutil.rmtree(folder)
    with pytest.raises(RoundError, match="is no longer stored"):
        run(tmp_path, nodes=nodes, clients=3, resume=True, **SUMS)
    assert len(costs(tmp_path)) == 1


def test_the_noise_of_client_level_rounds_is_what_the_promise_needs(tmp_path):
    clients = 6
    made = run(tmp_path, clients=clients, **ROUNDS)
    model = made.model
    start = run(tmp_path, "start", clients=clients, **ROUNDS | {"num_rounds": 0})
    begun = start.model
    change = np.concatenate([(model[name] - begun[name]).ravel() for name in model])
    excess = clients / honest_shares(clients)
    deviation = noise_multiplier(8.0, 1e-5, times=2) * (2 * excess) ** 0.5 / clients
    assert np.std(change) == pytest.approx(deviation, rel=0.05)
    assert made.summary["metrics"]["privacy_epsilon"] == pytest.approx(8, rel=1e-3)


def test_the_noise_follows_the_clip(tmp_path):
    made = run(tmp_path, clients=6, **ROUNDS | {"dp__clip_quantile": 0.5, "num_rounds": 3})
    clips = [1.0, *(float(row["clip"]) for row in made.rounds if row["clip"])]
    assert len(set(clips)) == 4
    start = run(tmp_path, "start", clients=6, **ROUNDS | {"num_rounds": 0}).model
    change = np.concatenate([(made.model[name] - start[name]).ravel() for name in start])
    excess = 6 / honest_shares(6)
    squares = sum(clip**2 for clip in clips[:3]) / (1 - SHARE)
    deviation = noise_multiplier(8.0, 1e-5, times=3) * (squares * excess) ** 0.5 / 6
    assert np.std(change) == pytest.approx(deviation, rel=0.05)
    assert made.summary["metrics"]["privacy_epsilon"] == pytest.approx(8, rel=1e-3)


def test_a_lying_server_gets_no_figures(tmp_path):
    asked = []

    def intercept(request, handle):
        header = request.content.config_records["header"]
        if header["phase"] == "keys":
            message_type = request.metadata.message_type
            header["phase"] = ("evaluate", "measure")[len(asked) % 2]
            request.metadata.message_type = MESSAGE_TYPES[header["phase"]]
            asked.append(handle(request).content.config_records["header"]["error"])
            header["phase"] = "keys"
            request.metadata.message_type = message_type
        return handle(request)

    run(tmp_path, clients=3, intercept=intercept, **SUMS)
    assert len(asked) == 3
    assert all("is no part of a run" in error for error in asked)


def test_a_node_with_own_data_needs_a_budget(tmp_path):
    """Noise alone hides its small classes."""
    points = np.random.default_rng(0).uniform(-0.5, 0.5, (40, 2))
    parts = [{"data": points, "label": np.arange(40) % 2}] * 3
    nodes = nodes_of(tmp_path / "nodes", parts)
    with pytest.raises(FederationError, match=r"\[privacy\] max-epsilon"):
        run(tmp_path, "first", nodes=nodes, **SUMS | {"dataset": "own"})
    policy = tmp_path / "nodes" / "policy.toml"
    policy.write_text(policy.read_text() + "[privacy]\nmax-epsilon = 4\n")
    made = run(tmp_path, "second", nodes=nodes, **SUMS | {"dataset": "own"})
    assert made.summary["status"] == "completed"


REFUSED = [
    ({"secure-sum": False}, "adds a share of the noise"),
    ({"method": "hull", "hull.groups": 2}, "hull.groups = 1"),
    ({"method": "hull", "hull.quantiser": "equal-area"}, "hull.quantiser = equal-width"),
    ({"method": "hull", "hull.num-classes": 3}, "classes are summed by name"),
    ({"method": "ccvr", "dataset": "digits", "num-rounds": 3, "dp.clip": 17.0}, "dp.clip <= 16"),
    ({"method": "ccvr", "dataset": "digits", "num-rounds": 0, "dp.clip": 17.0}, "dp.clip <= 16"),
    ({"share-statistics": True}, "share-statistics = false"),
]
REFUSED_CLIENTS = [
    ({"secure-sum": False}, "adds a share of the noise"),
    ({"method": "hull", "dataset": "uniform"}, "trains in rounds"),
    ({"method": "spherefed", "dataset": "digits"}, "without a calibration"),
    ({"method": "scaffold"}, "share parameters and nothing else"),
    ({"weights": "examples"}, "weights = uniform"),
    ({"fine-tune-epochs": 1}, "fine-tune-epochs = 0"),
    ({"dp.unit": "record", "dp.clip-quantile": 0.5}, "whose updates have the lengths"),
]


@pytest.mark.parametrize(
    ("unit", "keys", "reason"),
    [("record", *case) for case in REFUSED] + [("client", *case) for case in REFUSED_CLIENTS],
)
def test_what_no_noise_hides_is_refused_with_the_reason(unit, keys, reason):
    method = {"method": "hull" if unit == "record" else "fedavg"}
    private = {"dp.unit": unit, "dp.epsilon": 1.0, "secure-sum": True}
    with pytest.raises(ConfigError, match=reason):
        parse(defaults() | method | private | keys)


def test_few_clients_are_refused_with_the_reason(tmp_path):
    with pytest.raises(ConfigError, match=r"3 clients in a sum.*allowed are 100 or more"):
        run(tmp_path, clients=3, **ROUNDS | {"dp__force": False})
    pairs = ["method=fedavg", "secure-sum=true", "dp.unit=client", "dp.epsilon=1"]
    with pytest.raises(ConfigError, match=r"10 clients in a sum"):
        read_request(pairs)


def test_a_resumed_sum_is_not_made_anew(tmp_path):
    nodes = nodes_in(tmp_path, "")
    made = run(tmp_path, nodes=nodes, clients=3, **SUMS)
    (made.path / "summary.json").unlink()
    run(tmp_path, nodes=nodes, clients=3, resume=True, **SUMS)
    assert len(costs(tmp_path)) == 1


def test_noise_hides_cells_of_classes_that_few_members_have():
    keys = {"method": "spherefed", "secure-sum": True, "dp.unit": "record", "dp.epsilon": 1.0}
    assert not sums_by_name(resolve_defaults(parse(keys), "images"))
    assert sums_by_name(
        resolve_defaults(parse({"method": "spherefed", "secure-sum": True}), "images")
    )
