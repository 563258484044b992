"""The papers' numbers: all tables are there, settings and methods are the app's, cells are read as
printed."""

import tomllib

import pytest

from curvfed.strategies.config.all_keys import defaults
from curvfed.strategies.config.parse import parse
from curvfed.strategies.methods import METHODS
from studies.papers import PAPERS, printed_numbers
from studies.papers.printed_numbers import Printed, read, tables

TABLES = {
    "flatland": [*(f"Table {number}" for number in range(1, 10)), "Figure 11 (text)"],
    "hyperfed": ["Table 1", "Table 2", "Table 3"],
    # 11 to 15 list the layers of networks.
    "spherefed": [*(f"Table {number}" for number in (*range(1, 11), 16)), "Appendix C (text)"],
    "hull": ["Table 1", "Table 2", "Table 3"],
}
ALL = [(paper, table) for paper, names in TABLES.items() for table in names]

NUMBERS = {
    "flatland": [102, 104, 15, 16, 52, 56, 36, 8, 8, 2],
    "hyperfed": [144, 156, 28],
    "spherefed": [9, 64, 9, 8, 16, 8, 8, 12, 3, 8, 180, 2],
    "hull": [48, 8, 0],  # our copy lacks the body of Table 3
}
"""Cells with a number, by tables."""

PSEUDO = {"num-supernodes", "column"}
NOT_OURS = {"lung-human", "uc-stromal"}
"""Data sets of the papers that the app does not know by name."""

SPOTS = [
    ("flatland", "Table 1", "Local (E)", 0, 79.94, 0.24),
    ("flatland", "Table 1", "FlatLand (Ours)", 7, 91.06, 0.15),
    ("flatland", "Table 2", "Local (E)", 5, 62.764, 0.69),
    ("flatland", "Table 3", "GCFL", 1, 67.21, 2.39),
    ("flatland", "Table 4", "FlatLand (E)", 2, 70.68, 0.52),
    ("flatland", "Table 5", "# Classes", 12, 3, None),
    ("flatland", "Table 6", "Avg. # Edges", 6, 2_315_598, None),
    ("flatland", "Table 9", "20", 3, 72.59, 0.50),
    ("flatland", "Figure 11 (text)", "FlatLand", 0, 81.82, None),
    ("hyperfed", "Table 1", "FedAvg", 0, 88.86, None),
    ("hyperfed", "Table 1", "HyperFed", 11, 37.50, None),
    ("hyperfed", "Table 2", "HyperFed-Fixed", 7, 79.66, None),
    ("hyperfed", "Table 3", "Cifar10 G-FL", 6, 71.69, None),
    ("spherefed", "Table 1", "CCVR", 1, 21_000, None),
    ("spherefed", "Table 2", "FedOpt + Ours", 3, 29.84, None),
    ("spherefed", "Table 3", "MSE, + FFC", 0, 71.85, None),
    ("spherefed", "Table 4", "Sanity check", 1, 62.64, None),
    ("spherefed", "Table 8", "α = 0.1", 5, 84.12, 3.29),
    ("spherefed", "Table 16", "FedProx + Ours: μ", 3, 0.001, None),
    ("hull", "Table 1", "Olsson 0-7", 2, 86.04, 1.41),
    ("hull", "Table 1", "UC-Stromal [0, 1, 2]", 3, 64.24, 4.92),
    ("hull", "Table 1", "UC-Stromal [1, 2, 3]", 3, 79.46, 5.18),
    ("hull", "Table 2", "Lung-Human [0, 2, 3, 4]", 3, 68.89, 0.0),
]

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
    return [one for one in read(paper, table) if one.row == row][place]


@pytest.fixture
def typed(tmp_path, monkeypatch):
    """A function that reads a table with one row of this text."""
    monkeypatch.setattr(printed_numbers, "FOLDER", tmp_path)

    def read_row(row: str) -> list[Printed]:
        (tmp_path / "hull.toml").write_text(FILE.format(row=row))
        return read("hull", "Table 1")

    return read_row


# --- what is typed
# --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_is_there_with_all_its_numbers(paper):
    assert tables(paper) == TABLES[paper]
    assert [len(read(paper, table)) for table in TABLES[paper]] == NUMBERS[paper]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_row_has_a_name_of_its_own_and_a_value_for_every_column(paper):
    for table in document(paper)["tables"]:
        names = [row["name"] for row in table["rows"]]
        assert len(set(names)) == len(names), table["name"]
        assert {len(row["values"]) for row in table["rows"]} <= {len(table["columns"])}, table[
            "name"
        ]


@pytest.mark.parametrize("paper", PAPERS)
def test_methods_are_rows_of_the_app_or_none(paper):
    assert set(document(paper)["methods"].values()) <= {*METHODS, ""}


@pytest.mark.parametrize(("paper", "table"), ALL)
def test_settings_are_keys_that_make_a_configuration(paper, table):
    known = {*defaults(), *PSEUDO}
    for one in read(paper, table):
        assert set(one.settings) <= known, one
        keys = {key: value for key, value in one.settings.items() if key not in PSEUDO}
        if keys.get("method") and keys.get("dataset") not in NOT_OURS:
            parse(keys)


