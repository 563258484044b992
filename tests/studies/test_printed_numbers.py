"""The papers' numbers: all tables are there, settings and methods are the app's, cells are read as
printed, and a number stands beside the run with its settings."""

import itertools
import tomllib
from typing import Any

import pytest

from curvfed.extensions.sweeps.commands.pages.study import Planned
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import defaults
from curvfed.strategies.methods import METHODS
from studies.papers import PAPERS, printed_numbers
from studies.papers.comparison import Mean, Pair, match
from studies.papers.printed_numbers import Printed, read, tables

NUMBERED = {
    "flatland": range(1, 10),
    "hyperfed": range(1, 4),
    "spherefed": (*range(1, 11), 16),  # 11 to 15 list the layers of networks
    "hull": range(1, 4),
}
"""The numbers of each paper's tables of results, by the papers themselves."""

TEXTS = {"flatland": {"Figure 11 (text)"}, "spherefed": {"Appendix C (text)"}}
"""Results that a paper prints outside its tables."""

EMPTY = {"hull": {"Table 3"}}
"""Tables of which our copy of the paper has the caption alone."""

PSEUDO = {"num-supernodes", "column"}

FILE = """
title = "A paper"
[methods]
"Ours" = "flatland"
[[tables]]
name = "Table 1"
caption = "Something"
figure = "global_accuracy"
scale = 100
settings = {{dataset = "cora", seed = 1}}
columns = [{{seed = 2}}, {{flatland.gate = false, seed = 3, figure = "metrics.roc_auc", scale = 1}}]
rows = [{row}]
"""


def document(paper: str) -> dict:
    return tomllib.loads((printed_numbers.FOLDER / f"{paper}.toml").read_text())


def cell(paper: str, table: str, row: str, place: int) -> Printed:
    """A number by its place among those of its row."""
    return [printed for printed in read(paper, table) if printed.row == row][place]


@pytest.fixture
def typed(tmp_path, monkeypatch):
    """A function that reads a table with one row of this text."""
    monkeypatch.setattr(printed_numbers, "FOLDER", tmp_path)

    def read_row(row: str) -> list[Printed]:
        (tmp_path / "hull.toml").write_text(FILE.format(row=row))
        return read("hull", "Table 1")

    return read_row


# what is typed


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_is_there_with_numbers(paper):
    names = tables(paper)
    expected = {f"Table {number}" for number in NUMBERED[paper]} | TEXTS.get(paper, set())
    assert set(names) == expected
    assert len(names) == len(expected)
    assert {name for name in names if not read(paper, name)} == EMPTY.get(paper, set())


@pytest.mark.parametrize("paper", PAPERS)
def test_methods_are_rows_of_the_app_or_none(paper):
    assert set(document(paper)["methods"].values()) <= {*METHODS, ""}


@pytest.mark.parametrize("paper", PAPERS)
def test_settings_make_a_configuration_and_a_figure_in_percent_is_a_share(paper):
    known_keys = {*defaults(), *PSEUDO}
    for printed in itertools.chain.from_iterable(read(paper, table) for table in tables(paper)):
        assert set(printed.settings) <= known_keys, printed
        keys = {key: value for key, value in printed.settings.items() if key not in PSEUDO}
        if keys.get("method"):
            parse(keys)
        assert printed.scale in (1, 100)
        assert (printed.figure != "") >= (printed.scale == 100), printed
        is_share = printed.figure != "" and not printed.figure.startswith("metrics.mean_")
        assert not is_share or 0 <= printed.value / printed.scale <= 1, printed


# how it is read


@pytest.mark.parametrize(
    ("text", "value", "spread"),
    [
        ("80.60 ± 1.7", 80.60, 1.7),
        ("80.60±1.7", 80.60, 1.7),
        ("80.60 (1.7)", 80.60, 1.7),
        ("80.60", 80.60, None),
        ("2,315,598", 2315598, None),
        ("1.9e4", 19000, None),
        ("-0.5 ± 0.00", -0.5, 0.0),
        ("72.09 (↑0.23)", 72.09, None),
        ("72.09 ± 0.1 (↓0.23)", 72.09, 0.1),
    ],
)
def test_the_forms_of_a_cell(typed, text, value, spread):
    (printed,) = typed(f'{{name = "Ours", values = ["{text}", ""]}}')
    assert (printed.value, printed.spread) == (value, spread)


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


def test_a_count_is_compared_with_the_digits_that_are_printed():
    printed = cell("flatland", "Table 6", "Avg. # Nodes", 1)
    assert printed.value == 249
    assert not Pair(printed, Mean(248.5, 0.0, 2)).is_far
    assert Pair(printed, Mean(248.4, 0.0, 2)).is_far
    assert str(Pair(printed, Mean(247.9, 0.0, 1))) == "248 (249)"
