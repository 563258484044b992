"""Everything that the page docs/reference.md lists has an example in its docstring, and the
examples are true."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "reference.md"
ENTRY = re.compile(r"\.\. auto(module|function|class):: (\S+)\n(?:   :members: (.*)\n)?")


def listed() -> dict[str, object]:
    """The functions and classes on the page, by their full names."""
    found: dict[str, object] = {}
    for kind, name, members in ENTRY.findall(PAGE.read_text(encoding="utf-8")):
        home, _, last = name.rpartition(".")
        module = importlib.import_module(name if kind == "module" else home)
        own = [
            key
            for key, value in vars(module).items()
            if getattr(value, "__module__", "") == name and key[0] != "_"
        ]
        chosen = members.split(", ") if members else own if kind == "module" else [last]
        every = {f"{module.__name__}.{key}": getattr(module, key) for key in chosen}
        found |= {
            key: value
            for key, value in every.items()
            if inspect.isclass(value) or inspect.isfunction(value)
        }
    return found


def test_everything_on_the_page_has_an_example():
    public, finder = listed(), doctest.DocTestFinder()
    assert len(public) > 60
    lacking = [
        name
        for name, value in public.items()
        if not any(one.examples for one in finder.find(value, name))
    ]
    assert lacking == []


# The other modules' examples are run beside their tests.
@pytest.mark.parametrize(
    "name",
    [
        "strategies.base.method",
        "strategies.base.learner",
        "strategies.base.aggregation",
        "strategies.base.training",
        "tasks.task",
    ],
)
def test_the_examples_are_true(name):
    found = doctest.testmod(importlib.import_module(f"curvfed.{name}"))
    assert found.failed == 0
    assert found.attempted > 0