@pytest.mark.parametrize(("paper", "table"), ALL)
def test_a_figure_in_percent_is_a_share_of_a_run(paper, table):
    for one in read(paper, table):
        assert one.scale in (1, 100)
        assert (one.figure != "") >= (one.scale == 100), one
        assert one.figure == "" or 0 <= one.value / one.scale <= 1, one


@pytest.mark.parametrize(("paper", "table", "row", "place", "value", "spread"), SPOTS)
def test_numbers_are_as_printed(paper, table, row, place, value, spread):
    found = cell(paper, table, row, place)
    assert (found.value, found.spread) == (value, spread)


def test_a_cell_says_what_it_is_of():
    found = cell("flatland", "Table 2", "FED-PUB", 7)
    assert found.settings == {"method": "fed-pub", "dataset": "questions", "num-supernodes": 20}
    assert (found.figure, found.scale) == ("metrics.roc_auc", 100)
    assert cell("flatland", "Table 2", "FED-PUB", 1).figure == "personal_accuracy_mean"
    assert cell("flatland", "Table 9", "10", 3).settings == {
        "method": "flatland",
        "dataset": "citeseer",
        "num-supernodes": 10,
        "flatland.curvature-init": "mlp",
    }
    assert cell("spherefed", "Table 2", "FedNova + Ours", 2).settings == {
        "method": "spherefed",
        "aggregation": "fednova",
        "model": "vgg13",
        "dataset": "cifar100",
        "alpha": 0.1,
        "num-supernodes": 10,
    }
    assert cell("spherefed", "Table 2", "FedProx + BABU", 2).settings["method"] == ""
    assert cell("hyperfed", "Table 3", "FMNIST G-FL", 0).figure == "global_accuracy"
    assert cell("hyperfed", "Table 3", "FMNIST P-FL", 0).figure == "personal_accuracy_mean"
    assert cell("hull", "Table 1", "Olsson 0-7", 3).figure == "metrics.accuracy_fle"


# --- how it is read
# -------------------------------------------------------------------------------------------------------


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
    (found,) = typed(f'{{name = "Ours", values = ["{text}", ""]}}')
    assert (found.value, found.spread) == (value, spread)


def test_the_row_wins_over_the_column_and_the_column_over_the_table(typed):
    first, second = typed('{name = "Ours", values = ["1", "2"]}')
    assert first == Printed(
        "hull",
        "Table 1",
        "Ours",
        "seed = 2",
        {"dataset": "cora", "seed": 2, "method": "flatland"},
        "global_accuracy",
        100,
        1,
        None,
    )
    assert second.settings == {
        "dataset": "cora",
        "seed": 3,
        "method": "flatland",
        "flatland.gate": False,
    }
    assert (second.figure, second.scale) == ("metrics.roc_auc", 1)


def test_settings_of_a_row_win_over_its_method(typed):
    row = (
        '{name = "Ours", figure = "", scale = 1, settings = {seed = 4, method = "fedavg"}, values ='
        ' ["1", "2"]}'
    )
    for found in typed(row):
        assert (found.settings["seed"], found.settings["method"]) == (4, "fedavg")
        assert (found.figure, found.scale) == ("", 1)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ('{name = "Ours", values = ["1"]}', 'row "Ours": 1 values; allowed are 2'),
        (
            '{name = "Theirs", values = ["1", "2"]}',
            'row "Theirs": no such method; allowed is one of Ours',
        ),
        (
            '{name = "Ours", values = ["OOM", "2"]}',
            'row "Ours": the cell \'OOM\'; allowed are "" and forms such as',
        ),
        ('{name = "Ours", values = ["80.6 ±", "2"]}', "the cell '80.6 ±'; allowed"),
        ('{name = "Ours", values = [80.6, "2"]}', "the cell 80.6; allowed"),
        (
            '{name = "Ours", setings = {}, values = ["1", "2"]}',
            'unknown "setings"; allowed are name, values, settings',
        ),
        ('{name = "Ours"}', "values is missing"),
    ],
)
def test_a_bad_row_is_named(typed, row, words):
    with pytest.raises(ValueError, match=r"hull\.toml, Table 1") as caught:
        typed(row)
    assert words in str(caught.value)


def test_a_bad_file_is_named(tmp_path, typed):
    (tmp_path / "flatland.toml").write_text("title = ")
    with pytest.raises(ValueError, match=r"flatland\.toml: .*; allowed is TOML"):
        tables("flatland")
    (tmp_path / "hyperfed.toml").write_text(FILE.format(row="").replace("caption", "captoin"))
    with pytest.raises(ValueError, match=r"hyperfed\.toml, Table 1: caption is missing"):
        tables("hyperfed")
    table = FILE.format(row="")
    (tmp_path / "spherefed.toml").write_text(table + table[table.index("[[tables]]") :])
    with pytest.raises(
        ValueError, match=r"spherefed\.toml: the tables are .*; allowed is each name once"
    ):
        tables("spherefed")


def test_another_paper_or_table_is_refused():
    with pytest.raises(ValueError, match="allowed is one of flatland, hyperfed, spherefed, hull"):
        tables("fedavg")
    with pytest.raises(
        ValueError,
        match=r'hyperfed.toml: no table is called "Table 4"; allowed is one of Table 1, ',
    ):
        read("hyperfed", "Table 4")
