"""Tables for the terminal: methods, data sets, presets. None of them imports torch or Flower."""

import re
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from curvfed.deployments.shipped import PRESETS, shipped
from curvfed.strategies.method_index import SUMMARIES, TASKS
from curvfed.strategies.methods import foreign_methods
from curvfed.tasks.registry import catalogue


def list_methods() -> None:
    """Print every method, what it is, and the tasks that it works on."""
    others = foreign_methods()[0]
    about = SUMMARIES | {name: row.summary for name, row in others.items()}
    tasks = TASKS | {name: row.tasks for name, row in others.items()}
    _print(
        ("method", "what it is", "tasks"),
        [(name, about[name], ", ".join(tasks[name])) for name in about],
    )


def list_datasets() -> None:
    """Print every data set, its task, and where it is from."""
    # Without long dotted names, which a narrow terminal would break anywhere.
    rows = [
        (name, task, re.sub(r"\b([a-z_.]+)\.([A-Z]\w+)", r"\2 of \1", origin))
        for name, task, origin in catalogue()
    ]
    _print(("data set", "task", "where from"), rows)


def list_presets() -> None:
    """Print every shipped preset, and the first sentence of its description, once for all that have
    the same."""
    names: dict[str, list[str]] = {}
    for name, path in shipped(PRESETS).items():
        names.setdefault(_first_sentence(path), []).append(name)
    _print(
        ("preset", "what it is"),
        [("\n".join(alike), sentence) for sentence, alike in names.items()],
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
    text = re.sub(
        r"^# format \d+ of curvfed\n", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    return re.split(
        r"(?<=\.) (?=[A-Z])|:? {3,}", " ".join(line.removeprefix("# ") for line in lines)
    )[0]
