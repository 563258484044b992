"""The tables of the run configuration: the keys of one method or part each."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints


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


class FlatLand(Table):
    """Keys of FlatLand and its ablations."""

    curvature_init: Literal["forman", "ollivier", "mlp", "constant"] = Field(
        default="forman",
        description="where a client's curvature starts, where the method tailors it: at the mean Forman-Ricci or "
        "Ollivier-Ricci curvature of its edges, standardised over the clients; or at -1 for all, with mlp led away from "
        "there by a small personal network on statistics of the graph",
    )
    curvature_map: Literal["sigmoid", "exp"] = Field(
        default="sigmoid",
        description="from the trained scalar k to the squared radius K, of which -1/K is the curvature: sigmoid(k) + 0.5 "
        "as published, or exp(3 tanh 10k), from 1/20 to 20 and quick to move",
    )
    triangles: bool = Field(
        default=True, description="count triangles in the Forman-Ricci curvature (the augmented form)"
    )
    gate: bool = Field(
        default=True, description="mix a high-pass of the neighbourhood into every layer by a learned gate"
    )
    proximal: Rate = Field(
        default=0.01,
        ge=0,
        description="coefficient of the proximal term on the shared parameters; its gradient is 0 in the first local "
        "step, so it matters from two local steps on",
    )
