"""The page of comparisons has what the commands wrote, and all of them."""

import json
from pathlib import Path

from studies.comparisons import COMPARISONS, write_page

PAGE = Path(__file__).parents[3] / "docs" / "measured" / "comparisons.md"


def test_the_page_has_every_comparison_with_its_command():
    text = PAGE.read_text(encoding="utf-8")
    for title, words in COMPARISONS.values():
        assert f"## {title}\n\n    curvfed compare {words} --data folder\n" in text


def test_the_page_has_the_answer_and_the_table_of_each_comparison_that_was_made(tmp_path):
    (tmp_path / "trees-10.json").write_text(json.dumps({"answers": ["None is best."]}))
    (tmp_path / "trees-10.md").write_text(
        "# Title\n\n| method |\n| --- |\n| `local` |\n\nA legend.\n"
    )
    write_page(tmp_path / "page.md", tmp_path)
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "\n\nNone is best.\n\n| method |\n| --- |\n| `local` |\n" in text
    assert text.count("\nNot made yet.\n") == len(COMPARISONS) - 1
