"""Tables of methods, data sets and presets for the terminal, without imports of torch or Flower."""

import re
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from curvfed.deployments.package_files import PRESETS, package_files
from curvfed.strategies.methods import Listed, foreign_methods, listed
from curvfed.tasks.registry import catalogue


def list_methods() -> None:
    """Print the methods, with summaries and tasks."""
    plugins = foreign_methods()[0]
    rows = listed() | {name: Listed(row.summary, row.tasks) for name, row in plugins.items()}
    _print(
        ("method", "what it is", "tasks"),
        [(name, row.summary, ", ".join(row.tasks)) for name, row in rows.items()],
    )


def list_datasets() -> None:
    """Print the data sets, with tasks and origins."""
    # Without long dotted names, which a narrow terminal breaks anywhere.
    rows = [
        (name, task, re.sub(r"\b([a-z_.]+)\.([A-Z]\w+)", r"\2 of \1", origin))
        for name, task, origin in catalogue()
    ]
    _print(("data set", "task", "where from"), rows)


def list_presets() -> None:
    """Print the shipped presets, grouped by the first sentence of their descriptions."""
    names: dict[str, list[str]] = {}
    for name, path in package_files(PRESETS).items():
        names.setdefault(_first_sentence(path), []).append(name)
    _print(
        ("preset", "what it is"),
        [("\n".join(group), sentence) for sentence, group in names.items()],
    )


def _print(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    table = Table(*head)
    for column in table.columns:
        column.overflow = "fold"
    for row in rows:
        table.add_row(*map(escape, row))
    Console().print(table)


def _first_sentence(path: Path) -> str:
    """The first sentence of the comment at the top of a file."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^# format \d+ of curvfed\n", "", text, flags=re.MULTILINE)
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    comment = " ".join(line.removeprefix("# ") for line in lines)
    return re.split(r"(?<=\.) (?=[A-Z])|:? {3,}", comment)[0]
