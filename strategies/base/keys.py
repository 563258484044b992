"""The base class of the configuration's tables; each table holds the keys of one method or part."""

import contextlib
import math
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

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


@dataclass(frozen=True)
class ProximalTerm:
    """Says that a key's value, times `factor`, is the coefficient of ||w - w_t||^2 in the local
    objective, where w_t are the shared parameters received. Its gradient is 0 in the first local
    step of a round."""

    factor: float


Proximity = Annotated[Rate, ProximalTerm(0.5)]
"""mu of a term mu/2 ||w - w_t||^2, which every `Learner` adds by itself."""

WholeProximity = Annotated[Rate, ProximalTerm(1.0)]
"""lambda of a term lambda ||w - w_t||^2."""

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
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


@dataclass(frozen=True)
class Form(StringConstraints):
    """The form of a string: a pattern for validation, and `words` that describe the pattern."""

    words: str = ""


class Table(BaseModel):
    """A frozen table of keys, written in kebab case. It refuses unknown keys and values of another
    type.

    Attributes
    ----------
    resumable : tuple of str
        Fields that may change when a run is resumed.
    """

    resumable: ClassVar[tuple[str, ...]] = ()

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

    def proximal_coefficients(self) -> list[float]:
        """The coefficients of ||w - w_t||^2 that the keys choose."""
        return [
            getattr(self, name) * item.factor
            for name, field in type(self).model_fields.items()
            for item in field.metadata
            if isinstance(item, ProximalTerm)
        ]

    def conflict(self, run: Any) -> tuple[str, str]:
        """The keys, separated by spaces, that contradict each other or keys of the run, and what is
        allowed; ("", "") if none do."""
        return "", ""

    def rounds_set(self, num_rounds: int) -> int:
        """A number of first rounds that depends on the number of rounds, 0 for none; resuming a run
        with another number of rounds must not change it."""
        return 0
