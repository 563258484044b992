"""The table of the papers' items names what there is: states, files, commands and tests."""

import ast
import importlib.util
import shlex
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from curvfed.deployments.arguments import read_request
from studies.papers import items
from studies.papers.pages import sweep_files

ROOT = Path(__file__).parents[2]
ITEMS = items.read_items()


@cache
def functions(path):
    """The names of the functions of a module, those in classes among them."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def check_tests(words):
    assert words
    for node in words:
        path, name = node.split("::")
        assert name in functions(path), node


def check_module(words):
    name, *rest = words
    assert importlib.util.find_spec(name), name
    if name == "studies.papers":
        only = rest[rest.index("--only") + 1]
        assert set(only.split(",")) <= sweep_files().keys(), only


def check_command(command):
    """Raise if a command names a test, module, sweep, method or key that is not there."""
    program, *words = shlex.split(command)
    if program == "pytest":
        check_tests(words)
    elif program == "python":
        assert words[0] == "-m"
        check_module(words[1:])
    else:
        assert program == "curvfed"
        subcommand, *rest = words
        if subcommand == "simulate":
            read_request(rest)
        else:
            assert subcommand == "sweep"
            assert (ROOT / rest[0]).exists()


def test_every_row_has_a_known_paper_and_state():
    assert {item.paper for item in ITEMS} == items.NAMES.keys()
    assert {item.state for item in ITEMS} <= set(items.STATES)
    assert len(ITEMS) >= 170


def test_an_item_stands_once():
    places = Counter((item.paper, item.item) for item in ITEMS)
    assert [place for place, number in places.items() if number > 1] == []


def test_what_is_not_right_has_a_reason_and_what_is_right_a_command():
    assert [item for item in ITEMS if item.state != "right" and not item.note] == []
    assert [item for item in ITEMS if item.state in ("right", "scaled") and not item.command] == []


@pytest.mark.parametrize("path", sorted({item.where for item in ITEMS if item.where}))
def test_the_files_are_there(path):
    assert (ROOT / path).exists()


@pytest.mark.parametrize("command", sorted({item.command for item in ITEMS if item.command}))
def test_commands_name_what_there_is(command):
    check_command(command)


@pytest.mark.parametrize(
    "command",
    [
        "pytest tests/laws/test_lorentz.py::test_nothing_of_the_kind",
        "python -m studies.nothing",
        "python -m studies.papers --only flatland/table-99",
        "curvfed simulate method=flatlands dataset=cora",
        "curvfed simulate method=flatland dataset=cora flatland.nothing=1",
        "curvfed sweep studies/nothing.toml",
    ],
)
def test_a_command_that_names_nothing_is_noticed(command):
    with pytest.raises((AssertionError, ValueError, ModuleNotFoundError)):
        check_command(command)


def test_the_page_has_the_counts_of_the_file():
    text = items.PAGE.read_text(encoding="utf-8")
    assert items.page(text, ITEMS) == text, "write them anew: python -m studies.papers.items"


def test_counts_are_those_of_the_rows():
    rows = [
        items.Item(paper, str(number), "", state, "", "", "")
        for number, (paper, state) in enumerate(
            [("flatland", "right"), ("flatland", "scaled"), ("hull", "right"), ("hull", "missing")]
        )
    ]
    lines = items.counts_table(rows)
    assert lines[2] == "| FlatLand | 1 | 1 | 0 | 0 | 2 |"
    assert lines[5] == "| Convex hulls | 1 | 0 | 1 | 0 | 2 |"
    assert lines[6] == "| all | 2 | 1 | 1 | 0 | 4 |"
    assert "Missing: Convex hulls, 3." in items.section(rows)
