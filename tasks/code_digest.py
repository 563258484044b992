"""A digest of the code of a network, by which a run recognises it."""

import dis
import hashlib
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from curvfed.tasks import plugins

SCALARS = (bool, int, float, str, type(None))
"""Types of constants that are part of the code."""

GENERATED = ("__doc__", "__module__", "__qualname__", "__firstlineno__")
"""Attributes of a class that say nothing about what it computes."""


def model_digest(name: str | None) -> str:
    """The digest of the code of a `model` of another package or of the caller's program; "" for a
    model of curvfed's.

    Raises
    ------
    DataError
        If the factory cannot be imported.
    """
    if name is None or not plugins.is_model(name):
        return ""
    return code_digest(plugins.factory_of(name))


def differs(stored: str, digest: str) -> bool:
    """Whether two digests are of different code; those of two versions of Python are not
    compared."""
    is_comparable = stored.partition(":")[0] == digest.partition(":")[0]
    return is_comparable and stored != digest


def code_digest(factory: Callable[..., Any]) -> str:
    """The version of Python, and a digest of a factory's code and of the functions, classes and
    constants of its own package that this code names.

    Comments, docstrings and the places of lines do not count.

    Examples
    --------
    >>> def double(x):
    ...     return x + x
    >>> def negative(x):
    ...     return x - x
    >>> code_digest(double) == code_digest(double), code_digest(double) == code_digest(negative)
    (True, False)
    """
    while isinstance(factory, partial):
        factory = factory.func
    package = _package(factory)
    texts: dict[int, str] = {}
    waiting: list[Any] = [factory]
    while waiting:
        value = waiting.pop()
        if id(value) in texts or _package(value) != package:
            continue
        parts = list(_class_parts(value) if isinstance(value, type) else _function_parts(value))
        texts[id(value)] = "\n".join(_text(part) for part in parts)
        waiting += [part for _, part in parts if isinstance(part, type | FunctionType)]
    content = "\n\n".join(sorted(texts.values())).encode(errors="backslashreplace")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return f"{version}:{hashlib.sha256(content).hexdigest()[:32]}"


def _package(value: Any) -> str:
    return str(getattr(value, "__module__", "")).partition(".")[0]


def _text(part: tuple[str, Any]) -> str:
    """A name and its value; classes and functions have texts of their own."""
    name, value = part
    if isinstance(value, type | FunctionType):
        return f"{name} = {value.__module__}.{value.__qualname__}"
    return f"{name} = {value!r}"


def _class_parts(cls: type) -> Iterator[tuple[str, Any]]:
    """The bases of a class and its attributes, by name."""
    for base in cls.__bases__:
        yield "base", base
    for name, attribute in vars(cls).items():
        if name not in GENERATED:
            for function in _functions_of(attribute):
                yield name, function


def _functions_of(attribute: Any) -> Iterable[Any]:
    """The functions of a method or property; the value of a constant."""
    if isinstance(attribute, property):
        return [part for part in (attribute.fget, attribute.fset) if part is not None]
    attribute = getattr(attribute, "__func__", attribute)
    return [attribute] if isinstance(attribute, (type, FunctionType, *SCALARS)) else []


def _function_parts(function: Any) -> Iterator[tuple[str, Any]]:
    """The code of a function, its defaults, and what it names outside of it."""
    if not isinstance(function, FunctionType):  # of C, or a callable object
        yield "name", getattr(function, "__qualname__", type(function).__qualname__)
        return
    code = function.__code__
    yield "code", _code_text(code, function.__doc__)
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    yield "defaults", _constants(defaults)
    named: dict[str, Any] = dict(inspect.getclosurevars(function).nonlocals)
    named |= {name: function.__globals__.get(name) for name in _global_names(code)}
    for name, value in sorted(named.items()):
        part = value.func if isinstance(value, partial) else value
        if isinstance(part, (type, FunctionType, *SCALARS)):
            yield name, part


def _global_names(code: CodeType) -> set[str]:
    """The global names that a code and those within it read, and do not set, as a counter."""
    names: dict[str, set[str]] = defaultdict(set)
    for instruction in dis.get_instructions(code):
        names[instruction.opname].add(str(instruction.argval))
    read = names["LOAD_GLOBAL"] | names["LOAD_NAME"]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            read |= _global_names(constant)
    return read - names["STORE_GLOBAL"]


def _code_text(code: CodeType, docstring: str | None = None) -> str:
    constants = _constants(value for value in code.co_consts if value != docstring)
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {constants}"


def _constants(values: Iterable[Any]) -> list[str]:
    """Constants as texts that are equal in every process."""
    texts = []
    for value in values:
        if isinstance(value, CodeType):
            texts.append(_code_text(value))
        elif isinstance(value, frozenset):
            texts.append(str(sorted(map(repr, value))))
        elif isinstance(value, (tuple, *SCALARS)):
            texts.append(repr(value))
    return texts
