"""The page of comparisons has what the commands wrote, and all of them."""

import json
from pathlib import Path

from studies.comparisons import COMPARISONS, STORED, write_page

PAGE = Path(__file__).parents[3] / "docs" / "measured" / "comparisons.md"


def test_the_page_has_every_comparison_with_its_command():
    text = PAGE.read_text(encoding="utf-8")
    for title, words in COMPARISONS.values():
        assert f"## {title}\n\n    curvfed compare {words} --data folder\n" in text


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
    row = "| flatland | 82.6 ± 1.1 | +0.3 (−0.4 to +1.0) |  | 64.5 | 1,608 |"
    assert f"\n{row}\n| the trivial answer | 62.7 |" in text
    assert text.count("\nNot made yet.\n") == len(COMPARISONS) - 1


def test_the_page_is_that_of_the_results(tmp_path):
    write_page(tmp_path / "page.md", STORED)
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
