"""What is written about the configuration and the methods is what they are."""

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from runpy import run_path

import pytest
from method_page import documented_methods

from curvfed.deployments.package_files import ROOMS
from curvfed.strategies.base.keys import dotted
from curvfed.strategies.config.parse import all_fields
from curvfed.strategies.config.run_config import defaults
from curvfed.strategies.methods import METHODS, listed
from curvfed.tasks.shipped import SHIPPED

ROOT = Path(__file__).parents[2]
REFERENCE = run_path(str(ROOT / "docs" / "make_reference.py"))
PROJECT = REFERENCE["PROJECT"]


FIGURES_NOW = f"""
from pathlib import Path
from runpy import run_path
import sys
made = run_path({str(ROOT / "docs" / "make_reference.py")!r})
sys.exit(made["FIGURES_PAGE"].read_text(encoding="utf-8") != made["figures_page"]())
"""


@pytest.mark.parametrize(
    ("path", "page"), [("PAGE", "page"), ("KEYS_PAGE", "keys_page"), ("TABLES_PAGE", "tables_page")]
)
def test_the_pages_of_keys_are_current(path, page):
    current = REFERENCE[path].read_text(encoding="utf-8")
    assert current == REFERENCE[page](), "write it anew: make reference"


def test_every_key_is_explained_once():
    pages = [*(ROOT / "docs" / "methods").glob("*.md"), *(ROOT / "docs" / "reference").glob("*.md")]
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    explained = re.findall(r"^\| `([\w.-]+)` \| `", text, re.MULTILINE)
    times = Counter(explained)
    assert [key for key, _ in all_fields() if times[key] != 1] == []


@pytest.mark.parametrize("program", ["make_methods", "make_commands"])
def test_the_pages_of_methods_and_commands_are_current(program, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    made = run_path(str(ROOT / "docs" / f"{program}.py"))
    pages = made["pages"]()
    assert set(made["PAGES"].glob("*.md")) == pages.keys() - {made["LIST"]}
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, "write it anew: make reference"


def test_the_page_of_figures_is_current():
    """In a process of its own: methods of other tests may have registered figures in this one."""
    done = subprocess.run([sys.executable, "-c", FIGURES_NOW])
    assert done.returncode == 0, "write it anew: make reference"


def test_the_page_of_files_is_current_and_has_what_is_refused():
    text = REFERENCE["FILES_PAGE"].read_text(encoding="utf-8")
    assert text == REFERENCE["files_page"](), "write it anew: make reference"
    for words in ("networkx.read_graphml(PATH)", "LEAF's JSON", "a folder of OpenKE"):
        assert words in text


def test_the_project_has_the_defaults():
    text = PROJECT.read_text(encoding="utf-8")
    assert text == REFERENCE["project"](), "write them anew: make reference"
    values = dotted(tomllib.loads(text)["tool"]["flwr"]["app"]["config"])
    assert [*values.items()] == [*defaults().items()]
    assert [*map(type, values.values())] == [*map(type, defaults().values())]


def test_the_index_of_methods_is_current():
    text = REFERENCE["INDEX"].read_text(encoding="utf-8")
    assert text == REFERENCE["index"](), "write it anew: make reference"


def test_the_picture_of_the_rooms_names_them_all():
    drawn = (ROOT / "docs" / "images" / "rooms.svg").read_text(encoding="utf-8")
    for name in (*SHIPPED, *(set(ROOMS) - {"extensions"}), "deployments"):
        assert f">{name}<" in drawn


def test_the_page_of_methods_has_every_method():
    rounds = {name for name in listed() if not METHODS[name].is_one_shot}
    assert documented_methods().keys() == rounds
