"""What is written about the configuration and the methods is what they are."""

import subprocess
import sys
from pathlib import Path
from runpy import run_path

from curvfed.deployments.package_files import ROOMS
from curvfed.tasks.plugins import SHIPPED

ROOT = Path(__file__).parents[3]
REFERENCE = run_path(str(ROOT / "docs" / "make_reference.py"))
PAGE, PROJECT = REFERENCE["PAGE"], REFERENCE["PROJECT"]


FIGURES_NOW = f"""
from pathlib import Path
from runpy import run_path
import sys
made = run_path({str(ROOT / "docs" / "make_reference.py")!r})
sys.exit(made["FIGURES_PAGE"].read_text(encoding="utf-8") != made["figures_page"]())
"""


def test_the_page_of_keys_is_current():
    assert PAGE.read_text(encoding="utf-8") == REFERENCE["page"](), "write it anew: make reference"


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
    assert PROJECT.read_text(encoding="utf-8") == REFERENCE["project"](), (
        "write them anew: make reference"
    )


def test_the_commands_are_as_help_tells_them():
    commands = run_path(str(ROOT / "docs" / "make_commands.py"))
    assert commands["PAGE"].read_text(encoding="utf-8") == commands["page"](), (
        "write it anew: make reference"
    )


def test_the_picture_of_the_rooms_names_them_all():
    drawn = (ROOT / "docs" / "images" / "rooms.svg").read_text(encoding="utf-8")
    for name in (*SHIPPED, *(set(ROOMS) - {"extensions"}), "deployments"):
        assert f">{name}<" in drawn
