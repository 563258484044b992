"""Parses keys and values into a configuration: names, types and ranges; reads a run's
`config.toml`, and files of settings that users write by hand."""

import re
import tomllib
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from curvfed.strategies.base.keys import (
    AUTO,
    EXTRA,
    Form,
    OfExtensions,
    Scalar,
    Table,
    dotted,
    expand_extra,
    kebab,
    nested,
    toml_text,
    value_type,
)
from curvfed.strategies.base.run_keys import folder_of
from curvfed.strategies.base.shared_tables import SHARED
from curvfed.strategies.config.checks import (
    check_method,
    check_method_name,
    check_path,
    check_paths,
    check_together,
)
from curvfed.strategies.config.data_checks import check_data, tasks_of_dataset
from curvfed.strategies.config.run_config import (
    RunConfig,
    base_class,
    config_class,
    defaults,
    key_hint,
)
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import (
    METHODS,
    indexed_defaults,
    table_of,
    tables,
)
from curvfed.tasks import plugins, shipped
from curvfed.tasks.kinds import KINDS
from curvfed.tasks.stored_files import FORMAT, UNSEALED, DamagedError, check_whole, unreadable

AnyTable = TypeVar("AnyTable", bound=Table)


def parse(raw: Mapping[str, Any]) -> RunConfig:
    """Build the configuration from dotted keys, as Flower passes them.

    Raises
    ------
    ConfigError
        Keys are unknown (the text suggests the nearest keys), values have the wrong type or are out
        of range (the text has a line for each), or keys do not fit together.
    """
    default_values = defaults()
    try:
        raw = expand_extra(raw, default_values)
    except ValueError as error:
        raise ConfigError(f'{EXTRA} = "{raw[EXTRA]}": {error}', key="extra") from None
    raw = {key: value for key, value in raw.items() if not _is_of_absent(key, value)}
    _check_names(raw, default_values)
    _check_dataset(raw.get("dataset"), str(raw.get("data-dir") or ""))
    method = raw.get("method", default_values["method"])
    chosen = {key: value for key, value in raw.items() if not _is(value, default_values[key])}
    config_type = base_class()
    if isinstance(method, str):
        # equal values of another type, such as 0 for 0.0, are not a change
        changed = [key for key, value in chosen.items() if value != default_values[key]]
        check_method_name(method)
        config_type = config_class(
            METHODS[method], str(raw.get("aggregation")), str(raw.get("model", AUTO)), changed
        )
    fields_by_key = dict(fields(config_type))
    used = {key: value for key, value in raw.items() if key in fields_by_key}
    config, reasons = _read(config_type, used, fields_by_key)
    reasons |= _check_unused(
        {key: value for key, value in chosen.items() if key not in fields_by_key}
    )
    if config is None or reasons:
        refusal = ConfigError("\n".join(reasons.values()), key="value")
        refusal.settings = tuple(reasons)
        raise refusal
    check_method(config)
    if config.dataset is None:
        config = config.model_copy(update={"dataset": KINDS[config.row.tasks[0]].built_in})
    check_paths(config)
    check_data(config)
    check_together(config)
    unread_names = keys_not_read(config)
    unread = {
        key: value
        for key, value in chosen.items()
        if key in unread_names and value != default_values[key]
    }
    return config.with_unread(unread) if unread else config


def keys_not_read(config: RunConfig) -> frozenset[str]:
    """All keys that a run with this configuration does not read, whatever their values."""
    own_keys = dict(fields(type(config)))
    own_tables = {key.partition(".")[0] for key in own_keys}
    # a configuration without changed keys of its data lacks their table
    of_data = {table for task in config.row.tasks for table in KINDS[task].tables} - own_tables
    of_others = {
        key for key in defaults() if key not in own_keys and key.partition(".")[0] not in of_data
    }
    return frozenset({*of_others, *_idle(config), *config.row.unread})


def _is_of_absent(key: str, value: Any) -> bool:
    """Whether Flower passes this default of a key of a deleted extension, which `pyproject.toml`
    still has."""
    passed = indexed_defaults()
    return key not in defaults() and key in passed and _is(value, passed[key])


