"""The pages of `make paper`: every sweep is on one, and no number is there that no run or paper
has."""

from typing import Any

import pytest

from curvfed.extensions.sweeps.commands.pages.study import Planned
from studies.papers import pages
from studies.papers.comparison import Pair, compare, markdown, match
from studies.papers.figures.page import read_study
from studies.papers.printed_numbers import read

SWEEP = """
title = "Clients and labels"
source = "flatland, Table 1"
about = "In words."
[scales.smoke.settings]
method = ["fedavg", "local"]
dataset = "cora"
num-supernodes = 10
seed = [0, 1]
[[tables]]
rows = "method"
columns = "num-supernodes"
figures = "best_validation.personal_accuracy_mean"
"""


@pytest.fixture
def sweeps(tmp_path, monkeypatch):
    """A folder of sweeps with one file."""
    folder = tmp_path / "sweeps"
    (folder / "flatland").mkdir(parents=True)
    (folder / "flatland" / "table-01.toml").write_text(SWEEP)
    monkeypatch.setattr(pages, "SWEEPS", folder)
    return folder


def printed_value(table: str, keys: list[str], figure: str, **settings: Any) -> float | None:
    """The paper's number beside a cell of one run."""
    printed = read(*table.split(", "))
    run = Planned({key.replace("_", "-"): value for key, value in settings.items()}, "run")
    number = match(printed, run, keys, figure)
    return None if number is None else printed[number].value


def test_a_number_of_the_data_is_that_of_any_method_and_one_of_other_clients_is_none():
    table = ("flatland, Table 6", ["dataset"], "metrics.heterogeneity")
    assert printed_value(*table, method="fedavg", num_supernodes=10, dataset="cora") == 0.606
    assert printed_value(*table, method="flatland", num_supernodes=20, dataset="cora") == 0.665
    assert printed_value(*table, method="fedavg", num_supernodes=5, dataset="cora") is None


def test_a_cell_is_compared_with_the_number_of_its_own_settings():
    table = ("spherefed, Table 2", ["model", "dataset", "method"], "global_accuracy")
    cifar = {"method": "fedavg", "dataset": "cifar100", "num_supernodes": 10}
    sphere = cifar | {"model": "mobilenetv2"}
    assert printed_value(*table, **sphere, alpha=0.5) == 68.78
    assert printed_value(*table, **sphere, alpha=0.1) == 63.9
    assert printed_value(*table, **sphere, alpha=0.3) is None  # of two candidates none is taken
    ways = ("spherefed, Table 1", ["dataset"])
    assert printed_value(*ways, "global_accuracy", **cifar) == 68.78
    assert printed_value(*ways, "bytes_up", **cifar) is None


def test_differences_are_those_of_the_printed_digits(sweeps):
    plan = read_study(sweeps / "flatland" / "table-01.toml", "smoke")
    figure = "best_validation.personal_accuracy_mean"
    rows = {
        run.name: {figure: 0.692 if run.value("method") == "fedavg" else 0.5} for run in plan.runs
    }
    pairs = compare(read("flatland", "Table 1"), plan, rows)
    assert "1 of 2 numbers differ by more than the spreads of both" in markdown(pairs)
    assert "Local (E), cora, 10 clients: -29.9" in markdown(pairs)
    equal = [pair for pair in pairs if pair.ours and not pair.is_far]
    assert [pair.printed.row for pair in equal] == ["FedAvg"]
    assert "None of the 1 numbers differs" in markdown(equal)
    assert markdown([Pair(pair.printed, None) for pair in pairs]) == ""
