"""The page of comparisons has what the commands wrote, and all of them."""

import json
from pathlib import Path

from benchmarks.tables import read_csv
from studies.comparisons import COMPARISONS, STORED, write_page

PAGE = Path(__file__).parents[2] / "docs" / "measured" / "comparisons.md"


def test_the_table_has_every_comparison_with_its_command():
    commands = {row[0]: row[-1] for row in read_csv(PAGE.with_suffix(".csv"))}
    assert commands == {
        title: f"curvfed compare {words} --data folder" for title, words in COMPARISONS.values()
    }


METHOD = {
    "method": "flatland",
    "mean": 0.8263,
    "std": 0.0111,
    "worst_decile": 0.6451,
    "trivial": 0.6266,
    "bytes": 1607736.0,
    "curvature": 0.0027,
    "curvature_low": -0.0045,
    "curvature_high": 0.0099,
}


def test_the_page_has_the_table_of_each_comparison_that_was_made(tmp_path):
    (tmp_path / "trees-10.json").write_text(json.dumps({"methods": [METHOD]}))
    write_page(tmp_path / "page.md", tmp_path)
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    row = ["flatland", "82.6 ± 1.1", "+0.3 (−0.4 to +1.0)", ""]
    title = "Generated trees, 10 clients"
    assert f"\n| {' | '.join([title, *row])} |\n" in text
    command = f"curvfed compare {COMPARISONS['trees-10'][1]} --data folder"
    trivial = [title, "the trivial answer", "62.7", *[""] * 4, command]
    assert read_csv(tmp_path / "page.csv") == [[title, *row, "64.5", "1,608", command], trivial]
    absent = text.partition("\nNot made yet: ")[2]
    assert [name in absent for name, _ in COMPARISONS.values()].count(True) == len(COMPARISONS) - 1


def test_the_page_is_that_of_the_results(tmp_path):
    write_page(tmp_path / "page.md", STORED)
    made = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert made.replace("(page.csv)", "(comparisons.csv)") == PAGE.read_text(encoding="utf-8")
    assert (tmp_path / "page.csv").read_bytes() == PAGE.with_suffix(".csv").read_bytes()
