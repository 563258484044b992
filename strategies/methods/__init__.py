"""The methods: one file for each, by its published name, with its keys, its rows, its server half
and its client half.

The files are in this folder, and in the folders of extensions, which are entry points of the group
`curvfed.method-folders`. A table of keys has the name of the file: `fed-pub` in `fed_pub.py`. A
process imports only the file of the method that it runs; `index.json` describes the other files as
long as they are unchanged. Other packages add methods by entry points of the group
`curvfed.methods`.

Extensions add aggregations, which any method can use: an entry point of the group
`curvfed.aggregations` is a row with the server half and its keys. One of the group
`curvfed.aggregation-choices` is a function from the method's row to the name of an aggregation.
"""

import importlib
import importlib.resources
import importlib.util
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from itertools import chain
from typing import Any, Literal, NamedTuple, get_origin

from pydantic import ValidationError

from curvfed.strategies.base.guard import guard_tables
from curvfed.strategies.base.keys import Scalar, Table, default_values, dotted, kebab
from curvfed.strategies.base.method import ALL, SPACES, Method
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.shared_tables import SHARED
from curvfed.strategies.run_log import log
from curvfed.tasks import plugins
from curvfed.tasks.errors import DataError
from curvfed.tasks.kinds import KINDS

FIRST = ("flatland", "hyperfed", "spherefed", "hull")
"""The files that lists of methods begin with; the others follow by the alphabet."""

NAME = r"[A-Za-z][A-Za-z0-9._-]{0,63}"
"""The form of a method's name, which the default names of runs begin with."""

INDEX = "index.json"
"""The file of `index`, which `make reference` writes."""


class Listed(NamedTuple):
    """The entry of a method in a list of methods; `file` is the name of its file, "" for another
    package's method."""

    summary: str
    tasks: tuple[str, ...]
    file: str = ""


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


def rows_of(file: str) -> dict[str, Method]:
    """The rows in a file, which is imported.

    Raises
    ------
    DataError
        If it cannot be imported, or has none.
    """
    module = files()[file]
    try:
        return importlib.import_module(module).METHODS
    except Exception as error:
        raise DataError(
            f"the methods in {module} cannot be imported: {type(error).__name__}: {error}",
            key="no-import",
        ) from error


def imported_description(file: str) -> dict[str, Any]:
    """The summary and the tasks of each method in a file, None for all tasks, and the defaults of
    the file's own keys by table; the file is imported."""
    methods = {}
    rows = rows_of(file)
    for name, row in rows.items():
        # By identity, since `ALL` grows with the extensions that are here.
        methods[name] = [row.summary, None if row.tasks is ALL else list(row.tasks)]
    table = kebab(file)
    has_keys = any(table in row.keys for row in rows.values())
    return {
        "methods": methods,
        "keys": {table: default_values(table_of(table))} if has_keys else {},
    }


@cache
def index() -> dict[str, Any]:
    """The content of `index.json`, as the last `make reference` found it.

    "modules" has for each module of `files` its `imported_description`, and the digests of the
    modules that its rows and keys are defined in; "keys" has the defaults of the keys of
    extensions' aggregations and guards, by table. Without a readable file both are empty, and every
    file is imported; but Flower makes no bundle without the file.
    """
    empty: dict[str, Any] = {"modules": {}, "keys": {}}
    try:
        content = json.loads(importlib.resources.files(__name__).joinpath(INDEX).read_bytes())
    except (OSError, ValueError):
        return empty
    return empty | content if isinstance(content, dict) else empty


def digest(module: str) -> str:
    """The digest of a module's text; "" if it cannot be read."""
    try:
        spec: Any = importlib.util.find_spec(module)
        return sha256(spec.loader.get_data(spec.origin)).hexdigest()
    except (ImportError, OSError, AttributeError):
        return ""


@cache
def description(file: str) -> dict[str, Any]:
    """The `imported_description` of a file, from the index if the file is unchanged: imports of all
    files take seconds. A file that cannot be imported is logged, so that other methods run."""
    entry = index()["modules"].get(files()[file], {})
    is_whole = {"digests", "methods", "keys"} <= entry.keys()
    if is_whole and all(digest(module) == text for module, text in entry["digests"].items()):
        return entry
    try:
        return imported_description(file)
    except DataError as error:
        log.warning("%s", error)
        return entry if is_whole else {"methods": {}, "keys": {}}


