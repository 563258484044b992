"""Builds a configured method: its network, the server's aggregation with its seeded initial model,
and the client's learner."""

import fnmatch
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import nn

from curvfed.geometry.arrays import Array
from curvfed.strategies.base.aggregation import Aggregation, Average
from curvfed.strategies.base.keys import AUTO
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import GRAPHS, INPUT_OUTPUT_LAYERS, Method, half_class
from curvfed.strategies.base.statistics import HEAD, Arrays, named_state, rounded_names
from curvfed.strategies.config.run_config import (
    CURVED_MODELS,
    LORENTZ_MODELS,
    RunConfig,
    server_row,
)
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.methods import foreign_methods
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.messages import Facts
from curvfed.strategies.wire.precision import EXACT, Precision
from curvfed.tasks import plugins
from curvfed.tasks.dataset import dataset_class
from curvfed.tasks.errors import ModelError
from curvfed.tasks.graphs.model_spec import ModelSpec
from curvfed.tasks.kinds import FEATURES, KINDS

_FIXED = (f"{HEAD}weight", f"{HEAD}bias")
"""The parameters of a fixed head that the server sends."""


def model_spec(config: RunConfig, facts: Facts, num_features: int = 1, num_classes: int = 1) -> Any:
    """The model that this run trains; `config` has its defaults resolved.

    Parameters
    ----------
    config : RunConfig
    facts : Facts
    num_features, num_classes : int
        Those of the client, if they differ between the clients. The server omits them: the part of
        the model that it holds then does not depend on them.

    Raises
    ------
    ConfigError
        If the task lacks such an encoder.
    """
    channels = int(facts.shape.partition("x")[0]) if facts.shape else 0
    model = encoder(config, facts.task, channels)
    models = KINDS[facts.task].models
    if models and model not in models and not plugins.is_model(model):
        raise _no_such_model(config, facts)
    make = dataset_class(facts.task).model_spec
    try:
        return make(config, facts, model, _options(config, model), num_features, num_classes)
    except ModelError as error:
        raise ConfigError(str(error), key=error.kind) from None


def _options(config: RunConfig, model: str) -> dict[str, Any]:
    """The further settings of a network by the method, and of a Lorentz network by its table."""
    options = dict(config.network.options)
    if model in LORENTZ_MODELS:
        keys = config.table("flatland")
        options["gate"] = keys.gate
        options["self_weight"] = keys.self_weight
        options["curvature_map"] = keys.curvature_map
        if keys.curvature is not None:
            options["curvature"] = keys.curvature
            options.pop("estimates_curvature", None)
    return options


def curvature_key(config: RunConfig, task: str) -> str:
    """The dotted key of the curvature of the network that a run trains on this task; "" if that
    network is flat, or the key is 0."""
    key = config.row.curvature_key or _kinds_curvature_key(config, task)
    if task in GRAPHS:
        if encoder(config, task) not in CURVED_MODELS:
            return ""
        key = key or "flatland.curvature"
    if not key:
        return ""
    keys = config.table(key.partition(".")[0])
    return key if getattr(keys, "space", keys.curvature) != 0 else ""


def _kinds_curvature_key(config: RunConfig, task: str) -> str:
    """The dotted key of the curvature of the network of a kind of data, which a method without keys
    of its own trains, too; "" for none."""
    for table in KINDS[task].tables:
        if table not in config.row.keys and hasattr(config.table(table), "curvature"):
            return f"{table}.curvature"
    return ""


def encoder(config: RunConfig, task: str, channels: int = 0) -> str:
    """The name of the network that a run trains on this task, for images with this number of
    channels; "" for none."""
    if config.model is not None:
        return config.model
    if KINDS[task].has_shape and config.images.encoder:
        return FEATURES
    return KINDS[task].default_model(config.row.space, channels)


def is_fixed(config: RunConfig, name: str) -> bool:
    """Whether the server sets this parameter once and no round trains it."""
    return name in _FIXED and config.network.head_from == "server"