def _idle(config: RunConfig) -> tuple[str, ...]:
    """The keys of tables without effect: given other keys, or those that only other methods
    read."""
    unread: tuple[str, ...] = ()
    for name in type(config).model_fields:
        table = getattr(config, name)
        if isinstance(table, Table):
            idle = table.idle()
            if table.shared is not None and kebab(name) not in config.row.keys:
                idle += tuple(key for key in type(table).model_fields if key not in table.shared)
            unread += tuple(f"{kebab(name)}.{kebab(field)}" for field in idle)
    return unread


def _check_dataset(dataset: object, data_dir: str) -> None:
    """Refuse an unknown data set before the method's file is imported, which takes seconds."""
    if isinstance(dataset, str) and dataset != AUTO:
        check_path("dataset", dataset)
        check_path("data-dir", data_dir)
        tasks_of_dataset(dataset, folder_of(data_dir, "data"))


def _is(value: Any, default: Scalar) -> bool:
    """Whether value and type are equal; without the type True equals 1."""
    return type(value) is type(default) and bool(value == default)


def _check_unused(raw: Mapping[str, Any]) -> dict[str, str]:
    """A line for each key with a wrong value that this method does not use."""
    reasons: dict[str, str] = {}
    for table in dict.fromkeys(key.partition(".")[0] for key in raw):
        keys = table_of(table)
        inner = {
            key.partition(".")[2]: value
            for key, value in raw.items()
            if key.startswith(f"{table}.")
        }
        reasons |= _read(keys, inner, dict(_fields_of(keys)), f"{table}.")[1]
    return reasons


def _check_names(raw: Mapping[str, Any], keys: Mapping[str, Scalar]) -> None:
    reasons = []
    for key in raw:
        if key not in keys:
            hint = key_hint(key, keys)
            table = key.partition(".")[0]
            if "." in key and not any(name.startswith(f"{table}.") for name in keys):
                hint += (
                    f'. No installed method has keys of "{table}"; its package {plugins.EVERYWHERE}'
                )
            reasons.append(f'unknown key "{key}"{hint}')
    if reasons:
        if isinstance(raw.get("method"), str):
            check_method_name(raw["method"])  # the keys of an unknown method are unknown, too
        raise ConfigError(
            "\n".join(reasons) + plugins.absent_hint(*shipped.KEYS), key="unknown-key"
        )


def _read(
    kind: type[AnyTable],
    raw: Mapping[str, Any],
    fields_by_key: Mapping[str, FieldInfo],
    prefix: str = "",
) -> tuple[AnyTable | None, dict[str, str]]:
    """A table of these values, or None and a line for each key with a wrong value, after
    `prefix`."""
    try:
        return kind.model_validate(nested(raw)), {}
    except ValidationError as error:
        reasons = {}
        for fault in error.errors():
            key = _key(fault["loc"], fields_by_key)
            if not key:
                place = prefix.rstrip(".") or ".".join(map(str, fault["loc"]))
                reasons[place] = f"{place or 'the configuration'}: {fault['msg']}"
                continue
            field = fields_by_key[key]
            text = f"{prefix}{key} = {raw.get(key)!r}: allowed is {allowed(field)}"
            for item in field.metadata:
                if isinstance(item, OfExtensions):
                    text += plugins.absent_hint(*item.groups)
            reasons[f"{prefix}{key}"] = text
        return None, reasons


def _key(location: Sequence[int | str], keys: Mapping[str, Any]) -> str:
    """The key of a location, which also names a type if several types are allowed; "" for the
    whole table, which a validator of its own refuses."""
    key = ".".join(map(str, location))
    if key in keys or not location:
        return key
    return _key(location[:-1], keys)