@cache
def listed() -> dict[str, Listed]:
    """All methods of curvfed by name."""
    methods: dict[str, Listed] = {}
    for file in files():
        for name, (summary, tasks) in description(file)["methods"].items():
            methods[name] = Listed(summary, ALL if tasks is None else tuple(tasks), file)
    return methods


def default_tables() -> dict[str, dict[str, Scalar]]:
    """The defaults of the keys of aggregations and methods, by table."""
    tables = {name: default_values(table_of(name)) for name in _aggregation_tables()}
    for file in files():
        tables |= description(file)["keys"]
    return tables


@cache
def indexed_defaults() -> dict[str, Scalar]:
    """The defaults in the index by dotted key, those of deleted extensions too: Flower passes them,
    from the `pyproject.toml` that was written with the index."""
    tables = dict(index()["keys"])
    for entry in index()["modules"].values():
        tables |= entry["keys"]
    return dotted(tables)


class Methods(Mapping[str, Method]):
    """All methods by name, first ours, then those of other packages; a method is imported when it
    is looked up."""

    def __getitem__(self, name: str) -> Method:
        if name in listed():
            return rows_of(listed()[name].file)[name]
        return foreign_methods()[0][name]

    def __contains__(self, name: object) -> bool:
        return name in listed() or name in foreign_methods()[0]

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
    plugins.leave_out("methods", filter(listed().__contains__, plugins.registered("methods")))
    rows: dict[str, Method] = {}
    reasons: dict[str, str] = {}
    tables: dict[str, type[Table]] = {}
    for name in plugins.registered("methods"):
        try:
            row = plugins.load("methods", name)
        except DataError as error:
            reasons[name] = str(error)
            continue
        if not re.fullmatch(NAME, name):
            reasons[name] = "allowed are letters, digits and . _ - in a name, a letter first"
        elif reason := _unfit(row, tables):
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
    own = map(kebab, (*files(), *RunKeys.model_fields))
    reserved = {*SHARED, *guard_tables(), *_aggregation_tables(), *own}
    for table, keys in row.keys.items():
        if table in reserved or tables.get(table, keys) is not keys:
            return f'its keys have the table "{table}", whose name is taken; it needs another one'
        if not _is_table(table, keys):
            return (
                f'its table "{table}" cannot be taken; allowed is a name of small letters, digits'
                f" and -, and a {Table.__module__}.Table of bool, int, float, str or Literal, each"
                " with a default"
            )
    return _unknown_names(row)


def _unknown_names(row: Method) -> str:
    """The reason to refuse a row by the tasks and the tuned keys that it names; "" if all exist."""
    for task in (*row.tasks, *row.settings, *row.tuned):
        if task not in KINDS:
            return (
                f'it names the task "{task}"; allowed are {", ".join(KINDS)}'
                f"{plugins.absent_hint('tasks')}"
            )
    if row.space not in SPACES:
        return f'its space is "{row.space}"; allowed are {", ".join(SPACES)}'
    for settings in row.settings.values():
        if reason := _unfit_settings(settings):
            return reason
    own = dotted({table: default_values(keys) for table, keys in row.keys.items()})
    shared = dotted({table: default_values(keys) for table, keys in SHARED.items()})
    for key in chain.from_iterable(row.tuned.values()):
        if key not in {*default_values(RunKeys), *shared, *own}:
            return (
                f'its "tuned" names the key "{key}"; allowed are keys of every run, and its own:'
                f" {', '.join(own) or 'none'}"
            )
    return ""


def _unfit_settings(settings: Mapping[str, Any]) -> str:
    """The reason to refuse a row's own defaults: they set keys of every run whose default is
    "auto"."""
    open_keys = [name for name, field in RunKeys.model_fields.items() if field.default is None]
    for name, value in settings.items():
        if name not in open_keys:
            return f'its "settings" name "{name}"; allowed are {", ".join(open_keys)}'
        try:
            RunKeys(**{name: value})
        except ValidationError as error:
            return f'its "settings" have {name} = {value!r}: {error.errors()[0]["msg"]}'
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
