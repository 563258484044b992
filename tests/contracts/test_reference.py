"""What is written about the configuration and the methods is what they are."""

import re
import tomllib
from pathlib import Path
from runpy import run_path

from curvfed.strategies.config import RunConfig, flatten
from curvfed.strategies.methods import METHODS

ROOT = Path(__file__).parents[2]
REFERENCE = run_path(str(ROOT / "docs" / "make_reference.py"))
PAGE, PROJECT = REFERENCE["PAGE"], REFERENCE["PROJECT"]


def test_the_page_is_current():
    assert PAGE.read_text(encoding="utf-8") == REFERENCE["page"](), "write it anew: make reference"


def test_the_page_has_every_key_with_its_default():
    told = dict(
        re.findall(r"^\| `([a-z0-9.-]+)` \| `([^`]*)` \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    )
    assert {key: tomllib.loads(f"value = {text}")["value"] for key, text in told.items()} == flatten(RunConfig())


def test_a_cell_never_ends_early():
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}


def test_the_readme_has_the_published_systems_and_their_ablations():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", text, flags=re.MULTILINE))
    systems = [name for name in METHODS if name.split("-")[0] in ("flatland", "hyperfed", "spherefed", "hull", "local")]
    assert {name: told.get(name) for name in systems} == {name: METHODS[name].summary for name in systems}


def test_the_project_has_the_defaults():
    assert PROJECT.read_text(encoding="utf-8") == REFERENCE["project"](), "write them anew: make reference"
