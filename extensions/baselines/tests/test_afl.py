"""AFL: the closed form is what its authors' recursion ends in, and a run needs no rounds."""

import numpy as np
import pytest
from app_runs import QUICK, Run, run

from curvfed.strategies.base.least_squares import Sums, solve

GAMMA = 1.5


def recursion(clients):
    """The classifier (l, C) by the authors' recursion over clients' solutions, without their γ."""
    size = clients[0].gram.shape[0]
    matrices = [sums.gram + GAMMA * np.eye(size) for sums in clients]
    solutions = [
        np.linalg.solve(gram, sums.targets) for gram, sums in zip(matrices, clients, strict=True)
    ]
    gram = matrices[0]
    solution = solutions[0]
    for next_gram, next_solution in zip(matrices[1:], solutions[1:], strict=True):
        both = np.linalg.inv(gram + next_gram)
        solution = (
            np.eye(size)
            - np.linalg.solve(gram, next_gram)
            + np.linalg.solve(gram, next_gram) @ both @ next_gram
        ) @ solution + (
            np.eye(size)
            - np.linalg.solve(next_gram, gram)
            + np.linalg.solve(next_gram, gram) @ both @ gram
        ) @ next_solution
        gram = gram + next_gram
    ridge = len(clients) * GAMMA
    return solution + ridge * np.linalg.solve(gram - ridge * np.eye(size), solution)


def test_the_recursion_over_clients_is_least_squares_over_all_examples():
    rng = np.random.default_rng(3)
    clients = []
    for examples in (4, 9, 6):
        clients.append(Sums.of(rng.normal(size=(examples, 5)), rng.integers(0, 3, examples), 3))
    gram = sum(sums.gram for sums in clients)
    targets = sum(sums.targets for sums in clients)
    np.testing.assert_allclose(recursion(clients).T, solve(gram, targets, 0.0), rtol=0, atol=1e-10)


@pytest.fixture(scope="module")
def runs(tmp_path_factory, module_home) -> list[Run]:
    """Without rounds, and with one."""
    folder = tmp_path_factory.mktemp("afl")
    settings = QUICK["images"] | {"method": "afl"}
    return [run(folder, str(rounds), num_rounds=rounds, **settings) for rounds in (0, 1)]


def test_rounds_change_nothing(runs):
    start, trained = runs
    assert all((trained.model[name] == array).all() for name, array in start.model.items())
    for result in runs:
        assert result.summary["global_accuracy"] > 0.3  # of ten classes


def test_a_classifier_before_its_calibration_is_neither_scored_nor_warned_of(runs):
    start, trained = runs
    assert start.summary["personal_accuracy_mean"] is None
    assert start.summary["metrics"]["majority_accuracy"] is None
    assert not [text for text in trained.summary["warnings"] if "trivial answer" in text]


def test_the_traffic_of_a_run_without_rounds_is_that_of_its_calibration(runs, tmp_path):
    (row,) = [row for row in runs[0].rounds if row["phase"] == "calibrate"]
    assert runs[0].summary["bytes_up"] == float(row["bytes_up"]) > 0
    result = run(tmp_path, "rounds", **QUICK["images"] | {"method": "fedavg", "num_rounds": 1})
    (row,) = [row for row in result.rounds if row["phase"] == "train"]
    assert result.summary["bytes_up"] == float(row["bytes_up"])
