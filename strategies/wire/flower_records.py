"""Reading of Flower's records; a missing entry or an entry of another type is a `MessageError`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from curvfed.strategies.wire.checks import MessageError

R = TypeVar("R", ArrayRecord, ConfigRecord, MetricRecord)
T = TypeVar("T")

_LISTS: Mapping[Any, tuple[type, str]] = {
    tuple[str, ...]: (str, "strings"),
    tuple[int, ...]: (int, "whole numbers"),
}


def config_of(content: RecordDict, key: str) -> ConfigRecord:
    """The ConfigRecord of this name, which is required."""
    record = record_of(content, key, ConfigRecord)
    if record is None:
        raise MessageError(f'the record "{key}" is missing', key="missing-record")
    return record


def record_of(content: RecordDict, key: str, kind: type[R]) -> R | None:
    """The record of this name and kind, or None.

    `content.array_records` and the like are not used: these views and the RecordDict refer to each
    other, which would keep every message of a round in memory until the next full garbage
    collection.
    """
    record = content.get(key)
    return record if isinstance(record, kind) else None


def entry(record: Mapping[str, Any], key: str, kind: type) -> Any:
    """An entry of a record, which must have exactly this type."""
    value = record.get(key)
    if type(value) is not kind:
        raise MessageError(
            f'"{key}" is {type(value).__name__}, expected {kind.__name__}', key="type"
        )
    return value


def build_dataclass(kind: type[T], record: Mapping[str, Any]) -> T:
    """A dataclass from the entries of a record, with checked types."""
    values: dict[str, Any] = {}
    for item in fields(kind):  # type: ignore[arg-type]
        value = record.get(item.name)
        if item.type in _LISTS:
            element_type, words = _LISTS[item.type]
            if not isinstance(value, list | tuple) or not all(
                type(element) is element_type for element in value
            ):
                raise MessageError(f'"{item.name}" is not a list of {words}', key="type")
            values[item.name] = tuple(value)
        elif item.type in (bool, int, float, str):
            values[item.name] = entry(record, item.name, item.type)
        else:
            values[item.name] = value
    return kind(**values)


def tuples_to_lists(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace tuples by lists, as Flower's records and JSON require."""
    return {
        key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
    }


def lists_to_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """Inverse of `tuples_to_lists`."""
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
    }
