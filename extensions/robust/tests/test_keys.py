"""The keys of robust aggregations, and what they go together with."""

from dataclasses import replace

import numpy as np
import pytest
from app_runs import run
from errors import refuses

from curvfed.extensions.robust.rows import Robust
from curvfed.extensions.robust.rules import Median
from curvfed.strategies.config.checks import unread_keys
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS, aggregation_rows, foreign_methods


@pytest.mark.parametrize("name", ["trimmed-mean", "krum"])
def test_two_of_them_read_the_share_of_false_updates(name):
    config = parse({"method": "fedavg", "aggregation": name, "robust.share": 0.1})
    assert config.table("robust") == Robust(share=0.1)
    assert not config.unread


@pytest.mark.parametrize("name", ["average", "median", "geometric-median", "near-mean", "robust"])
def test_a_share_that_the_run_does_not_read_is_named(name):
    config = parse({"method": "fedavg", "aggregation": name, "robust.share": 0.1})
    assert config["robust.share"] == 0.25
    assert (
        "robust.share = 0.1 is a key of aggregation = trimmed-mean, aggregation = krum:"
        in unread_keys(config)
    )


@pytest.mark.parametrize("name", ["average", "krum"])
def test_a_share_of_half_is_refused(name):
    with refuses("value", "robust.share = 0.5", "< 0.5", error=ConfigError):
        parse({"method": "fedavg", "aggregation": name, "robust.share": 0.5})


def test_robust_stands_for_another_name_with_every_method():
    for method, row in METHODS.items():
        try:
            config = parse({"method": method, "aggregation": "robust"})
        except ConfigError:  # it has no other aggregation than its own
            continue
        settled = resolve_defaults(config, row.tasks[0])
        assert settled.aggregation == ("median" if row.personal else "near-mean")
        assert settled.aggregation in aggregation_rows()


def test_a_method_with_a_robust_server_takes_any_other_aggregation(monkeypatch):
    row = replace(METHODS["fedavg"], server=Median)
    monkeypatch.setitem(foreign_methods()[0], "mine", row)
    for name in ("average", "krum"):
        assert parse({"method": "mine", "aggregation": name}).aggregation == name


@pytest.mark.usefixtures("own_home")
def test_training_goes_on_with_the_classifier_of_a_calibration(tmp_path):
    settings = {"method": "fedavg", "dataset": "digits", "calibration": "ffc", "clients": 4}
    settings |= {"aggregation": "robust", "num_rounds": 3, "fine_tune_epochs": 0, "local_epochs": 1}
    plain = run(tmp_path, "plain", **settings)
    often = run(tmp_path, "often", calibration_every=2, **settings)
    rows = [row["round"] for row in often.rounds if row["phase"] == "calibrate"]
    assert rows == ["2", "3"]
    assert np.abs(often.model["head.weight"] - plain.model["head.weight"]).max() > 1e-2
