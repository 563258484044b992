"""The papers' numbers: all tables are there, settings and methods are the app's, cells are read as
printed."""

import itertools
import tomllib

import pytest

from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import defaults
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

NUMBERS = {
    "flatland": [102, 104, 15, 16, 52, 56, 36, 8, 8, 2],
    "hyperfed": [144, 156, 28],
    "spherefed": [9, 64, 9, 8, 16, 8, 8, 12, 3, 8, 180, 2],
    "hull": [48, 8, 0],  # our copy lacks the body of Table 3
}
"""Cells with a number, by tables."""

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
def test_methods_are_rows_of_the_app_or_none(paper):
    assert set(document(paper)["methods"].values()) <= {*METHODS, ""}


@pytest.mark.parametrize("paper", PAPERS)
def test_settings_make_a_configuration_and_a_figure_in_percent_is_a_share(paper):
    known = {*defaults(), *PSEUDO}
    for one in itertools.chain.from_iterable(read(paper, table) for table in TABLES[paper]):
        assert set(one.settings) <= known, one
        keys = {key: value for key, value in one.settings.items() if key not in PSEUDO}
        if keys.get("method"):
            parse(keys)
        assert one.scale in (1, 100)
        assert (one.figure != "") >= (one.scale == 100), one
        is_share = one.figure != "" and not one.figure.startswith("metrics.mean_")
        assert not is_share or 0 <= one.value / one.scale <= 1, one


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
