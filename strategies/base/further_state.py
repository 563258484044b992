"""The attributes of an aggregation that its `state` does not store, as named arrays: a subclass may
keep a momentum or a counter and inherit `state` from a class that knows neither."""

import contextlib
import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from curvfed.geometry.arrays import Array
from curvfed.strategies.base.aggregation import Aggregation, AggregationError
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.wire.store import DTYPES

FURTHER = "further/"
"""Beginning of the names of these arrays."""

_OUTLINE = f"{FURTHER}outline"

_PLAIN = (bool, int, float, str, type(None))


REPORTS = {"figures", "round_figures", "weights"}
"""Attributes of an aggregation for its figures: of the run, which every checkpoint has, and of the
last round."""


def whole_state(server: Aggregation) -> Arrays:
    """The `state` of an aggregation, its figures of the run, and its attributes if its class
    inherits `state`; for checkpoints."""
    attributes = further_attributes(server)
    if server.figures:
        attributes["figures"] = server.figures
    if not attributes:
        return server.state()
    return server.state() | packed(attributes)


def resume(server: Aggregation, stored: Arrays) -> None:
    """Inverse of `whole_state`.

    Raises
    ------
    AggregationError
        If an attribute could not be stored.
    """
    server.load({name: array for name, array in stored.items() if not name.startswith(FURTHER)})
    attributes, missing = unpacked(stored)
    if missing:
        raise AggregationError(
            f"{type(server).__name__} keeps {', '.join(missing)}, which its inherited state()"
            " does not store; allowed are a state() and load() of its own, or attributes of"
            " arrays, numbers, texts, and lists and dictionaries of these",
            key="not-stored",
        )
    vars(server).update(attributes)


def further_attributes(server: Any) -> dict[str, Any]:
    """The attributes that a subclass has beside those of the class with its `state`; empty if it
    has a `state` of its own."""
    kind = type(server)
    owner = next(base for base in kind.__mro__ if "state" in vars(base))
    if owner is kind:
        return {}
    known = REPORTS.union(_attributes_of(owner, server))
    return {name: value for name, value in vars(server).items() if name not in known}


def _attributes_of(owner: Any, server: Any) -> Collection[str]:
    """The names of the attributes that a class sets up in a server of a subclass.

    If it cannot set them up, because its `begin` needs those of the subclass, the names that every
    aggregation has: its attributes then count as further ones, none of which is lost.
    """
    state = server.state()
    common = {"keys": server.keys, "config": server.config, "clients": server.clients}
    with contextlib.suppress(Exception):
        return vars(owner(state, **common)).keys()
    # Its `begin` may call methods that a subclass overrides.
    probe = object.__new__(type(server))
    vars(probe).update(common)
    with contextlib.suppress(Exception):
        owner.begin(probe, state)
        return vars(probe).keys()
    return common.keys()


def packed(attributes: Mapping[str, Any]) -> Arrays:
    """Arrays of the types that a file can store, numbers, texts, generators of NumPy, and lists and
    dictionaries of these, as named arrays; of other values only the type is stored.

    Examples
    --------
    >>> further = packed({"momentum": {"w": np.ones(2)}, "steps": 3})
    >>> unpacked(further)
    ({'momentum': {'w': array([1., 1.])}, 'steps': 3}, [])
    >>> unpacked(packed({"file": open}))
    ({}, ['file: builtin_function_or_method'])
    """
    arrays: list[Array] = []
    outline = {name: _outline(value, arrays) for name, value in attributes.items()}
    text = np.frombuffer(json.dumps(outline).encode(), np.uint8)
    named = {f"{FURTHER}{place}": array for place, array in enumerate(arrays)}
    return {_OUTLINE: text, **named}


def unpacked(arrays: Arrays) -> tuple[dict[str, Any], list[str]]:
    """Inverse of `packed`: the attributes, and those that were not stored, each with its type."""
    if _OUTLINE not in arrays:
        return {}, []
    attributes = {}
    missing = []
    for name, entry in json.loads(arrays[_OUTLINE].tobytes()).items():
        try:
            attributes[name] = _value(entry, arrays)
        except _NotStoredError as error:
            missing.append(f"{name}: {error}")
    return attributes, missing


def _outline(value: Any, arrays: list[Array]) -> list[Any]:
    """The kind of a value and its content; arrays are added to the list."""
    if type(value) is np.ndarray and value.dtype in DTYPES:
        arrays.append(value.copy())
        return ["array", len(arrays) - 1]
    if isinstance(value, np.generic) and value.dtype in DTYPES:
        arrays.append(np.asarray(value))
        return ["number", len(arrays) - 1]
    if type(value) is np.random.Generator and _is_numpys(value.bit_generator):
        return ["generator", _outline(value.bit_generator.state, arrays)]
    if isinstance(value, _PLAIN):
        return ["plain", value]
    if type(value) in (list, tuple):
        return [type(value).__name__, [_outline(item, arrays) for item in value]]
    if type(value) is dict and all(isinstance(key, str | int) for key in value):
        return ["dict", [[key, _outline(item, arrays)] for key, item in value.items()]]
    return ["unstored", type(value).__name__]


def _is_numpys(generator: np.random.BitGenerator) -> bool:
    kind = type(generator)
    return getattr(np.random, kind.__name__, None) is kind


class _NotStoredError(Exception):
    """A value of this type was not stored."""


def _value(entry: list[Any], arrays: Arrays) -> Any:
    """The value with this kind and content. Raises `_NotStoredError`."""
    kind, content = entry
    if kind == "unstored":
        raise _NotStoredError(content)
    if kind == "array":
        return arrays[f"{FURTHER}{content}"]
    if kind == "number":
        return arrays[f"{FURTHER}{content}"][()]
    if kind == "generator":
        state = _value(content, arrays)
        generator = np.random.Generator(getattr(np.random, state["bit_generator"])())
        generator.bit_generator.state = state
        return generator
    if kind == "list":
        return [_value(item, arrays) for item in content]
    if kind == "tuple":
        return tuple(_value(item, arrays) for item in content)
    if kind == "dict":
        return {key: _value(item, arrays) for key, item in content}
    return content