def fields(kind: type[RunConfig] | None = None) -> Iterator[tuple[str, FieldInfo]]:
    """The dotted keys of a class of configuration, each with its type, range, default and
    description, in order; without a class, the keys that every run has."""
    for name, field in (kind or base_class()).model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Table):
            for inner, inner_field in _fields_of(field.annotation):
                yield f"{kebab(name)}.{inner}", inner_field
        else:
            yield kebab(name), field


def all_fields() -> Iterator[tuple[str, FieldInfo]]:
    """All keys of all methods; imports every method's file."""
    yield from fields()
    for table, keys in tables().items():
        for inner, field in _fields_of(keys):
            yield f"{table}.{inner}", field


def _fields_of(table: type[Table]) -> Iterator[tuple[str, FieldInfo]]:
    return ((kebab(name), field) for name, field in table.model_fields.items())


def allowed(field: FieldInfo) -> str:
    """A field's type and range in words."""
    annotation = value_type(field)
    may_be_auto = field.default is None
    if forms := [item.words for item in field.metadata if isinstance(item, Form)]:
        return " and ".join(forms)
    if get_origin(annotation) is Literal:
        values = [AUTO, *get_args(annotation)] if may_be_auto else get_args(annotation)
        choices = [f'"{item}"' if isinstance(item, str) else str(item) for item in values]
        return "one of " * (len(choices) > 1) + ", ".join(choices)
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    if isinstance(annotation, types.GenericAlias) or annotation not in words:
        raise TypeError(f"no words for {annotation}")
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    bounds = [
        f"{sign} {getattr(item, name)}"
        for item in field.metadata
        for name, sign in signs.items()
        if getattr(item, name, None) is not None
    ]
    either = f'"{AUTO}" or ' if may_be_auto and annotation is not str else ""
    return either + " ".join([words[annotation], " and ".join(bounds)]).strip()


HEADING = f"# format {FORMAT} of curvfed\n"
"""The line with the format: a comment, since Flower reads the file too and refuses unknown keys."""

SEALED_HEADING = f"{HEADING}# {UNSEALED}\n"
"""The first lines of a file that a run writes."""


def read_settings(path: Path, written_by_run: bool = False) -> dict[str, Any]:
    """The settings in a file, by dotted key.

    Parameters
    ----------
    path : Path
    written_by_run : bool
        Whether the file must be unchanged since a run wrote it. A key that is newer than the run
        has the value of what the run did.

    Raises
    ------
    OSError
        If it is not there.
    ConfigError
        If it is not TOML, has another format, or has changed since a run wrote it, or the folder of
        the run holds a pipe.
    """
    if written_by_run:
        for file in path.parent.rglob("*"):
            # anything that reads a pipe would wait for ever
            if file.is_fifo():
                raise ConfigError(f"{file} is a pipe", key="pipe")
    data = path.read_bytes()
    try:
        if written_by_run:
            check_whole(data)
        text = toml_text(data)
        check_format(text)
        settings = dotted(tomllib.loads(text))
    except (ConfigError, DamagedError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", key="unreadable") from None
    return _of_today(settings) if written_by_run else settings


def _of_today(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A run's settings with today's keys, if they say what the run did."""
    method = str(settings.get("method"))
    own = METHODS[method].keys if method in METHODS else {}
    tables = {**SHARED, **own}
    retired = dotted({table: dict(keys.retired) for table, keys in tables.items()})
    kept = {
        key: value for key, value in settings.items() if key not in retired or value != retired[key]
    }
    return _before_keys(settings) | kept


def _before_keys(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The values of keys that did not exist when a run wrote its settings, for the tables that it
    has; a default may have come with the key."""
    written_tables = {key.rpartition(".")[0] for key in settings}
    return {
        key: value
        for kind in KINDS.values()
        for key, value in kind.before_keys.items()
        if key.rpartition(".")[0] in written_tables
    }


def check_format(text: str) -> None:
    """Refuse settings headed by another format; files that users write need no heading.

    Raises
    ------
    ConfigError
    """
    heading = re.search(r"^# format (\d+) of curvfed$", text, re.MULTILINE)
    if heading and (reason := unreadable(heading[1])):
        raise ConfigError(reason, key="format")
