"""What there is, as tables for the terminal: methods, data sets, presets, sweeps. None of it takes torch or Flower."""

import re
import tomllib
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from curvfed.deployments.shipped import PRESETS, SWEEPS, shipped
from curvfed.strategies.config.settings_file import HEADING
from curvfed.strategies.method_index import SUMMARIES, TASKS
from curvfed.strategies.methods import brought
from curvfed.tasks.registry import catalogue


def show(table: Table) -> int:
    """Print it; the exit status."""
    Console().print(table)
    return 0


def methods_table() -> Table:
    """Every method, what it is, and what kinds of data sets it runs on."""
    others = brought()[0]
    about = SUMMARIES | {name: row.summary for name, row in others.items()}
    tasks = TASKS | {name: row.tasks for name, row in others.items()}
    return _table(("method", "what it is", "tasks"), [(name, about[name], ", ".join(tasks[name])) for name in about])


def datasets_table() -> Table:
    """Every data set by name, its task, and where it is from."""
    return _table(("data set", "task", "where from"), catalogue())


def presets_table() -> Table:
    """Every shipped preset, and the first sentence of what it says of itself."""
    return _table(("preset", "what it is"), [(name, _first_sentence(path)) for name, path in shipped(PRESETS).items()])


def sweeps_table() -> Table:
    """Every shipped sweep, its title, and which table or figure it is after."""
    about = {name: tomllib.loads(path.read_text(encoding="utf-8")) for name, path in shipped(SWEEPS).items()}
    return _table(
        ("sweep", "title", "after"), [(name, sweep["title"], sweep["source"]) for name, sweep in about.items()]
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Table:
    table = Table(*head)
    for column in table.columns:
        column.overflow = "fold"
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _first_sentence(path: Path) -> str:
    """Of the comment that a file begins with."""
    text = path.read_text(encoding="utf-8").replace(HEADING, "")
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    return re.split(r"(?<=\.) (?=[A-Z])|:? {3,}", " ".join(line.removeprefix("# ") for line in lines))[0]
