"""Every measured figure of README.md and findings.md is read from a committed result."""

import csv
import json
import re
from pathlib import Path
from runpy import run_path

import pytest

ROOT = Path(__file__).parents[2]
MADE = run_path(str(ROOT / "docs" / "make_pages.py"))
FIGURE = re.compile(r"(?<![\w.])[-−+±]?(?:\d*\.\d+|\d+)\s?(?:%|points)|[-−+±]\s?\d[\d.]*|\d*\.\d+")
"""A number with a decimal point, a sign, a percent sign or "points": measured, or said to be. Whole
numbers without these count things that a reader can count, or are settings."""

SETTINGS = {
    "README.md.in": {
        "3.11": "Python", "3.12": "Python", "3.13": "Python", "1.39": "Flower",
        "6.5": "size of an installation", "95%": "level of the intervals",
        "−1": "a curvature", ".1": "alpha", ".5": "alpha", "-2.0": "the licence",
    },
    "findings.md.in": {
        "95%": "level of the intervals", "−1": "a curvature", ".1": "alpha", ".5": "alpha",
        "−10": "a false update", "−4": "a false update", "0.5": "dropout", ".2": "a bound",
    },
}  # fmt: skip
"""By template, numbers that no run measured."""


def prose(text: str) -> str:
    """A template without references, code and the targets of links."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^    .*$", "", text, flags=re.MULTILINE)
    text = MADE["REFERENCE"].sub("", text)
    text = re.sub(r"`[^`]*`", "", text)
    return re.sub(r"\]\([^)]*\)", "]", text)


def test_the_pages_are_made_from_the_results():
    for path, text in MADE["pages"]().items():
        assert path.read_text(encoding="utf-8") == text, "write them anew: make reference"


@pytest.mark.parametrize("name", MADE["PAGES"])
def test_no_figure_is_typed(name):
    text = prose((MADE["TEMPLATES"] / name).read_text(encoding="utf-8"))
    typed = [match.strip() for match in FIGURE.findall(text)]
    assert [figure for figure in typed if figure not in SETTINGS[name]] == []


def test_a_typed_figure_is_noticed():
    text = prose("Gain of {a#b#interval}, `0.3`, not [2.5](page.md#3.4) nor +1.6 of 7 runs.")
    assert FIGURE.findall(text) == ["2.5", "+1.6"]


def test_a_reference_to_nothing_fails():
    for reference in (("hierarchies", "nothing", "text"), ("README.md", "no such words", "quote")):
        with pytest.raises(KeyError):
            MADE["figure"](*reference)


def test_every_claim_names_its_command_and_result():
    with MADE["CLAIMS"].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 20
    assert [row for row in rows if not all(row.values())] == []


def accepted(name):
    """The values of an acceptance table by row."""
    stored = (ROOT / "docs" / "measured" / "accept" / f"{name}.json").read_text(encoding="utf-8")
    return {row["what"]: row["value"] for row in json.loads(stored)}


def test_the_page_on_points_has_the_figures_of_the_acceptance_tables():
    page = " ".join((ROOT / "docs" / "points.md").read_text(encoding="utf-8").split())
    below = [
        float(value.split(";")[0].replace("−", "-"))
        for value in (accepted("auto_choice") | accepted("auto_held_out")).values()
    ]
    *others, worst = sorted(below)
    assert (
        f"On {len(others)} of {len(below)} point sets it was within {others[-1]} points of the best"
        f" classifier, on heavy tails {worst}" in page
    )
    liars = accepted("olsson_liars")
    honest = float(liars["Olsson, 10 splits, 10 honest clients"].split()[0])
    one, three = (
        liars[f"{number} of 10: negative, honest minus this"].split(";")[0].strip("+")
        for number in (1, 3)
    )
    assert f"costs {one} points of {honest:.1f}, three cost {three}" in page
