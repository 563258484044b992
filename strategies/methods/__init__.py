"""The methods: one file for each, by its published name, with its keys, its rows, its server half
and its client half.

A process imports only the file of the method that it runs, which `curvfed.strategies.method_index`
names. Other packages add methods by entry points of the group `curvfed.methods`.
"""

import importlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, get_origin

from curvfed.strategies.base.dotted import Scalar
from curvfed.strategies.base.keys import Table, kebab
from curvfed.strategies.base.method import Method
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import SHARED
from curvfed.strategies.method_index import DEFAULTS, FILES
from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError


class Methods(Mapping[str, Method]):
    """All methods by name, first ours, then those of other packages; a method is imported when it
    is looked up."""

    def __getitem__(self, name: str) -> Method:
        if name in FILES:
            module = importlib.import_module(f"{__name__}.{FILES[name]}")
            row: Method = module.METHODS[name]
            return row
        return foreign_methods()[0][name]

    def __contains__(self, name: object) -> bool:
        return name in FILES or name in foreign_methods()[0]

    def __iter__(self) -> Iterator[str]:
        return iter((*FILES, *foreign_methods()[0]))

    def __len__(self) -> int:
        return len(FILES) + len(foreign_methods()[0])


METHODS = Methods()


def table_of(name: str) -> type[Table]:
    """The keys of the table with this name."""
    if name in DEFAULTS:
        rows: Mapping[str, Method] = importlib.import_module(
            f"{__name__}.{name.replace('-', '_')}"
        ).METHODS
        return next(row.keys[name] for row in rows.values() if name in row.keys)
    return next(row.keys[name] for row in foreign_methods()[0].values() if name in row.keys)


def readers(table: str) -> list[str]:
    """The methods whose keys the table holds."""
    file = table.replace("-", "_")
    names = [name for name, place in FILES.items() if place == file]
    return names or [name for name, row in foreign_methods()[0].items() if table in row.keys]


@cache
def foreign_methods() -> tuple[dict[str, Method], dict[str, str]]:
    """The rows of other packages' methods by name, and the reasons for refused methods by name."""
    plugins.leave_out("methods", FILES)
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
    reserved = {*SHARED, *DEFAULTS, *map(kebab, RunKeys.model_fields)}
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
