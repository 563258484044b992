"""Builds a configured method: the server's aggregation with its seeded initial model, and the
client's learner."""

import fnmatch
from collections.abc import Callable, Sequence

from curvfed.strategies.base.aggregation import Aggregation, Average
from curvfed.strategies.base.aggregation_keys import FLOWER
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import INPUT_OUTPUT_LAYERS, Method, half_class
from curvfed.strategies.base.named_arrays import named_state, rounded_names
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.config.model_spec import build_model, is_fixed, model_spec
from curvfed.strategies.config.run_config import AGGREGATION_METHODS, ROBUST_NAMES, RunConfig
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.codec import EXACT, Precision
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks import plugins


def initial_aggregation(
    config: RunConfig,
    facts: Facts,
    clients: Sequence[int],
    begin: Callable[[Arrays, frozenset[str]], Arrays] | None = None,
) -> Aggregation:
    """The aggregation before the first round, with the seeded initial model.

    Parameters
    ----------
    config : RunConfig
        With its defaults resolved.
    facts : Facts
    clients : sequence of int
        The partitions of all clients, ascending.
    begin : callable, optional
        Replaces the initial shared parameters; its arguments are these and the names of all other
        parameters.
    """
    method = config.row
    state = named_state(build_model(model_spec(config, facts), config.seed))
    shared = {
        name: tensor.numpy(force=True)
        for name, tensor in state.items()
        if not method.is_personal(name, facts.own_ends) and not is_fixed(config, name)
    }
    if begin is not None:
        shared = begin(shared, frozenset(state.keys() - shared.keys()))
    if config.model is not None and plugins.is_model(config.model):
        _check_personal(config, facts)
    aggregation = new_aggregation(shared, config, clients)
    if config.dp.clip_quantile is None:
        return aggregation
    from curvfed.strategies.privacy.adaptive_clip import AdaptiveClip

    return AdaptiveClip(aggregation, config.dp)


def new_aggregation(arrays: Arrays, config: RunConfig, clients: Sequence[int]) -> Aggregation:
    """The aggregation of a configuration with its defaults resolved.

    Parameters
    ----------
    arrays : dict of str to array
        The initial shared parameters.
    config : RunConfig
    clients : sequence of int

    Raises
    ------
    ConfigError, DataError
        If another package's server half cannot be imported or is not an Aggregation.
    """
    if config.aggregation in FLOWER:
        from curvfed.strategies.base.flower_strategy import FlowerStrategy

        return FlowerStrategy(arrays, config.flower, config, clients)
    if config.aggregation in ROBUST_NAMES:
        from curvfed.strategies.base.robust import ROBUST

        return ROBUST[config.aggregation](arrays, config.robust, config, clients)
    row = config.row
    if config.aggregation != row.aggregation:
        row = METHODS[AGGREGATION_METHODS[config.aggregation]]
    return server_class(row)(arrays, config.keys_of(row), config, clients)


def wire_precision(config: RunConfig, facts: Facts) -> Precision:
    """The precision of each array in the messages; `config` has its defaults resolved."""
    if config.wire_precision == "float32":
        return EXACT
    model = build_model(model_spec(config, facts), config.seed)
    return Precision(config.wire_precision, rounded_names(model))


def server_class(method: Method) -> type[Aggregation]:
    """The class of a method's server half.

    Raises
    ------
    DataError, ConfigError
        If another package's server half cannot be imported here or is not an Aggregation.
    """
    return half_class(method.server or Average, "server", Aggregation, "not-an-aggregation")  # type: ignore[type-abstract]


def learner_class(method: Method) -> type[Learner]:
    """The class of a method's client half; `Learner` itself for a method without rounds, in which
    no client trains.

    Raises
    ------
    DataError, ConfigError
        If another package's client half cannot be imported here or is not a Learner.
    """
    return half_class(method.learner or Learner, "client", Learner, "not-a-learner")


def _check_personal(config: RunConfig, facts: Facts) -> None:
    """Refuse a model of another package without the parameters that the method keeps at the
    clients.

    Under FlatLand any flat network is accepted: all its parameters are space-like and shared.
    """
    present = personal_patterns(config, facts)
    personal = () if config.row.space == "lorentz" else config.row.personal
    missing = [] if set(personal) & set(present) else list(personal)
    if facts.own_ends:
        missing += [pattern for pattern in INPUT_OUTPUT_LAYERS if pattern not in present]
    if missing:
        raise ConfigError(
            f'model = "{config.model}": method = "{config.method}" keeps {", ".join(missing)} at'
            " each client, and this model has no such parameters; allowed is a model that has"
            " them, or another method",
            key="model-with-method",
        )


def personal_patterns(config: RunConfig, facts: Facts) -> list[str]:
    """The patterns of a run's personal parameters that match a parameter of its model."""
    names = list(named_state(build_model(model_spec(config, facts), config.seed)))
    patterns = config.row.personal + (INPUT_OUTPUT_LAYERS if facts.own_ends else ())
    return [pattern for pattern in dict.fromkeys(patterns) if fnmatch.filter(names, pattern)]
