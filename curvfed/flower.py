"""Our aggregations as strategies of Flower, for any Flower app, whose ClientApps need not know
curvfed.

>>> from curvfed.flower import ConsistentAggregation, SplitAggregation, strategy
>>> consistent = ConsistentAggregation(radius=0.2, min_train_nodes=2)
>>> split = SplitAggregation(personal=("head.*", "*.time"))
>>> normalised = strategy("fednova", momentum=0.9, fraction_evaluate=0.5)

and in the ServerApp `result = consistent.start(grid=grid,
initial_arrays=ArrayRecord(model.state_dict()), num_rounds=10)`.
"""

import inspect
import math
from collections.abc import Sequence
from typing import Any

from flwr.serverapp.strategy import FedAvg

from curvfed.aggregation_strategy import AggregationStrategy
from curvfed.strategies.base.aggregation import Average
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.keys import kebab
from curvfed.strategies.config.build_method import new_aggregation
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.run_config import resolve_defaults
from curvfed.strategies.methods import METHODS
from curvfed.strategies.methods.hyperfed import Consistent
from curvfed.tasks.errors import did_you_mean

__all__ = ["AggregationStrategy", "ConsistentAggregation", "SplitAggregation", "strategy"]


class ConsistentAggregation(AggregationStrategy):
    """HyperFed's consistent aggregation (Liao et al., IJCAI 2023): weights for which the clients'
    deviations agree most.

    Parameters
    ----------
    radius : float
        The largest difference between a client's weight and its share of the examples, times the
        number of clients; with 0 it is the average.
    deviations : str
        "unit": weights are chosen for deviations of unit length, as in the authors' code; "raw": as
        in the paper.
    **settings
        `personal`, `weights`, `min_replies` and the arguments of FedAvg.

    Examples
    --------
    >>> ConsistentAggregation(radius=0.5, fraction_train=0.5, min_available_nodes=4).radius
    0.5
    """

    def __init__(self, radius: float = 0.2, deviations: str = "unit", **settings: Any) -> None:
        if not (0 <= radius < math.inf and deviations in ("unit", "raw")):
            raise ConfigError(
                f'radius = {radius} and deviations = "{deviations}": allowed are a number >= 0, and'
                ' "unit" or "raw"'
            )
        self.radius = radius
        self.deviations = deviations
        super().__init__(lambda arrays, clients: Consistent(arrays, radius, deviations), **settings)


class SplitAggregation(AggregationStrategy):
    """FlatLand's split: some parameters are averaged by examples, the others never leave the
    clients.

    Parameters
    ----------
    personal : sequence of str
        Patterns of the names of those that stay, as in `fnmatch`.
    **settings
        `weights`, `min_replies` and the arguments of FedAvg.

    Examples
    --------
    >>> SplitAggregation(personal=("*.time", "head.*")).personal
    ('*.time', 'head.*')
    """

    def __init__(self, personal: Sequence[str], **settings: Any) -> None:
        super().__init__(lambda arrays, clients: Average(arrays), personal=personal, **settings)


def strategy(
    name: str, personal: Sequence[str] | None = None, min_replies: int = 1, **keys: Any
) -> AggregationStrategy:
    """The server's half of one of our methods.

    Parameters
    ----------
    name : str
        The name of a method, such as "fednova" or "scaffold", or of its aggregation.
    personal : sequence of str, optional
        As in `SplitAggregation`; default: those of the method.
    min_replies : int
        As in `AggregationStrategy`.
    **keys
        The method's keys (docs/configuration.md) without the name of their table, keys of every
        run, and the arguments of FedAvg, which take precedence.

    Raises
    ------
    ConfigError
        If there is no such method, key or value, or for a `precision` below float32.

    Notes
    -----
    Clients of "fednova" send the number of their steps as the metric `num-steps`. Clients of
    "scaffold", "apple", "fedmtl", "fedgta" and "fedsage+" receive or send more than parameters, and
    have to know the protocol.

    Examples
    --------
    >>> strategy("fedopt", optimizer="adam", learning_rate=0.01, fraction_train=0.5).fraction_train
    0.5
    """
    method = (
        name
        if name in METHODS
        else next((key for key, row in METHODS.items() if row.aggregation == name), "")
    )
    if not method or METHODS[method].is_one_shot:
        rounds = [key for key, row in METHODS.items() if not row.is_one_shot]
        hint = did_you_mean(name, rounds, "`curvfed methods`")
        raise ConfigError(
            f'strategy("{name}"): no method of rounds, nor an aggregation of one{hint}'
        )
    arguments = inspect.signature(FedAvg).parameters
    sampling = {key: value for key, value in keys.items() if key in arguments}
    own = {
        name: f"{table}.{kebab(name)}"
        for table, part in METHODS[method].keys.items()
        for name in part.model_fields
    }
    raw: dict[str, Any] = {"method": method}
    for key in keys.keys() - sampling.keys():
        raw[own.get(key, kebab(key))] = keys[key]
    config = resolve_defaults(parse(raw), METHODS[method].tasks[0])
    if config.wire_precision != "float32":
        raise ConfigError(
            f'wire-precision = "{config.wire_precision}": allowed here is "float32", for the app'
            " encodes its own messages"
        )
    patterns = METHODS[method].personal if personal is None else personal
    return AggregationStrategy(
        lambda arrays, clients: new_aggregation(arrays, config, clients),
        patterns,
        config.weights,
        min_replies,
        **sampling,
    )
