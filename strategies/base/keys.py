"""The base class of the configuration's tables; each table holds the keys of one method or part."""

import contextlib
import math
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, model_validator
from pydantic.fields import FieldInfo


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be finite")
    return value


def kebab(name: str) -> str:
    """A field's name as a key."""
    return name.replace("_", "-")


Rate = Annotated[float, AfterValidator(_finite)]

AUTO = "auto"
"""The value by which a user lets the run choose."""

CHOSEN: Any = None
"""The default of a field that `curvfed.strategies.config.run_config.settled` fills: until then it
is None."""


def value_type(field: FieldInfo) -> Any:
    """The type of a field's values: `int` for a field of `int | None`."""
    kinds = [one for one in get_args(field.annotation) if one is not NoneType]
    if get_origin(field.annotation) not in (Union, UnionType):
        return field.annotation
    return get_args(kinds[0])[0] if get_origin(kinds[0]) is Annotated else kinds[0]


@dataclass(frozen=True)
class Form(StringConstraints):
    """The form of a string: a pattern for validation, and `words` that describe it to the user."""

    words: str = ""


class Table(BaseModel):
    """A frozen table of keys, which users write in kebab case. Unknown keys and values of another
    type are refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=kebab,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _leave_open(cls, raw: Any) -> Any:
        """Remove values that are "auto", and parse numbers from text.

        Where the default is text, as "auto" is, Flower and the command line pass every value as
        text.
        """
        if not isinstance(raw, dict):
            return raw
        given = dict(raw)
        for name, field in cls.model_fields.items():
            for key in {name, kebab(name)} & given.keys():
                if field.default is not None:
                    continue
                if given[key] in (AUTO, None):
                    del given[key]
                elif isinstance(given[key], str) and value_type(field) is not str:
                    with contextlib.suppress(ValueError):
                        given[key] = (
                            int(given[key]) if given[key].isdecimal() else float(given[key])
                        )
        return given

    def conflict(self) -> str:
        """Which keys contradict each other, with their values and what is allowed; "" if none
        do.
        """
        return ""
