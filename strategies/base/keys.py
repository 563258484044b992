"""Keys: tables of keys with defaults and allowed values, by pydantic, and the dotted form of nested
keys."""

import contextlib
import math
import re
import shlex
import tomllib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, model_validator
from pydantic.fields import FieldInfo

from curvfed.tasks.class_names import row_of

EXTRA = "extra"
"""The key with further keys in its value."""

Scalar = bool | int | float | str


def toml_text(data: bytes) -> str:
    """The text of a TOML file, without the byte-order mark and the line ends that Notepad and
    PowerShell write.

    Raises
    ------
    UnicodeDecodeError
        If it is neither UTF-8 nor UTF-16 with a byte-order mark.
    """
    is_utf_16 = data.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    return data.decode("utf-16" if is_utf_16 else "utf-8-sig").replace("\r\n", "\n")


def dotted(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} -> {"a.b": 1}, as Flower flattens a run config."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= (
            dotted(value, f"{prefix}{key}.")
            if isinstance(value, Mapping)
            else {prefix + key: value}
        )
    return flat


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """{"a.b": 1} -> {"a": {"b": 1}}, the inverse of `dotted`."""
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        *tables, name = key.split(".")
        inner = tree
        for table in tables:
            inner = inner.setdefault(table, {})
        inner[name] = value
    return tree


def python_value(value: Any, default: Any) -> Any:
    """A value from Python or TOML in the form of a key: NumPy's numbers as Python's, and a list of
    names as text.

    A list holds names if the default is a string; any other list is returned, and refused later.
    """
    value = value.tolist() if hasattr(value, "tolist") else value
    is_of_names = isinstance(value, list | tuple) and isinstance(default, str)
    return row_of(value) if is_of_names else value


def read_value(text: str, default: Scalar) -> Scalar:
    """Read a value as TOML, or as plain text if it is not TOML or if the default is a string.

    `.5` is a number here, unlike in TOML. A list is text, as `python_value` writes it.
    """
    try:
        table = tomllib.loads("value = " + re.sub(r"^([+-]?)\.(?=\d)", r"\g<1>0.", text))
    except tomllib.TOMLDecodeError:
        return text
    value = python_value(table["value"], default)
    if (
        len(table) > 1
        or not isinstance(value, Scalar)
        or (isinstance(default, str) and not isinstance(value, str))
    ):
        return text
    return value


def expand_extra(raw: Mapping[str, Any], defaults: Mapping[str, Scalar]) -> dict[str, Any]:
    """The keys with `extra` replaced by the keys in its value, `key=value key=value`.

    Flower passes every key, whether the user gave it or not; a key with its default value counts as
    not given.

    Raises
    ------
    ValueError
        If `extra` has another form, or gives a key a second, different value; the text states the
        allowed form.
    """
    if not isinstance(raw.get(EXTRA, ""), str):
        return dict(raw)  # refused later, like any key of a wrong type
    extra_values: dict[str, Scalar] = {}
    for word in shlex.split(raw.get(EXTRA, "")):
        key, equals, text = word.partition("=")
        value = read_value(text, defaults.get(key, ""))
        if not equals or key == EXTRA:
            raise ValueError(f"{word!r}; allowed is key=value, separated by spaces")
        if extra_values.get(key, value) != value or raw.get(key, value) not in (
            value,
            defaults.get(key),
        ):
            raise ValueError(
                f"{word!r}, and {key} = {extra_values.get(key, raw.get(key))!r} is given too;"
                " allowed is one of them"
            )
        extra_values[key] = value
    return {key: value for key, value in raw.items() if key != EXTRA} | extra_values


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be finite")
    return value


def kebab(name: str) -> str:
    """A field's name as a key."""
    return name.replace("_", "-")


def server_name(class_name: str) -> str:
    """The name of an aggregation in the key `aggregation`, by that of its class.

    Examples
    --------
    >>> server_name("FedNovaServer")
    'fednova'
    """
    return class_name.lower().removesuffix("server") or "server"


