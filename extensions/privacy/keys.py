"""The keys of differential privacy."""

from typing import Any, Literal

from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.errors import ConfigError

TABLE = "dp"
"""The name of the table."""


class Privacy(Table):
    """Keys of differential privacy."""

    unit: Literal["none", "record", "client"] = "none"
    """the unit that differential privacy hides: record: each training example of a client; client:
    all data of a client. Needs dp.epsilon, and the package of pip install "curvfed[dp]"
    """
    epsilon: Rate | None = Field(default=None, gt=0, le=100)
    """the privacy loss of the whole run at most; auto: none, without dp.unit"""
    delta: Rate = Field(default=1e-5, gt=0, lt=0.1)
    """the maximum probability of a larger loss; far below 1 / number of units"""
    clip: Rate = Field(default=1.0, ge=1e-6, le=1e6)
    """maximum norm of the contribution of one unit, the gradient of an example or the update of a
    client, or the features of an example in sums; longer ones are shortened to it, and the noise is
    proportional to it"""
    clip_quantile: Rate | None = Field(default=None, gt=0, lt=1)
    """with dp.unit = client: dp.clip is only the first, and then follows this quantile of the
    lengths of the updates, at 5% of the budget; auto: dp.clip stays"""
    cell: Rate = Field(default=0.5, ge=0.05, le=4)
    """side of a cell of the noisy histogram that replaces the hulls of the method hull, in the
    tangent space at the origin at curvature -1. Larger cells stand out of the noise with fewer
    points"""
    force: bool = False
    """allow dp.unit = client with fewer than 100 clients in a sum"""

    @property
    def given_epsilon(self) -> float:
        """`epsilon` of a run with a unit. Raises ConfigError if it is missing."""
        if self.epsilon is None:
            raise ConfigError(
                f"dp.unit = {self.unit} and dp.epsilon = auto: allowed is a number for dp.epsilon",
                key="no-epsilon",
            )
        return self.epsilon


def keys_of(config: Any) -> Privacy:
    """The keys of a run, from its `RunConfig`."""
    keys: Privacy = config.table(TABLE)
    return keys
