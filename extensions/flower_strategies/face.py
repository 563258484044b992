"""The public names of `curvfed.flower`."""

import inspect
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from flwr.serverapp.strategy import FedAvg

from curvfed.extensions.flower_strategies.aggregation_strategy import AggregationStrategy
from curvfed.strategies.base.aggregation import Average
from curvfed.strategies.base.keys import kebab
from curvfed.strategies.base.method import ONE_SHOT
from curvfed.strategies.config.build_method import new_aggregation
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import METHODS
from curvfed.strategies.methods.hyperfed import Consistent, Keys
from curvfed.tasks import plugins
from curvfed.tasks.errors import did_you_mean

__all__ = ["AggregationStrategy", "ConsistentAggregation", "SplitAggregation", "strategy"]


class ConsistentAggregation(AggregationStrategy):
    """HyperFed's consistent aggregation (Liao et al., IJCAI 2023): weights of maximum agreement of
    the clients' deviations.

    Parameters
    ----------
    radius : float
        The maximum difference between a client's weight and its share of the examples, times the
        number of clients; 0 gives the average.
    deviations : str
        "unit": the weights are chosen for deviations of unit length, as in the authors' code;
        "raw": for the deviations themselves, as in the paper.
    **settings
        `personal`, `weights`, `min_replies` and the arguments of FedAvg.

    Examples
    --------
    >>> ConsistentAggregation(radius=0.5, fraction_train=0.5, min_available_nodes=4).radius
    0.5
    """

    def __init__(
        self, radius: float = 0.2, deviations: Literal["unit", "raw"] = "unit", **settings: Any
    ) -> None:
        if not (0 <= radius < math.inf and deviations in ("unit", "raw")):
            raise ConfigError(
                f'radius = {radius} and deviations = "{deviations}": allowed are a number >= 0, and'
                ' "unit" or "raw"',
                key="hyperparameter",
            )
        self.radius = radius
        self.deviations = deviations
        keys = Keys(radius=radius, deviations=deviations)
        super().__init__(partial(Consistent, keys=keys), **settings)


class SplitAggregation(AggregationStrategy):
    """FlatLand's split: personal parameters stay at the clients, the others are averaged by
    examples.

    Parameters
    ----------
    personal : sequence of str
        Patterns of the names of the personal parameters, as in `fnmatch`.
    **settings
        `weights`, `min_replies` and the arguments of FedAvg.

    Examples
    --------
    >>> SplitAggregation(personal=("*.time", "head.*")).personal
    ('*.time', 'head.*')
    """

    def __init__(self, personal: Sequence[str], **settings: Any) -> None:
        super().__init__(Average, personal=personal, **settings)


def strategy(
    name: str, personal: Sequence[str] | None = None, min_replies: int = 1, **keys: Any
) -> AggregationStrategy:
    """The server half of a method of curvfed.

    Parameters
    ----------
    name : str
        The name of a method, such as "fednova" or "scaffold", or of its aggregation.
    personal : sequence of str, optional
        As in `SplitAggregation`; default: the method's.
    min_replies : int
        As in `AggregationStrategy`.
    **keys
        The method's keys (docs/configuration.md) without the name of their table, common keys of
        runs, and the arguments of FedAvg, which take precedence.

    Raises
    ------
    ConfigError
        If the method, a key or a value is invalid, or for a `precision` below float32.

    Notes
    -----
    Clients of "fednova" send the number of their steps as the metric `num-steps`. Clients of
    "scaffold", "apple", "fedmtl", "fedgta" and "fedsage+" receive or send more than parameters, and
    must implement the protocol.

    Examples
    --------
    >>> strategy("fedopt", optimizer="adam", learning_rate=0.01, fraction_train=0.5).fraction_train
    0.5
    """
    method = name
    if name not in METHODS:
        method = next((key for key, row in METHODS.items() if row.aggregation == name), "")
    if not method or METHODS[method].aggregation == ONE_SHOT:
        names = [key for key, row in METHODS.items() if row.aggregation != ONE_SHOT]
        hint = did_you_mean(name, names, plugins.lister("methods"))
        raise ConfigError(
            f'strategy("{name}"): no method of rounds, nor an aggregation of one{hint}',
            key="method",
        )
    arguments = inspect.signature(FedAvg).parameters
    sampling = {key: value for key, value in keys.items() if key in arguments}
    dotted = {
        name: f"{table_name}.{kebab(name)}"
        for table_name, table in METHODS[method].keys.items()
        for name in table.model_fields
    }
    raw: dict[str, Any] = {"method": method}
    for key in keys.keys() - sampling.keys():
        raw[dotted.get(key, kebab(key))] = keys[key]
    config = resolve_defaults(parse(raw), METHODS[method].tasks[0])
    if config.wire_precision != "float32":
        raise ConfigError(
            f'wire-precision = "{config.wire_precision}": allowed here is "float32", for the app'
            " encodes its own messages",
            key="wire-precision",
        )
    patterns = METHODS[method].personal if personal is None else personal
    return AggregationStrategy(
        partial(new_aggregation, config=config),
        patterns,
        config.weights,
        min_replies,
        **sampling,
    )
