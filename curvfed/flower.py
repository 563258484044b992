"""The aggregations of curvfed as strategies of Flower, for any Flower app; its ClientApps need not
know curvfed.

>>> from curvfed.flower import ConsistentAggregation, SplitAggregation, strategy
>>> consistent = ConsistentAggregation(radius=0.2, min_train_nodes=2)
>>> split = SplitAggregation(personal=("head.*", "*.time"))
>>> normalised = strategy("fednova", momentum=0.9, fraction_evaluate=0.5)

and in the ServerApp `result = consistent.start(grid=grid,
initial_arrays=ArrayRecord(model.state_dict()), num_rounds=10)`.
"""

from typing import Any

from curvfed.tasks import plugins

NAMES = ("AggregationStrategy", "ConsistentAggregation", "SplitAggregation", "strategy")

__all__ = [*NAMES]


def __getattr__(name: str) -> Any:
    """The public names, of the module that an extension adds as `flower` to the group
    `curvfed.faces`.

    Raises
    ------
    DataError
        If no package has the module.
    """
    if name in NAMES:
        return getattr(plugins.addition("faces", "flower"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *NAMES]
