"""Whole runs under Flower's strategies: replies, a liar, and an interruption."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from app_runs import Fault, forged, run
from tiers import only

from curvfed.strategies.base.shared_tables import FLOWER

CLIENTS = 5
DIGITS = {
    "method": "fedavg",
    "dataset": "digits",
    "images__train_subset": 300,
    "images__test_subset": 200,
    "clients": CLIENTS,
    "local_epochs": 3,
    "batch_size": 16,
    "partition": "iid",
    "learning_rate": 0.1,
    "fine_tune_epochs": 0,
}
KEYS = {
    "flower:FedAdagrad": {"flower__eta": 0.01},
    "flower:FedAdam": {"flower__eta": 0.01},
    "flower:FedAvgM": {"flower__server_momentum": 0.5},
    "flower:FedTrimmedAvg": {"flower__beta": 0.2},
    "flower:Krum": {"flower__num_malicious_nodes": 1},
    "flower:MultiKrum": {"flower__num_malicious_nodes": 1, "flower__num_nodes_to_select": 3},
}


def digits(folder, name, base, **settings):
    return run(folder, name, **DIGITS | {"aggregation": base} | KEYS.get(base, {}) | settings)


@pytest.fixture(scope="module")
def untrained(tmp_path_factory):
    return digits(tmp_path_factory.mktemp("untrained"), "run", "average", num_rounds=0)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """The run of each strategy without a liar, made once."""
    return cache(lambda base: digits(tmp_path_factory.mktemp("honest"), "run", base, num_rounds=6))


@pytest.mark.parametrize("base", only(FLOWER, {"flower:FedAdam", "flower:Krum"}.__contains__))
def test_every_one_of_them_trains(base, untrained, honest):
    result = honest(base)
    assert result.summary["status"] == "completed"
    assert result.summary["global_accuracy"] > untrained.summary["global_accuracy"] + 0.25


def lies(reply):
    return replace(
        reply, arrays={name: np.full_like(array, 3.0) for name, array in reply.arrays.items()}
    )


def lying_in(number):
    return Fault(2, forged(lies), "train", number)


@pytest.fixture(scope="module")
def average(tmp_path_factory):
    """Of the replies of all, a liar's too."""
    settings = {"num_rounds": 6, "update_bound": 0, "intercept": lying_in(6)}
    return digits(tmp_path_factory.mktemp("average"), "run", "average", **settings)


@pytest.mark.parametrize(
    "base",
    only(
        ["flower:FedMedian", "flower:FedTrimmedAvg", "flower:Krum", "flower:MultiKrum"],
        "flower:Krum".__eq__,
    ),
)
def test_a_liar_in_the_last_round_costs_the_average_its_model_and_these_little(
    base, average, honest, tmp_path
):
    accuracy = honest(base).summary["global_accuracy"]
    result = digits(tmp_path, "run", base, num_rounds=6, intercept=lying_in(6))
    assert result.summary["global_accuracy"] > accuracy - 0.1
    assert average.summary["global_accuracy"] < accuracy - 0.25


def test_fedopt_is_flowers_strategy_with_other_keys(tmp_path):
    optimizer = {"learning_rate": 0.02, "beta1": 0.8, "beta2": 0.9, "tau": 0.01}
    row = digits(
        tmp_path,
        "row",
        "fedopt",
        fedopt__optimizer="yogi",
        **{f"fedopt__{k}": v for k, v in optimizer.items()},
    )
    keys = {"flower__eta": 0.02, "flower__beta_1": 0.8, "flower__beta_2": 0.9, "flower__tau": 0.01}
    own = digits(tmp_path, "own", "flower:FedYogi", **keys)
    assert own.model_bytes == row.model_bytes
