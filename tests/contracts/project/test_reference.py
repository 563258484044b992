"""What is written about the configuration and the methods is what they are."""

import re
import tomllib
from pathlib import Path
from runpy import run_path

import pytest

from curvfed.strategies.config.all_keys import defaults

ROOT = Path(__file__).parents[3]
REFERENCE = run_path(str(ROOT / "docs" / "make_reference.py"))
PAGE, PROJECT = REFERENCE["PAGE"], REFERENCE["PROJECT"]


@pytest.mark.parametrize(("page", "text"), [("PAGE", "page"), ("FIGURES_PAGE", "figures_page")])
def test_the_page_is_current(page, text):
    found = REFERENCE[page].read_text(encoding="utf-8")
    assert found == REFERENCE[text](), "write it anew: make reference"


def test_the_page_has_every_key_with_its_default():
    told = dict(
        re.findall(
            r"^\| `([a-z0-9.-]+)` \| `([^`]*)` \|",
            PAGE.read_text(encoding="utf-8"),
            flags=re.MULTILINE,
        )
    )
    assert {
        key: tomllib.loads(f"value = {text}")["value"] for key, text in told.items()
    } == defaults()


def test_a_cell_never_ends_early():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}


def test_the_project_has_the_defaults():
    assert PROJECT.read_text(encoding="utf-8") == REFERENCE["project"](), (
        "write them anew: make reference"
    )


def test_the_commands_are_as_help_tells_them():
    commands = run_path(str(ROOT / "docs" / "make_commands.py"))
    assert commands["PAGE"].read_text(encoding="utf-8") == commands["page"](), (
        "write it anew: make reference"
    )
