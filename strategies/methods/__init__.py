"""The methods: one file for each, by its published name, with its keys, its rows, its server half
and its client half.

The files are in this folder, and in the folders of extensions, which are entry points of the group
`curvfed.method-folders`. The name of a method begins with that of its file: `flatland-constant` in
`flatland.py`, `fed-pub` in `fed_pub.py`. A process imports only the file of the method that it
runs. Other packages add methods by entry points of the group `curvfed.methods`.

Extensions add aggregations, which any method can use: an entry point of the group
`curvfed.aggregations` is a row with the server half and its keys. One of the group
`curvfed.aggregation-choices` is a function from the method's row to the name of an aggregation.
"""

import ast
import importlib
import importlib.resources
import importlib.util
import pkgutil
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_origin

from curvfed.strategies.base import method as constants
from curvfed.strategies.base.keys import Scalar, Table, default_values, kebab
from curvfed.strategies.base.method import Method
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import SHARED
from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError

FIRST = ("flatland", "hyperfed", "spherefed", "hull")
"""The files that lists of methods begin with; the others follow by the alphabet."""

ROWS = "\nMETHODS = "
"""The beginning of the last statement in a method's file, its rows."""


class Listed(NamedTuple):
    """The entry of a method in a list of methods."""

    summary: str
    tasks: tuple[str, ...]
    tables: tuple[str, ...] = ()


@cache
def files() -> dict[str, str]:
    """The modules of the methods' files by their names, in the order of lists."""
    modules = {}
    for folder in (__name__, *plugins.of_extensions("method-folders").values()):
        spec: Any = importlib.util.find_spec(folder)
        for module in pkgutil.iter_modules(spec.submodule_search_locations):
            modules[module.name] = f"{folder}.{module.name}"
    names = (*FIRST, *sorted(modules.keys() - set(FIRST)))
    return {name: modules[name] for name in names}


def file_of(method: str) -> str:
    """The file of a method: the longest file name that the method's name begins with, or ""."""
    places = [name for name in files() if re.fullmatch(rf"{kebab(name)}([-+].*)?", method)]
    return max(places, key=len, default="")


def is_built_in(method: str) -> bool:
    """Whether it is a method of curvfed."""
    file = file_of(method)
    return bool(file) and method in rows_of(file)


def rows_of(file: str) -> dict[str, Method]:
    """The rows in a file, which is imported."""
    return importlib.import_module(files()[file]).METHODS


@cache
def listed() -> dict[str, Listed]:
    """All methods of curvfed by name, read from the text of their files: imports take seconds."""
    methods: dict[str, Listed] = {}
    for module in files().values():
        spec: Any = importlib.util.find_spec(module)
        text = Path(spec.origin).read_text(encoding="utf-8")
        rows: Any = ast.parse(text[text.rindex(ROWS) :]).body[0]
        for name, row in zip(rows.value.keys, rows.value.values, strict=True):
            tasks = [word.value for word in row.keywords if word.arg == "tasks"]
            summary = ast.literal_eval(row.args[0])
            methods[name.value] = Listed(
                summary,
                _tasks(*tasks) if tasks else constants.GRAPHS,
                tuple(_tables(row.keywords)),
            )
    return methods


def _tables(words: Iterable[ast.keyword]) -> Iterator[str]:
    """The names of the tables of keys in the words of a row."""
    for word in words:
        if word.arg == "keys" and isinstance(word.value, ast.Dict):
            yield from (str(key.value) for key in word.value.keys if isinstance(key, ast.Constant))


def _tasks(node: ast.expr) -> tuple[str, ...]:
    """The value of `tasks` in a row, such as (*GRAPHS, *IMAGES)."""
    names = [item.id for item in ast.walk(node) if isinstance(item, ast.Name)]
    words = [item.value for item in ast.walk(node) if isinstance(item, ast.Constant)]
    return (*(task for name in names for task in getattr(constants, name)), *map(str, words))


@cache
def project_defaults() -> dict[str, Any]:
    """The defaults in `pyproject.toml`, nested by table; Flower passes all of them to a run."""
    package = Path(str(importlib.resources.files("curvfed")))
    # A wheel has the file in `curvfed/`; a checkout, and Flower's bundle, next to it.
    inside = package / "pyproject.toml"
    path = inside if inside.is_file() else package.parent / "pyproject.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["flwr"]["app"]["config"]


