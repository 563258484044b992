"""What docs/methods.md says of every method, for tests that hold it against recorded runs."""

import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"


class Line(NamedTuple):
    """A method's line: patterns of names of arrays."""

    is_sent: frozenset[str]
    sends: frozenset[str]
    keeps: frozenset[str]


def documented_methods() -> dict[str, Line]:
    """Every method's line."""
    found = {}
    for line in re.findall(
        r"^\| `[a-z+-]+` \|.*\|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    ):
        name, _, _, *columns, _ = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        found[name.strip("`")] = Line(
            *(frozenset(re.findall(r"`([^`]+)`", column)) for column in columns)
        )
    return found


def matched(names: Iterable[str], patterns: Iterable[str]) -> set[str]:
    """Those of the names that a pattern matches."""
    return {name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)}


def assert_matched(names: Collection[str], patterns: Iterable[str]) -> None:
    """Every name is matched by a pattern, and every pattern matches a name."""
    assert matched(names, patterns) == set(names)
    for pattern in patterns:
        assert matched(names, [pattern]), f"{pattern} matches none of {sorted(names)}"
