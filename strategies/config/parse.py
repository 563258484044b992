"""Parses keys and values into a configuration: names, types and ranges."""

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from curvfed.strategies.base.dotted import EXTRA, Scalar, expanded, nested
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.keys import AUTO, Form, Table, kebab, value_type
from curvfed.strategies.base.method import Method
from curvfed.strategies.config.all_keys import brought_tables, defaults, nearest_key
from curvfed.strategies.config.checks import check_data, check_method, check_paths, check_together
from curvfed.strategies.config.run_config import BUILT_IN, RunConfig, config_class
from curvfed.strategies.method_index import DEFAULTS
from curvfed.strategies.methods import METHODS, brought, table_of
from curvfed.tasks import plugins
from curvfed.tasks.errors import did_you_mean

AnyTable = TypeVar("AnyTable", bound=Table)


def parse(raw: Mapping[str, Any]) -> RunConfig:
    """Build the configuration from dotted keys, as Flower passes them.

    Raises
    ------
    ConfigError
        An unknown key (the nearest right one is named), values of the wrong type or out of range
        (all of them are, a line each), or keys that do not fit together.
    """
    every = defaults()
    try:
        raw = expanded(raw, every)
    except ValueError as error:
        raise ConfigError(f'{EXTRA} = "{raw[EXTRA]}": {error}') from None
    _check_names(raw, every)
    method = raw.get("method", every["method"])
    given = {key: value for key, value in raw.items() if not _is(value, every[key])}
    # not 0 where the default is 0.0
    changed = (key for key, value in given.items() if value != every[key])
    kind = (
        config_class(_row(method), str(raw.get("aggregation")), changed)
        if isinstance(method, str)
        else RunConfig
    )
    known = dict(fields(kind))
    config, wrong = _read(kind, {key: value for key, value in raw.items() if key in known}, known)
    wrong += _wrong_of_others({key: value for key, value in given.items() if key not in known})
    if config is None or wrong:
        raise ConfigError("\n".join(wrong))
    check_method(config)
    if config.dataset is None:
        config = config.model_copy(update={"dataset": BUILT_IN[config.row.tasks[0]]})
    check_paths(config)
    check_data(config)
    check_together(config)
    return config


def _row(method: str) -> Method:
    """The row of a method.

    Raises
    ------
    ConfigError
        If there is none.
    """
    if method in METHODS:
        return METHODS[method]
    if reason := brought()[1].get(method):
        raise ConfigError(f'method = "{method}" is left out: {reason}')
    hint = did_you_mean(method, METHODS, "`curvfed methods`")
    raise ConfigError(f'method = "{method}"{hint}; {plugins.EVERYWHERE}')


def _is(value: Any, default: Scalar) -> bool:
    """Whether value and type are equal; True == 1 would pass without the type."""
    return type(value) is type(default) and bool(value == default)


def _wrong_of_others(raw: Mapping[str, Any]) -> list[str]:
    """What is wrong with keys of other methods, which have no effect here."""
    wrong: list[str] = []
    for table in dict.fromkeys(key.partition(".")[0] for key in raw):
        keys = table_of(table)
        inner = {
            key.partition(".")[2]: value
            for key, value in raw.items()
            if key.startswith(f"{table}.")
        }
        wrong += _read(keys, inner, dict(_fields_of(keys)), f"{table}.")[1]
    return wrong


def _check_names(raw: Mapping[str, Any], every: Mapping[str, Scalar]) -> None:
    wrong = []
    for key in raw:
        if key not in every:
            near = nearest_key(key, every)
            hint = (
                f'; did you mean "{near}"?'
                if near
                else did_you_mean(key, every, "docs/configuration.md")
            )
            table = key.partition(".")[0]
            if "." in key and not any(one.startswith(f"{table}.") for one in every):
                hint += (
                    f' Nothing that is installed here has keys of "{table}"; {plugins.EVERYWHERE}'
                )
            wrong.append(f'unknown key "{key}"{hint}')
    if wrong:
        raise ConfigError("\n".join(wrong))


def _read(
    kind: type[AnyTable], raw: Mapping[str, Any], known: Mapping[str, FieldInfo], prefix: str = ""
) -> tuple[AnyTable | None, list[str]]:
    """A table of these keys, or a line for each wrong one, its name after `prefix`."""
    try:
        return kind.model_validate(nested(raw)), []
    except ValidationError as error:
        wrong = dict.fromkeys(_key(one["loc"], known) for one in error.errors())
        return None, [
            f"{prefix}{key} = {raw.get(key)!r}: allowed is {allowed(known[key])}" for key in wrong
        ]


def _key(location: Sequence[int | str], known: Mapping[str, Any]) -> str:
    """The key that an error is at; where several types are allowed the location names one of them
    too."""
    key = ".".join(map(str, location))
    return key if key in known else _key(location[:-1], known)


def fields(kind: type[RunConfig] = RunConfig) -> Iterator[tuple[str, FieldInfo]]:
    """Every dotted key of such a configuration, with its type, range, default and description, in
    the model's order."""
    for name, field in kind.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Table):
            for inner, inner_field in _fields_of(field.annotation):
                yield f"{kebab(name)}.{inner}", inner_field
        else:
            yield kebab(name), field


def all_fields() -> Iterator[tuple[str, FieldInfo]]:
    """All keys of all methods; imports every method's file."""
    yield from fields()
    for table in (*DEFAULTS, *brought_tables()):
        if table not in RunConfig.model_fields:
            for inner, field in _fields_of(table_of(table)):
                yield f"{table}.{inner}", field


def _fields_of(table: type[Table]) -> Iterator[tuple[str, FieldInfo]]:
    return ((kebab(name), field) for name, field in table.model_fields.items())


def allowed(field: FieldInfo) -> str:
    """A field's type and range in words."""
    annotation = value_type(field)
    is_chosen = field.default is None
    if forms := [item.words for item in field.metadata if isinstance(item, Form)]:
        return " and ".join(forms)
    if get_origin(annotation) is Literal:
        values = [AUTO, *get_args(annotation)] if is_chosen else get_args(annotation)
        choices = [f'"{one}"' if isinstance(one, str) else str(one) for one in values]
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
    either = f'"{AUTO}" or ' if is_chosen and annotation is not str else ""
    return either + " ".join([words[annotation], " and ".join(bounds)]).strip()
