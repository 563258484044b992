"""A digest of the code of a network, by which a run recognises it."""

import dis
import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from curvfed.strategies.errors import ConfigError
from curvfed.tasks import plugins

MODEL_CODE = "model_code"
"""Entry of `clients.json`: the digest of the code."""

SCALARS = (bool, int, float, str, bytes, type(None))
"""Types of constants that are part of the code."""

GENERATED = ("__doc__", "__module__", "__dict__", "__weakref__")
"""Attributes of a class that do not affect its computations."""

HOLDERS = (property, staticmethod, classmethod, partial)
HELD = ("fget", "fset", "__func__", "func")
"""Objects that hold functions, and the attributes with these."""


def note(model: str | None) -> dict[str, str]:
    """The digest for the run's `clients.json`; empty for a model of curvfed's.

    Raises
    ------
    DataError
        If the model cannot be imported.
    """
    digest = model_digest(model)
    return {MODEL_CODE: digest} if digest else {}


def check(stored: Mapping[str, Any], path: Path, model: str | None) -> None:
    """Refuse a run's model if its code has changed since the run began.

    Parameters
    ----------
    stored : mapping of str to value
        The run's `clients.json`.
    path : Path
        The run directory.
    model : str or None

    Raises
    ------
    ConfigError
    DataError
        If the model cannot be imported.
    """
    if MODEL_CODE in stored and differs(stored[MODEL_CODE], model_digest(model)):
        raise ConfigError(
            f'the code of model = "{model}" is another than that of the run in {path}, whose'
            " parameters belong to it; allowed is the same code",
            key="changed-model",
        )


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
    text = _text(factory, _package(factory), {}, set())
    digest = hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()
    return f"{sys.version_info.major}.{sys.version_info.minor}:{digest[:32]}"


def _package(value: Any) -> str:
    return str(getattr(value, "__module__", "")).partition(".")[0]


def _text(value: Any, package: str, names: dict[str, Any], listed: set[Any]) -> str:
    """The text of a value; `names` are the globals of its code. The parts of each class and
    function of the package are listed once."""
    if isinstance(value, SCALARS):
        return repr(value)
    if isinstance(value, frozenset):
        return str(sorted(map(repr, value)))
    text = str(getattr(value, "__qualname__", type(value).__qualname__))
    if isinstance(value, type | FunctionType):
        if value in listed or _package(value) != package:
            return text
        listed.add(value)
    names = getattr(value, "__globals__", names)
    parts = [_text(item, package, names, listed) for item in _parts(value, names)]
    return f"{text}({', '.join(parts)})"


def _parts(value: Any, names: dict[str, Any]) -> Iterable[Any]:
    """The parts of a value; empty for an object of any other kind."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, type):
        items = vars(value).items()
        return [*value.__bases__, *(item for item in items if item[0] not in GENERATED)]
    if isinstance(value, FunctionType):
        code = value.__code__
        constants = code.co_consts
        used_constants = tuple(
            None if constant == value.__doc__ else constant for constant in constants
        )
        keywords = tuple((value.__kwdefaults__ or {}).items())
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return code.replace(co_consts=used_constants), value.__defaults__, keywords, *cells
    if isinstance(value, CodeType):
        steps = {(step.opname, step.argval) for step in dis.get_instructions(value)}
        read = {name for step, name in steps if step == "LOAD_GLOBAL"}
        read -= {name for step, name in steps if step == "STORE_GLOBAL"}  # counters
        used = [names.get(name) for name in sorted(read)]
        return value.co_code, value.co_names, value.co_varnames, value.co_consts, *used
    if isinstance(value, HOLDERS):
        return [getattr(value, name) for name in HELD if hasattr(value, name)]
    return ()
