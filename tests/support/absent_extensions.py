"""Cases of a parametrised test about a method or a command of an extension that was deleted."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from curvfed.strategies.methods import METHODS
from curvfed.tasks.plugins import additions, extension_files
from curvfed.tasks.registry import SOURCES
from curvfed.tasks.shipped import SHIPPED

DOCS = Path(__file__).parents[2] / "docs"
COMMANDS = {"simulate", "run", "check", "predict"}
"""The commands of the core."""


def listed(page: str) -> set[str]:
    """The names in the first column of a list in docs/, such as "| [`fedavg`](methods/fedavg.md)
    |" or "| [`curvfed run`](commands/run.md) |"."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return set(re.findall(r"^\| \[`(?:curvfed )?([a-z+-]+)`\]", text, re.MULTILINE))


DATA_SETS = (
    *("bzr", "cifar10", "cora", "fashion-mnist", "fmnist", "minesweeper", "mnist"),
    *("mutag", "olsson"),
)
"""Public data sets in the parameters of the core's tests."""


def names_in(value: Any) -> Iterator[str]:
    """The first word of each text in the parameters of a case, without the marks of `"NAME"?`; of
    `method=NAME` the name, of `dataset=NAME,NAME` and of a preset's data set the names in small
    letters."""
    if isinstance(value, str):
        word = value.partition(" ")[0].strip('"?')
        yield word.removeprefix("method=")
        yield from word.removeprefix("dataset=").lower().split(",")
    elif isinstance(value, Path) and value.suffix == ".toml":
        yield from names_in(tomllib.loads(value.read_text(encoding="utf-8")).get("dataset", ""))
    elif isinstance(value, dict):
        yield from names_in([*value.values()])
    elif isinstance(value, (list, tuple, set, frozenset)):
        for part in value:
            yield from names_in(part)


def skip_without(name: str) -> None:
    """Skip a test on a public data set that this tree lacks."""
    if len(extension_files()) < len(SHIPPED) and name.lower() not in SOURCES:
        pytest.skip(f"the data set {name} is of a deleted extension")


HAS_TABLES = "formats" in extension_files()

needs_tables = pytest.mark.skipif(not HAS_TABLES, reason="reads a table of points")
"""For tests with tables of points, a format of an extension that may be deleted."""


def skip_without_tables() -> None:
    """Skip a case with a table of points in a tree that does not read them."""
    if not HAS_TABLES:
        pytest.skip("reads a table of points")


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the cases with a name of docs/methods.md or docs/commands.md, or a data set, that
    this tree lacks.

    In the whole tree there is none: a wrong name fails its test.
    """
    if len(extension_files()) == len(SHIPPED):
        return
    absent = listed("methods.md") - set(METHODS)
    absent |= listed("commands.md") - COMMANDS - set(additions("commands"))
    absent |= set(DATA_SETS) - set(SOURCES)
    left = [
        item
        for item in items
        if hasattr(item, "callspec") and not absent.isdisjoint(names_in(item.callspec.params))
    ]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]
