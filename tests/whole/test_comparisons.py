"""The page of comparisons has what the commands wrote, and all of them."""

from pathlib import Path

from benchmarks.tables import read_csv
from studies.comparisons import COMPARISONS, STORED, write_page

PAGE = Path(__file__).parents[2] / "docs" / "measured" / "comparisons.md"


def test_the_table_has_every_comparison_with_its_command():
    commands = {row[0]: row[-1] for row in read_csv(PAGE.with_suffix(".csv"))}
    assert commands == {
        title: f"curvfed compare {words} --data folder" for title, words in COMPARISONS.values()
    }


def test_the_page_is_that_of_the_results(tmp_path):
    write_page(tmp_path / "page.md", STORED)
    made = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert made.replace("(page.csv)", "(comparisons.csv)") == PAGE.read_text(encoding="utf-8")
    assert (tmp_path / "page.csv").read_bytes() == PAGE.with_suffix(".csv").read_bytes()