Rate = Annotated[float, AfterValidator(_finite)]


AUTO = "auto"
"""The value that leaves the choice to the run."""

CHOSEN: Any = None
"""The default of a field that the task or the method chooses:
`curvfed.strategies.config.run_config.resolve_defaults` replaces the None."""


def value_type(field: FieldInfo) -> Any:
    """The type of a field's values: `int` for a field of `int | None`."""
    if get_origin(field.annotation) not in (Union, UnionType):
        return field.annotation
    kind = next(kind for kind in get_args(field.annotation) if kind is not NoneType)
    if get_origin(kind) is Annotated:
        return get_args(kind)[0]
    return kind


@dataclass(frozen=True)
class Form(StringConstraints):
    """The form of a string: a pattern for validation, and `words` that describe the pattern."""

    words: str = ""


@dataclass(frozen=True)
class OfExtensions:
    """Extensions add values to the key by these groups; an error about a wrong value names the
    absent extensions."""

    groups: tuple[str, ...]


class Table(BaseModel):
    """A frozen table of keys, written in kebab case. It refuses unknown keys and values of another
    type.

    Attributes
    ----------
    resumable : tuple of str
        Fields that may change when a run is resumed.
    of_data : tuple of str
        Fields that set the data: scores of runs that differ in one are not compared.
    shared : tuple of str, optional
        Fields that runs of methods without this table read too; None for all.
    retired : tuple of (str, value)
        Written names of keys that became constants, each with the constant: the settings of a run
        of an earlier version may have them.
    """

    resumable: ClassVar[tuple[str, ...]] = ()
    of_data: ClassVar[tuple[str, ...]] = ()
    shared: ClassVar[tuple[str, ...] | None] = None
    retired: ClassVar[tuple[tuple[str, Scalar], ...]] = ()

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=kebab,
        populate_by_name=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Write the fields' docstrings, which are the keys' descriptions, in a line each."""
        for field in cls.model_fields.values():
            if field.description:
                field.description = " ".join(field.description.split())

    @model_validator(mode="before")
    @classmethod
    def _leave_open(cls, raw: Any) -> Any:
        """Remove values that are "auto", and parse numbers from text.

        Flower and the command line pass every value of a key as text if its default is text, as
        "auto" is.
        """
        if not isinstance(raw, dict):
            return raw
        values = dict(raw)
        for name, field in cls.model_fields.items():
            if field.default is not None:
                continue
            for key in {name, kebab(name)} & values.keys():
                value = values[key]
                if value in (AUTO, None):
                    del values[key]
                elif isinstance(value, str) and value_type(field) is not str:
                    with contextlib.suppress(ValueError):
                        values[key] = int(value) if value.isdecimal() else float(value)
        return values

    def proximal_terms(self) -> dict[str, float]:
        """By field, the coefficient of ||w - w_t||^2 in the local objective, where w_t are the
        shared parameters received. Every `Learner` adds these terms; the gradient is 0 in the first
        local step of a round."""
        return {}

    def conflicts(self, config: Any) -> Iterable[tuple[str, str]]:
        """The keys that contradict each other or keys of the run, separated by spaces, and the
        allowed values."""
        return ()

    def chosen(self) -> Mapping[str, Scalar]:
        """By key, the values in place of auto that other keys of this table decide."""
        return {}

    def idle(self) -> tuple[str, ...]:
        """The fields without effect, given the values of others."""
        return ()

    def rounds_set(self, num_rounds: int) -> int:
        """A number of first rounds that depends on the number of rounds, 0 for none; resuming a run
        with another number of rounds must not change it."""
        return 0


def default_values(keys: type[Table]) -> dict[str, Scalar]:
    """The defaults of a table's keys by their written names; None, not given, is "auto"."""
    return {
        kebab(name): AUTO if field.default is None else field.default
        for name, field in keys.model_fields.items()
    }
