"""Reading Flower's records: what is absent or of another type is a `MessageError`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from curvfed.strategies.wire.arrays import MessageError

R = TypeVar("R", ArrayRecord, ConfigRecord, MetricRecord)
T = TypeVar("T")

_LISTS: Mapping[Any, tuple[type, str]] = {
    tuple[str, ...]: (str, "strings"),
    tuple[int, ...]: (int, "whole numbers"),
}


def config_of(content: RecordDict, key: str) -> ConfigRecord:
    """A record of settings, which must be there."""
    found = record_of(content, key, ConfigRecord)
    if found is None:
        raise MessageError(f'the record "{key}" is absent')
    return found


def record_of(content: RecordDict, key: str, kind: type[R]) -> R | None:
    """A record of the given kind, or None.

    Not by way of `content.array_records` and the like: those views and the RecordDict refer to each other, which would
    keep every message of a round in memory until the next full garbage collection.
    """
    found = content.get(key)
    return found if isinstance(found, kind) else None


def entry(record: Mapping[str, Any], key: str, kind: type) -> Any:
    """An entry of a record, of exactly this type."""
    value = record.get(key)
    if type(value) is not kind:
        raise MessageError(f'"{key}" is {type(value).__name__}, expected {kind.__name__}')
    return value


def build(kind: type[T], record: Mapping[str, Any]) -> T:
    """A dataclass from the keys of a record, types checked."""
    values: dict[str, Any] = {}
    for item in fields(kind):  # type: ignore[arg-type]
        value = record.get(item.name)
        if item.type in _LISTS:
            kind_of_each, words = _LISTS[item.type]
            if not isinstance(value, list | tuple) or not all(type(one) is kind_of_each for one in value):
                raise MessageError(f'"{item.name}" is no list of {words}')
            values[item.name] = tuple(value)
        elif item.type in (bool, int, float, str):
            values[item.name] = entry(record, item.name, item.type)
        else:
            values[item.name] = value
    return kind(**values)


def lists(values: Mapping[str, Any]) -> dict[str, Any]:
    """Tuples as lists, the only sequence that Flower's records take, and JSON."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """Inverse of `lists`."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
