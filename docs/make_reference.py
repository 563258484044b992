"""Write what follows from the keys, the figures and the readers: `docs/configuration.md`, pages in
`docs/reference`, the defaults in `pyproject.toml`, and the index of methods.

make reference
"""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE, PROJECT = ROOT / "docs" / "configuration.md", ROOT / "pyproject.toml"
INDEX = ROOT / "strategies" / "methods" / "index.json"
REFERENCE = ROOT / "docs" / "reference"
KEYS_PAGE = REFERENCE / "keys.md"
TABLES_PAGE = REFERENCE / "tables.md"
FIGURES_PAGE = REFERENCE / "figures.md"
FILES_PAGE = REFERENCE / "files.md"
SECTION = "tool.flwr.app.config"

HEAD = """\
# Configuration

A run is configured by keys, with the same names everywhere:

```sh
flwr run . --run-config 'method="fedavg" num-rounds=20 flatland.gate=false'      # strings in quotes, no space at the =
flwr run . --run-config presets/flatland.toml                                    # or a file, alone
curvfed simulate method=fedavg num-rounds=20 flatland.gate=false    # strings need no quotes here
curvfed simulate flatland num-rounds=20                             # a preset, and keys that differ from it
curvfed check method=fedavg num-rounds=20                           # shows what a run would use
```

A number whose default has a decimal point takes whole numbers too. `auto` leaves the choice to the run; `curvfed check`
shows what the run chooses.

The number of clients is the number of nodes in the federation: `--federation-config 'num-supernodes=10'`, or
`num-supernodes=10` for the commands of curvfed.
"""

TABLE = ["| key | default | allowed | meaning |", "| --- | --- | --- | --- |"]


def chosen(key: str) -> str:
    """What methods choose of a key in place of the task: "3 with moon on nodes; …"; "" where none
    does."""
    from curvfed.strategies.methods import METHODS

    methods: dict[tuple[Any, str], list[str]] = {}
    name = key.replace("-", "_")
    for method, row in METHODS.items():
        for value in dict.fromkeys(own[name] for own in row.settings.values() if name in own):
            tasks = " and ".join(
                task for task, own in row.settings.items() if own.get(name) == value
            )
            methods.setdefault((value, tasks), []).append(method)
    return "; ".join(
        f"{value} with {', '.join(names)} on {tasks}" for (value, tasks), names in methods.items()
    )


ENDED = ("local-epochs", "fine-tune-epochs", "weights")
"""Keys whose meaning ends with what methods choose of them."""


KEYS_HEAD = """\
# Keys of every run

`make reference` writes this page from the code. [Configuration](../configuration.md) has the other keys.
"""

TABLES_HEAD = """\
# Keys by subject

Keys of images, points, secure sums, privacy, aggregations and trackers. `make reference` writes this page from the code.
"""


def key_rows(table: str) -> list[str]:
    """The rows of the keys in a table, "" for those outside any table."""
    from curvfed.strategies.config.parse import all_fields, allowed

    rows = []
    for key, field in all_fields():
        if key.rpartition(".")[0] != table:
            continue
        meaning = field.description or ""
        if key in ENDED:
            meaning = f"{meaning}: {chosen(key)}"
        rows.append(_row(f"`{key}`", f"`{_default(field)}`", allowed(field), meaning))
    return rows


def tables_of_methods() -> dict[str, str]:
    """The page of each table of keys that belongs to a method."""
    from curvfed.strategies.base.keys import kebab
    from curvfed.strategies.methods import METHODS, listed

    pages: dict[str, str] = {}
    for name, row in listed().items():
        page = kebab(row.file)
        for table in METHODS[name].keys:
            belongs = table.startswith(page) or page.startswith(table)
            if belongs and pages.get(table) != table:
                pages[table] = page
    return pages


def tables_by_subject() -> list[str]:
    """The tables of keys that belong to no method."""
    from curvfed.strategies.config.parse import all_fields

    tables = dict.fromkeys(key.rpartition(".")[0] for key, _ in all_fields())
    return [table for table in tables if table and table not in tables_of_methods()]


def page() -> str:
    """The text of the page on configuration: how keys are given, and where each is explained."""
    lines = ["| keys | explained in |", "| --- | --- |"]
    lines.append(
        "| `method`, `dataset`, `num-rounds`, … | [keys of every run](reference/keys.md) |"
    )
    for table in tables_by_subject():
        lines.append(f"| `{table}.*` | [keys by subject](reference/tables.md#{table}) |")
    for table, name in tables_of_methods().items():
        lines.append(f"| `{table}.*` | [{name}](methods/{name}.md#keys) |")
    return HEAD + "\n" + "\n".join(lines) + "\n"


def keys_page() -> str:
    """The text of the page with the keys of every run."""
    return "\n".join([KEYS_HEAD, *TABLE, *key_rows("")]) + "\n"


def tables_page() -> str:
    """The text of the page with the tables of keys that belong to no method."""
    parts = [TABLES_HEAD]
    for table in tables_by_subject():
        parts.append("\n".join([f"## `{table}`", "", *TABLE, *key_rows(table)]) + "\n")
    return "\n".join(parts)


FIGURES_HEAD = """\
# Figures

What a run measures. This page is made by `make reference` from `strategies/base/figures.py`. Files have fractions, bytes and seconds; the unit is
that of tables and pages. A reply with a value out of the range is dropped. [The run directory](../running.md#the-run-directory)
explains the scores.

| figure | meaning | unit | range | better | where |
| --- | --- | --- | --- | --- | --- |
"""