@cache
def default_tables() -> dict[str, dict[str, Scalar]]:
    """The defaults of the methods' own keys, by table, from `pyproject.toml`: imports of all
    methods take seconds. A new file, which `pyproject.toml` lacks, is imported."""
    config = project_defaults()
    tables = dict.fromkeys([*_aggregation_tables(), *map(kebab, files())])
    of_rows = {table for entry in listed().values() for table in entry.tables}
    values: dict[str, dict[str, Scalar]] = {}
    for table in tables:
        if table in config:
            values[table] = config[table]
        elif table in of_rows:
            values[table] = default_values(table_of(table))
    return values


class Methods(Mapping[str, Method]):
    """All methods by name, first ours, then those of other packages; a method is imported when it
    is looked up."""

    def __getitem__(self, name: str) -> Method:
        if is_built_in(name):
            return rows_of(file_of(name))[name]
        return foreign_methods()[0][name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (is_built_in(name) or name in foreign_methods()[0])

    def __iter__(self) -> Iterator[str]:
        return iter((*listed(), *foreign_methods()[0]))

    def __len__(self) -> int:
        return len(listed()) + len(foreign_methods()[0])


METHODS = Methods()


@cache
def aggregation_rows() -> dict[str, Method]:
    """The rows of extensions' aggregations, by their names in the key `aggregation`."""
    names = plugins.of_extensions("aggregations")
    return {name: plugins.addition("aggregations", name) for name in names}


def _aggregation_tables() -> list[str]:
    return [name for row in aggregation_rows().values() for name in row.keys]


def _rows_with(table: str) -> Mapping[str, Method]:
    """The rows of the file, or of other packages and of aggregations, that may have the table."""
    file = table.replace("-", "_")
    if file in files():
        return rows_of(file)
    added = {f"aggregation = {name}": row for name, row in aggregation_rows().items()}
    return {**added, **foreign_methods()[0]}


def table_of(name: str) -> type[Table]:
    """The keys of the table with this name, all of those that its methods read."""
    rows = _rows_with(name).values()
    kinds = [row.keys[name] for row in rows if name in row.keys]
    return max(kinds, key=lambda keys: len(keys.model_fields))


def tables() -> dict[str, type[Table]]:
    """The tables of all aggregations' and methods' own keys; imports every file."""
    rows = (*aggregation_rows().values(), *METHODS.values())
    return {name: table_of(name) for row in rows for name in row.keys}


def readers(key: str) -> list[str]:
    """The methods or aggregations that read the key."""
    table, _, name = key.partition(".")
    return [
        method
        for method, row in _rows_with(table).items()
        if table in row.keys and name in map(kebab, row.keys[table].model_fields)
    ]


@cache
def foreign_methods() -> tuple[dict[str, Method], dict[str, str]]:
    """The rows of other packages' methods by name, and the reasons for refused methods by name."""
    plugins.leave_out("methods", filter(is_built_in, plugins.registered("methods")))
    rows: dict[str, Method] = {}
    reasons: dict[str, str] = {}
    tables: dict[str, type[Table]] = {}
    for name in plugins.registered("methods"):
        try:
            row = plugins.load("methods", name)
        except DataError as error:
            reasons[name] = str(error)
            continue
        if reason := _unfit(row, tables):
            reasons[name] = reason
        else:
            rows[name] = row
            tables |= row.keys
    return rows, reasons


def _unfit(row: Any, tables: Mapping[str, type[Table]]) -> str:
    """The reason to refuse another package's row; "" if it is accepted. `tables` are those of the
    rows accepted so far."""
    if not isinstance(row, Method):
        return f"its entry point is {row!r}; allowed is a {Method.__module__}.Method"
    reserved = {*SHARED, *_aggregation_tables(), *map(kebab, (*files(), *RunKeys.model_fields))}
    for table, keys in row.keys.items():
        if table in reserved or tables.get(table, keys) is not keys:
            return f'its keys have the table "{table}", whose name is taken; it needs another one'
        if not _is_table(table, keys):
            return (
                f'its table "{table}" cannot be taken; allowed is a name of small letters, digits'
                f" and -, and a {Table.__module__}.Table of bool, int, float, str or Literal, each"
                " with a default"
            )
    return ""


def _is_table(name: str, keys: Any) -> bool:
    if not (
        isinstance(keys, type)
        and issubclass(keys, Table)
        and re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name)
    ):
        return False
    return all(
        isinstance(field.default, Scalar)
        and (field.annotation in (bool, int, float, str) or get_origin(field.annotation) is Literal)
        for field in keys.model_fields.values()
    )
