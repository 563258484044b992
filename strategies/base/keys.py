"""The tables of the run configuration: the keys of one method or part each."""

import math
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("must be finite")
    return value


def kebab(name: str) -> str:
    """A field's name as a key."""
    return name.replace("_", "-")


Rate = Annotated[float, AfterValidator(_finite)]


@dataclass(frozen=True)
class Form(StringConstraints):
    """What a string must be like: a pattern for the program, and `words` for readers."""

    words: str = ""


class Table(BaseModel):
    """A frozen table of keys, in kebab case outside; a key of another name or a value of another type is refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=kebab,
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    def conflict(self) -> str:
        """Which of the keys do not fit together, with their values and what is allowed; "" where all do."""
        return ""
