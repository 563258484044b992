"""The rows of the robust aggregations, with their keys."""

from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import Method


class Robust(Table):
    """Keys of the robust aggregations."""

    share: Rate = Field(default=0.25, ge=0, lt=0.5)
    """share of the clients that may send false updates: trimmed-mean leaves out this share of the
    weight at either end of each parameter, krum this share of the clients; median, geometric-median
    and near-mean stand up to half of the weight"""


_RULES = "curvfed.extensions.robust.rules"

MEDIAN = Method("the weighted median of each parameter", "flat", server=f"{_RULES}:Median")
TRIMMED_MEAN = Method(
    "the mean of each parameter without the smallest and the largest values",
    "flat",
    server=f"{_RULES}:TrimmedMean",
    keys={"robust": Robust},
)
KRUM = Method(
    "the average of the updates that are closest to their nearest neighbours",
    "flat",
    server=f"{_RULES}:Krum",
    keys={"robust": Robust},
)
GEOMETRIC_MEDIAN = Method(
    "the smoothed geometric median of the updates", "flat", server=f"{_RULES}:GeometricMedian"
)
NEAR_MEAN = Method(
    "the mean of the updates near the geometric median", "flat", server=f"{_RULES}:NearMean"
)


def choose(method: Method) -> str:
    """The name of the aggregation that `robust` stands for with a method."""
    # Of parameters that only a part of the network shares, the clients' updates differ most.
    return "median" if method.personal else "near-mean"
