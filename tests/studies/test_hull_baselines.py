"""The baselines of the paper on hulls, trained for runs that have completed."""

import sqlite3
from pathlib import Path

import numpy as np
import pytest
from app_runs import run

from curvfed.extensions.sweeps.commands.sweep import read_plan
from curvfed.extensions.sweeps.commands.sweep.results import Results
from curvfed.geometry import EuclideanSVM
from studies.papers.hull_baselines import (
    BASELINES,
    EuclideanHingeSVM,
    accuracies,
    add_to_table,
)

SWEEP = """
[settings]
method = "hull"
dataset = "uniform"
num-supernodes = 3
points.num = 300
test-size = 0.2
hull.classifier = "svm"
hull.c = 10.0
"""
SETTINGS = {"points__num": 300, "test_size": 0.2, "hull__classifier": "svm", "hull__c": 10.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A completed run, in a folder of runs of a sweep."""
    results = tmp_path_factory.mktemp("runs")
    (results / "sweep.toml").write_text(SWEEP)
    (planned,) = read_plan(results / "sweep.toml").runs
    result = run(results, planned.name, method="hull", dataset="uniform", clients=3, **SETTINGS)
    Results(results).record(planned)
    return result.path


def test_the_euclidean_machine_is_trained_on_the_decoded_hulls(folder):
    with np.load(folder / "hulls.npz") as hulls:
        model = EuclideanSVM(10.0).fit(hulls["points"], hulls["group"])
        predicted = hulls["names"][model.predict(hulls["test_points"])]
        right = predicted == hulls["class_names"][hulls["test_labels"]]
    assert accuracies(folder, ["accuracy_fle"]) == {"accuracy_fle": right.mean()}


def test_with_a_plain_hinge_the_baselines_have_it_too(tmp_path):
    settings = SETTINGS | {"hull__svm": "hinge", "hull__c": 0.02, "test_size": 0.5}
    path = run(tmp_path, "hinge", method="hull", dataset="uniform", clients=3, **settings).path
    with np.load(path / "hulls.npz") as hulls:
        shares = []
        for machine in (EuclideanHingeSVM, EuclideanSVM):
            model = machine(0.02).fit(hulls["points"], hulls["group"])
            predicted = hulls["names"][model.predict(hulls["test_points"])]
            shares.append((predicted == hulls["class_names"][hulls["test_labels"]]).mean())
    assert shares[0] != shares[1]
    assert accuracies(path, ["accuracy_fle"]) == {"accuracy_fle": shares[0]}


def test_all_points_in_one_place_are_separable(folder):
    scores = accuracies(folder, BASELINES)
    assert list(scores) == list(BASELINES)
    assert min(scores.values()) > 0.9


def test_a_margin_that_does_not_exist_gives_no_figure(folder, tmp_path):
    """A geodesic separates the classes and no straight line does."""
    settings = SETTINGS | {"hull__svm": "hard", "hull__c": "auto", "points__num": 1000}
    hard = run(tmp_path, "hard", method="hull", dataset="uniform", clients=3, **settings)
    scores = accuracies(hard.path, ["accuracy_ce", "accuracy_cp"])
    assert scores["accuracy_ce"] is None
    assert scores["accuracy_cp"] > 0.95


@pytest.mark.long
def test_figures_stand_in_the_table_of_all_runs(folder):
    figures = ["global_accuracy", "metrics.accuracy_fle", "metrics.accuracy_cp"]
    for _ in range(2):  # the second time nothing is left to train
        add_to_table(folder.parent, [folder.name, "not-made"], figures)
    with sqlite3.connect(folder.parent / "results.sqlite") as database:
        query = 'SELECT "metrics.accuracy_fle", "metrics.accuracy_cp" FROM runs'
        (row,) = database.execute(query)
    assert row == tuple(accuracies(folder, ["accuracy_fle", "accuracy_cp"]).values())