PLACES = {
    "client": "clients.csv",
    "round": "rounds.csv",
    "run": "summary.json",
    "metric": "metrics",
    "detail": "metrics",
}
"""Files, and the table of `summary.json`, by level."""


def figures_page() -> str:
    """The text of the page of figures."""
    from curvfed.strategies.base.figure import LARGEST, LARGEST_COUNT
    from curvfed.strategies.base.figures import FIGURES, ROWS
    from curvfed.strategies.methods import METHODS

    for method in METHODS:  # each registers its own
        METHODS[method]
    own = sorted(FIGURES.keys() - {row.name for row in ROWS})
    lines = []
    for row in (*ROWS, *map(FIGURES.get, own)):
        assert row is not None
        low = f"{row.low:g}" if row.low > -LARGEST else "−∞"
        high = f"{row.high:g}" if row.high < min(LARGEST, LARGEST_COUNT) else "∞"
        kind = "whole, " if row.is_count else ""
        where = ", ".join(f"`{PLACES[level]}`" for level in row.levels)
        allowed = "" if row.unit == "text" else f"{kind}{low} to {high}"
        lines.append(_row(f"`{row.name}`", row.words, row.unit, allowed, row.better, where))
    return FIGURES_HEAD + "\n".join(lines) + "\n"


FILES_HEAD = """\
# Files

Which files and folders are data sets. This page is made by `make reference` from the readers; `curvfed check` says how a
path is read. [Data](../data.md) describes each kind.

## Read

| path | kind of data |
| --- | --- |
"""

FOREIGN_HEAD = """
## Not read

Such a file or folder is refused before a run is made, with these words. PATH is its path.

| file or folder | what it is | instead |
| --- | --- | --- |
"""


def files_page() -> str:
    """The text of the page of files: what the readers take, and what they refuse with advice."""
    from curvfed.extensions.formats.foreign import FOREIGN, FOREIGN_FOLDERS, PFLLIB
    from curvfed.extensions.links.foreign import FILES, FOLDERS, NETWORKS
    from curvfed.tasks.registry import catalogue

    own = [(origin, task) for name, task, origin in catalogue() if name == "a path"]
    taken = [_row(origin.removeprefix("your own: "), task) for origin, task in own]
    endings: dict[tuple[str, str], list[str]] = {PFLLIB: [".npz"], NETWORKS[".json"]: [".json"]}
    for ending, kind in (FILES | FOREIGN).items():
        endings.setdefault(kind, []).append(ending)
    refused = []
    for (kind, advice), names in endings.items():
        refused.append(_row(" ".join(f"`{name}`" for name in names), kind, advice))
    for name, (kind, advice) in (FOLDERS | FOREIGN_FOLDERS).items():
        first, *lines = advice.split("\n")
        code = "<br>".join(f"`{line}`" for line in lines)
        refused.append(_row(f"a folder with `{name}`", kind, f"{first}<br>{code}"))
    return FILES_HEAD + "\n".join(taken) + "\n" + FOREIGN_HEAD + "\n".join(refused) + "\n"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(field: Any) -> str:
    """A field's default as TOML has it."""
    return json.dumps("auto" if field.default is None else field.default, ensure_ascii=False)


def project() -> str:
    """`pyproject.toml` with the defaults as they are: Flower takes no key that is not there."""
    from curvfed.strategies.config.parse import all_fields

    sections: dict[str, list[str]] = {}
    for key, field in all_fields():
        table, _, name = key.rpartition(".")
        sections.setdefault(table, []).append(f"{name} = {_default(field)}\n")
    titled = (
        f"[{SECTION}{'.' * bool(table)}{table}]\n{''.join(lines)}\n"
        for table, lines in sections.items()
    )
    text = PROJECT.read_text(encoding="utf-8")
    table = re.search(
        rf"^\[{re.escape(SECTION)}\]\n.*?(?=^\[(?!{re.escape(SECTION)}))",
        text,
        re.MULTILINE | re.DOTALL,
    )
    assert table is not None
    return text[: table.start()] + "".join(titled) + text[table.end() :]


def index() -> str:
    """The text of `strategies/methods/index.json`: the methods' files as they are."""
    from curvfed.strategies.base.guard import guard_tables
    from curvfed.strategies.base.keys import Table, default_values
    from curvfed.strategies.methods import (
        aggregation_rows,
        digest,
        files,
        imported_description,
        table_of,
    )

    modules: dict[str, Any] = {}
    for file, module in files().items():
        entry = imported_description(file)
        sources = {module}
        for table in entry["keys"]:
            # keys may follow from those of another method
            kinds = [kind for kind in table_of(table).__mro__ if issubclass(kind, Table)]
            sources |= {kind.__module__ for kind in kinds if kind is not Table}
        modules[module] = {"digests": {name: digest(name) for name in sorted(sources)}, **entry}
    tables = guard_tables()
    for row in aggregation_rows().values():
        tables |= {name: table_of(name) for name in row.keys}
    keys = {name: default_values(table) for name, table in tables.items()}
    return json.dumps({"modules": modules, "keys": keys}, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    pages = {
        PAGE: page(),
        KEYS_PAGE: keys_page(),
        TABLES_PAGE: tables_page(),
        FIGURES_PAGE: figures_page(),
        FILES_PAGE: files_page(),
    }
    for path, content in {**pages, PROJECT: project(), INDEX: index()}.items():
        path.write_text(content, encoding="utf-8")
        print(path)