def fixed_head(spec: Any, seed: int) -> dict[str, Array]:
    """The parameters of an image model's fixed head, by their names in the model; empty for other
    models."""
    from curvfed.tasks.heads import head_start
    from curvfed.tasks.images.models import ImageModelSpec, head_spec

    if not isinstance(spec, ImageModelSpec):
        return {}
    return {
        f"{HEAD}{name}": tensor.numpy()
        for name, tensor in head_start(head_spec(spec), seed).items()
    }


def fixed_parameters(config: RunConfig, facts: Facts) -> Arrays:
    """The parameters that the server sets once for all clients; empty for most methods."""
    if config.network.head_from != "server":
        return {}
    if config.network.head != "linear":
        log.info("spreading the prototypes of %d classes", len(facts.class_names))
    return fixed_head(model_spec(config, facts), config.seed)


def client_head(spec: Any, seed: int, partition: int) -> dict[str, Array]:
    """The parameters of one client's own fixed head."""
    # Torch's generator uses 32 bits of a seed.
    sequence = np.random.SeedSequence([seed, partition])
    return fixed_head(spec, int(sequence.generate_state(1)[0]))


def build_model(spec: Any, seed: int) -> nn.Module:
    """The model with its seeded initial parameters, which are equal on every machine.

    Raises
    ------
    ConfigError
        If the images are too small for the network, or a package that it needs cannot be imported.
    """
    if isinstance(spec, ModelSpec):
        return spec.build(seed)
    try:
        return spec.build(seed)
    except ModelError as error:
        raise ConfigError(str(error), key=error.kind) from None
    except (ValueError, ImportError) as error:
        raise ConfigError(f'model = "{spec.kind}": {error}', key="impossible-model") from None


def _no_such_model(config: RunConfig, facts: Facts) -> ConfigError:
    names = ", ".join((AUTO, *KINDS[facts.task].models))
    return ConfigError(
        f'model = "{config.model or AUTO}": allowed for data sets of {facts.task} is one of'
        f" {names}",
        key="no-such-model",
    )


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
    personal = method.personal_names(state, facts.own_ends)
    shared = {}
    for name, tensor in state.items():
        if name not in personal and not is_fixed(config, name):
            shared[name] = tensor.numpy(force=True)
    if begin is not None:
        shared = begin(shared, frozenset(state.keys() - shared.keys()))
    check_personal(config, facts)
    return config.guard.aggregation(new_aggregation(shared, config, clients))


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
    row = server_row(config)
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
    """The class of a method's client half; `Learner` itself for a method without rounds, where no
    client trains.

    Raises
    ------
    DataError, ConfigError
        If another package's client half cannot be imported here or is not a Learner.
    """
    return half_class(method.learner or Learner, "client", Learner, "not-a-learner")


def check_personal(config: RunConfig, facts: Facts) -> None:
    """Refuse a model without the parameters that the method keeps at the clients, if one of the two
    is of another package.

    FlatLand accepts any flat network: all its parameters are space-like and shared.

    Raises
    ------
    ConfigError
    """
    model = encoder(config, facts.task, int(facts.shape.partition("x")[0]) if facts.shape else 0)
    if not plugins.is_model(model) and config.method not in foreign_methods()[0]:
        return
    present = personal_patterns(config, facts)
    personal = () if config.row.space == "lorentz" else config.row.personal
    missing = [] if set(personal) & set(present) else list(personal)
    if facts.own_ends:
        missing += [pattern for pattern in INPUT_OUTPUT_LAYERS if pattern not in present]
    if missing:
        raise ConfigError(
            f'model = "{model}": method = "{config.method}" keeps {", ".join(missing)} at'
            " each client, and this model has no such parameters; allowed is a model that has"
            " them, or another method",
            key="model-with-method",
        )


def personal_patterns(config: RunConfig, facts: Facts) -> list[str]:
    """The patterns of a run's personal parameters that match a parameter of its model."""
    names = list(named_state(build_model(model_spec(config, facts), config.seed)))
    patterns = config.row.personal + (INPUT_OUTPUT_LAYERS if facts.own_ends else ())
    return [pattern for pattern in dict.fromkeys(patterns) if fnmatch.filter(names, pattern)]
