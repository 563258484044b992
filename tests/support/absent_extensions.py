"""Cases of a parametrised test about a method or a command of an extension that was deleted."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from method_page import documented_methods

from curvfed.strategies.methods import METHODS
from curvfed.tasks.plugins import SHIPPED, additions, extension_files

COMMANDS = Path(__file__).parents[2] / "docs" / "commands.md"
CORE = {"simulate", "run", "check", "predict", "adapt", "methods", "datasets", "presets"}


def documented_commands() -> set[str]:
    """The names in the headings of docs/commands.md."""
    text = COMMANDS.read_text(encoding="utf-8")
    return set(re.findall(r"^## `curvfed ([a-z-]+)`$", text, re.MULTILINE))


def names_in(value: Any) -> Iterator[str]:
    """The first word of each text in the parameters of a case; of `method=NAME` the name."""
    if isinstance(value, str):
        yield value.partition(" ")[0].removeprefix("method=")
    elif isinstance(value, dict):
        yield from names_in([*value.values()])
    elif isinstance(value, (list, tuple, set, frozenset)):
        for part in value:
            yield from names_in(part)


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the cases with a name of docs/methods.md or docs/commands.md that this tree lacks.

    In the whole tree there is none: a wrong name fails its test.
    """
    if len(extension_files()) == len(SHIPPED):
        return
    absent = documented_methods().keys() - set(METHODS)
    absent |= documented_commands() - CORE - set(additions("commands"))
    left = [
        item
        for item in items
        if hasattr(item, "callspec") and not absent.isdisjoint(names_in(item.callspec.params))
    ]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]
