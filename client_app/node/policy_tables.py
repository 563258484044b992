"""The tables of a node's `policy.toml`: [data], [runs], [leaves], [sums] and [privacy]."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, Field

from curvfed.strategies.base.keys import Rate, Scalar, Table
from curvfed.strategies.config.run_config import defaults

Item = TypeVar("Item")
Listed = Annotated[tuple[Item, ...], Field(strict=False)]  # TOML has lists, not tuples
Share = Annotated[float, Field(ge=0, le=1)]
Digest = Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]

INSTALLED: Final = "installed"
ANY: Final = "any"
DIGESTS = 'a list of digests, "sha256:" and 64 hexadecimal digits,'


class Range(Table):
    """The allowed values of a run's key, from `min` to `max`."""

    min: Rate | None = None
    max: Rate | None = None


def _check_keys(keys: Mapping[str, Any]) -> Mapping[str, Any]:
    if unknown := [key for key in keys if key not in defaults()]:
        raise ValueError(f"no run has a key {unknown[0]}")
    return keys


class Data(Table):
    """[data]: the data that the node gives to a run, and how it reads them."""

    path: str | None = Field(
        default=None, pattern="^[/~]", description="an absolute path in quotes"
    )
    label_key: str | None = Field(default=None, description="a name in quotes")
    embedding_key: str | None = Field(default=None, description="a name in quotes")
    classes: Listed[str] | None = Field(default=None, description="a list of names")
    curvature: Rate | None = Field(default=None, lt=0, description="a number below 0")
    split_seed: int | None = Field(
        default=None, ge=0, lt=2**31, description="a whole number, 0 or more"
    )
    public: Listed[str] | None = Field(
        default=None, description="a list of names of public data sets"
    )


class Runs(Table):
    """[runs]: the runs that the node takes part in, the code that it runs for them, and its action
    after losing personal parameters."""

    methods: Listed[str] | None = Field(default=None, description="a list of names of methods")
    keys: Annotated[dict[str, Listed[Scalar] | Range], AfterValidator(_check_keys)] = Field(
        default={},
        description='"key of a run" = a list of its allowed values, or { min = …, max = … }',
    )
    lost_state: Literal["refuse", "previous", "fresh"] | None = Field(
        default=None, description='"refuse", "previous" or "fresh"'
    )
    code: Literal["installed", "any"] | Listed[Digest] = Field(
        default=INSTALLED, description=f'"installed", "any", or {DIGESTS} of bundles'
    )
    starts: Literal["any"] | Listed[Digest] = Field(
        default=(), description=f'"any", or {DIGESTS} of starting parameters'
    )


class Leaves(Table):
    """[leaves]: what may leave the node."""

    secure_sum: bool = Field(default=False, description="true or false")
    share_statistics: bool | None = Field(default=None, description="true or false")
    hull_max_share: Share = Field(default=1.0, description="a share from 0 to 1")
    hull_min_class_size: int | None = Field(
        default=None, ge=1, description="a whole number, 1 or more"
    )


class Sums(Table):
    """[sums]: the secure sums that the node takes part in, and how often its group may change."""

    contributors: int = Field(default=3, ge=2, description="a whole number, 2 or more")
    weight_share: float = Field(default=0.5, gt=0, le=1, description="a share above 0, up to 1")
    others_examples: int = Field(default=10, ge=0, description="a whole number, 0 or more")
    regroups_per_quarter: int = Field(default=1, ge=0, description="a whole number, 0 or more")


class Privacy(Table):
    """[privacy]: the budget of differential privacy, of all runs together."""

    max_epsilon: Rate | None = Field(default=None, gt=0, description="a number above 0")
    delta: float = Field(default=1e-5, gt=0, lt=0.1, description="a number above 0 and below 0.1")
