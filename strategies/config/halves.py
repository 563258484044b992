"""The halves of a configured method: the server's aggregation with its seeded initial model, and
the client's learner."""

import fnmatch
from collections.abc import Callable
from typing import TYPE_CHECKING

from curvfed.strategies.base.aggregation import Aggregation, Average
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import ENDS, Method
from curvfed.strategies.base.named_arrays import named_state, rounded_names
from curvfed.strategies.base.shared_tables import FLOWER
from curvfed.strategies.config.model_spec import build_model, is_fixed, model_spec
from curvfed.strategies.config.run_config import HOMES, RunConfig
from curvfed.strategies.methods import METHODS
from curvfed.strategies.wire.messages import Facts
from curvfed.strategies.wire.precision import EXACT, Precision
from curvfed.tasks import plugins

if TYPE_CHECKING:
    from curvfed.strategies.base.flower_strategy import FlowerStrategy


def flower_strategy(arrays: Arrays, config: RunConfig) -> "FlowerStrategy":
    """The Flower strategy that `aggregation` names, with its arguments from the table `flower`."""
    from curvfed.strategies.base.flower_strategy import FlowerStrategy

    known = FLOWER[config.aggregation]
    settings = {name: value for name, value in config.flower if name in known and value is not None}
    if "client_learning_rate" in known:  # Flower has no default
        settings.setdefault("client_learning_rate", config.learning_rate)
    return FlowerStrategy(arrays, config.aggregation, settings)


def aggregation(
    config: RunConfig,
    facts: Facts,
    clients: int,
    begin: Callable[[Arrays, frozenset[str]], Arrays] | None = None,
) -> Aggregation:
    """The server's half before the first round.

    Parameters
    ----------
    config : RunConfig
        Settled.
    facts : Facts
    clients : int
        Number of clients in the federation.
    begin : callable, optional
        From the seeded start of what is shared, and the names of all else in the model, to another
        start.
    """
    method = config.row
    state = named_state(build_model(model_spec(config, facts), config.seed))
    shared = {
        name: tensor.detach().numpy()
        for name, tensor in state.items()
        if not method.is_personal(name, facts.own_ends) and not is_fixed(config, name)
    }
    if begin is not None:
        shared = begin(shared, frozenset(state.keys() - shared.keys()))
    if config.model is not None and plugins.is_model(config.model):
        _check_kept(config, facts)
    found = made(shared, config, clients)
    found.set_clients(facts.partitions)
    return found


def made(arrays: Arrays, config: RunConfig, clients: int) -> Aggregation:
    """The aggregation of a settled configuration, with `arrays` as its initial model.

    Raises
    ------
    ConfigError, DataError
        If another package's server half cannot be imported or is no Aggregation.
    """
    if config.aggregation == "average":
        return Average(arrays)
    if config.aggregation in FLOWER:
        return flower_strategy(arrays, config)
    row = METHODS[HOMES.get(config.aggregation, config.method)]
    server = plugins.imported(row.server) if isinstance(row.server, str) else row.server
    found = server(arrays, config.keys_of(row), config, clients) if server is not None else None
    if not isinstance(found, Aggregation):
        raise ConfigError(
            f'the server half of method = "{config.method}" makes {found!r}; allowed is an'
            " Aggregation"
        )
    return found


def precision(config: RunConfig, facts: Facts) -> Precision:
    """What is rounded in the messages of a settled configuration."""
    if config.wire_precision == "float32":
        return EXACT
    return Precision(
        config.wire_precision, rounded_names(build_model(model_spec(config, facts), config.seed))
    )


def learner_class(method: Method) -> type[Learner]:
    """The class of a method's client half.

    Raises
    ------
    DataError, ConfigError
        If another package's client half cannot be imported here or is no Learner.
    """
    found = (
        plugins.imported(method.client)
        if isinstance(method.client, str)
        else method.client or Learner
    )
    if not (isinstance(found, type) and issubclass(found, Learner)):
        raise ConfigError(
            f"the client half {method.client!r} is {found!r}; allowed is a subclass of"
            f" {Learner.__module__}.Learner"
        )
    return found


def _check_kept(config: RunConfig, facts: Facts) -> None:
    """A model of another package must have the parameters that the method keeps at the clients.

    In a flat network under FlatLand all is space-like and shared, whether it is ours or not.
    """
    kept = kept_patterns(config, facts)
    personal = () if config.row.space == "lorentz" else config.row.personal
    lacking = ([] if set(personal) & set(kept) or not personal else list(personal)) + [
        end for end in ENDS if facts.own_ends and end not in kept
    ]
    if lacking:
        raise ConfigError(
            f'model = "{config.model}": method = "{config.method}" keeps {", ".join(lacking)} at'
            " each client, and this model has no parameters of these names; allowed is a model"
            " that has, or another method"
        )


def kept_patterns(config: RunConfig, facts: Facts) -> list[str]:
    """Patterns of the personal parameters of a run, without those that match no parameter of its
    model."""
    names = list(named_state(build_model(model_spec(config, facts), config.seed)))
    patterns = config.row.personal + (ENDS if facts.own_ends else ())
    return [pattern for pattern in dict.fromkeys(patterns) if fnmatch.filter(names, pattern)]
