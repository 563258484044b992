"""A page of docs/measured is what its command writes of the rows in the CSV file beside it."""

from pathlib import Path

import pytest

from benchmarks import __main__ as speed
from benchmarks import gpu, growth
from benchmarks.page import COLUMNS, goal_lines, read_parts, write_parts
from benchmarks.tables import read_csv, table_lines, write_csv
from studies import audit, frozen_features
from studies.accept import consistency
from studies.peers import tables as peers

MEASURED = Path(__file__).parents[2] / "docs" / "measured"
PARTS = {
    "speed": (speed.INTRODUCTION, COLUMNS, goal_lines),
    "growth": (growth.INTRODUCTION, growth.COLUMNS, growth.steep_curves),
    "peers": (peers.ABOUT, peers.HEADS, peers.summary),
}
ROWS = {
    "audit": lambda page, rows: audit.write_page(page, rows, audit.RELEASES),
    "consistency": consistency.write_page,
    "frozen-features": frozen_features.write_page,
}


@pytest.mark.parametrize("name", PARTS)
def test_a_page_of_measured_rows_is_made_from_its_table(name, tmp_path):
    introduction, columns, summary = PARTS[name]
    page = tmp_path / f"{name}.md"
    write_parts(page, introduction, columns, read_parts(MEASURED / page.name), summary)
    assert page.read_bytes() == (MEASURED / page.name).read_bytes()
    table = page.with_suffix(".csv")
    assert table.read_bytes() == (MEASURED / table.name).read_bytes()


@pytest.mark.parametrize("name", ROWS)
def test_a_page_of_a_study_is_made_from_its_table(name, tmp_path):
    page = tmp_path / f"{name}.md"
    ROWS[name](page, read_csv(MEASURED / f"{name}.csv"))
    assert page.read_bytes() == (MEASURED / page.name).read_bytes()


@pytest.mark.parametrize(
    ("name", "summary"), [("steps", gpu.steps_lines), ("waits", gpu.waits_lines)]
)
def test_the_page_of_a_gpu_sums_up_its_tables(name, summary):
    text = (MEASURED / "gpu.md").read_text(encoding="utf-8")
    assert "\n".join(summary(read_csv(MEASURED / f"gpu-{name}.csv"))) in text


def test_a_pair_is_level_if_its_difference_is_within_its_spread():
    def row(method, difference):
        return ["peer", method, "global model", "90.0", "91.0", difference, "0 1", "1", "2"]

    rows = [row("a", "+0.5 ± 0.6"), row("b", "−2.0 ± 0.6"), row("c", "+2.0"), row("d", "")]
    text = "\n".join(peers.summary({"Cora": rows}))
    assert "\n| Cora | 1 | 1 | 1 |\n" in text
    assert "| Cora | peer | a |" not in text
    assert all(f"| Cora | peer | {method} |" in text for method in "bcd")


def test_a_curve_is_steep_if_its_exponent_is_above_the_expected_one():
    rows = [["slow", "1 s", "1.30", "1", "", ""], ["right", "1 s", "1.05", "1", "", ""]]
    lines = growth.steep_curves({"more nodes": rows})
    assert lines[0].startswith("1 of 2 curves")
    assert lines[-1] == "| nodes | slow | 1 s | 1.30 | 1 |"


@pytest.mark.parametrize(
    ("cell", "excludes"),
    [("+.5 (+.1 to +1.0)", True), ("−2 (−3.0 to −1.0)", True), ("+.5 (−.1 to +1.0)", False)],
)
def test_an_interval_that_excludes_zero_is_shown(cell, excludes):
    assert consistency.excludes_zero(cell) == excludes
    assert not consistency.excludes_zero("")


def test_a_table_is_read_as_it_was_written(tmp_path):
    rows = [["a, b", "± 1"], ['"', ""]]
    write_csv(tmp_path / "table.csv", ("one", "two"), rows)
    assert read_csv(tmp_path / "table.csv") == rows
    assert table_lines(("one", "two"), rows)[:2] == ["| one | two |", "| --- | --- |"]
