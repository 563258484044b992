"""The aggregations by name, and a run's own, with the start that its seed gives."""

import fnmatch
from collections.abc import Callable

from curvfed.strategies.apple import Apple
from curvfed.strategies.base.aggregation import Aggregation, Average
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.errors import ConfigError
from curvfed.strategies.base.flower_keys import FLOWER
from curvfed.strategies.base.flower_strategy import FlowerStrategy
from curvfed.strategies.base.method import ENDS
from curvfed.strategies.baseline_tables import FedOpt
from curvfed.strategies.clusters import Clusters
from curvfed.strategies.config.model_spec import build_model, is_fixed, model_spec, named_state
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.config.schedule import generator_rounds
from curvfed.strategies.consistent import Consistent
from curvfed.strategies.feddyn import FedDyn
from curvfed.strategies.fedsage import FedSage, package
from curvfed.strategies.interpolated import Interpolated
from curvfed.strategies.methods import METHODS
from curvfed.strategies.multi_task import MultiTask
from curvfed.strategies.noisy_average import NoisyAverage
from curvfed.strategies.normalised import FedNova
from curvfed.strategies.scaffold import Scaffold
from curvfed.strategies.similarity import Similarity
from curvfed.strategies.topology import Topology
from curvfed.strategies.wire.messages import Facts
from curvfed.tasks import plugins

AGGREGATIONS: dict[str, Callable[[Arrays, RunConfig, int], Aggregation]] = {
    "average": lambda arrays, config, clients: Average(arrays),
    "clusters": lambda arrays, config, clients: Clusters(
        arrays, config.gcfl.eps1, config.gcfl.eps2, config.gcfl.warmup, config.gcfl.window
    ),
    "similarity": lambda arrays, config, clients: Similarity(arrays, config.fed_pub.scale),
    "noisy-average": lambda arrays, config, clients: NoisyAverage(
        arrays, config.fedgnn.clip, config.fedgnn.noise, config.num_rounds
    ),
    "topology": lambda arrays, config, clients: Topology(arrays, config.fedgta.threshold, config.fedgta.moments),
    "consistent": lambda arrays, config, clients: Consistent(
        arrays, config.hyperfed.radius, config.hyperfed.deviations
    ),
    "fednova": lambda arrays, config, clients: FedNova(arrays, config.momentum if config.optimizer == "sgd" else 0.0),
    "fedopt": lambda arrays, config, clients: fedopt(arrays, config.fedopt),
    "scaffold": lambda arrays, config, clients: Scaffold(arrays, config.scaffold.learning_rate, clients),
    "feddyn": lambda arrays, config, clients: FedDyn(arrays, clients),
    "interpolated": lambda arrays, config, clients: Interpolated(arrays, config.pfedme.beta),
    "apple": lambda arrays, config, clients: Apple(arrays, config.apple.cores, config.seed),
    "multi-task": lambda arrays, config, clients: MultiTask(arrays, config.fedmtl.relations, clients),
    "fedsage": lambda arrays, config, clients: FedSage(
        arrays, package(arrays, config.fedsage), generator_rounds(config)
    ),
    **dict.fromkeys(FLOWER, lambda arrays, config, clients: flower_strategy(arrays, config)),
}


def fedopt(arrays: Arrays, keys: FedOpt) -> FlowerStrategy:
    """The strategy of Flower's that the keys of FedOpt tell of."""
    if keys.optimizer == "avgm":
        momentum = {"server_learning_rate": keys.learning_rate, "server_momentum": keys.beta1}
        return FlowerStrategy(arrays, "flower:FedAvgM", momentum)
    name = "flower:FedAdam" if keys.optimizer == "adam" else "flower:FedYogi"
    moments = {"eta": keys.learning_rate, "beta_1": keys.beta1, "beta_2": keys.beta2, "tau": keys.tau}
    return FlowerStrategy(arrays, name, moments)


def flower_strategy(arrays: Arrays, config: RunConfig) -> FlowerStrategy:
    """The strategy of Flower's that `aggregation` names, with its keys in the table `flower`."""
    known = FLOWER[config.aggregation]
    settings = {name: value for name, value in config.flower if name in known and value != "auto"}
    if "client_learning_rate" in known:  # Flower has no default
        settings.setdefault("client_learning_rate", config.learning_rate)
    return FlowerStrategy(arrays, config.aggregation, settings)


def aggregation(config: RunConfig, facts: Facts, clients: int) -> Aggregation:
    """The server's side of a run, before its first round.

    Parameters
    ----------
    config : RunConfig
        Settled.
    facts : Facts
    clients : int
        How many there are, whether they take part in a round or not.
    """
    method = METHODS[config.method]
    shared = {
        name: tensor.detach().numpy()
        for name, tensor in named_state(build_model(model_spec(config, facts), config.seed)).items()
        if not method.is_personal(name, facts.own_ends) and not is_fixed(config, name)
    }
    if plugins.is_model(config.model):
        _check_kept(config, facts)
    found = made(shared, config, clients)
    found.meet(facts.partitions)
    return found


def made(arrays: Arrays, config: RunConfig, clients: int) -> Aggregation:
    """The aggregation that a settled configuration names, ours or another package's, at its start.

    Raises
    ------
    ConfigError, DataError
        If another package's cannot be imported, or is none.
    """
    found = (AGGREGATIONS.get(config.aggregation) or plugins.imported(config.aggregation))(arrays, config, clients)
    if not isinstance(found, Aggregation):
        raise ConfigError(f'aggregation = "{config.aggregation}" makes {found!r}; allowed is an Aggregation')
    return found


def _check_kept(config: RunConfig, facts: Facts) -> None:
    """A model of another package must have what the method keeps at the clients."""
    kept, personal = kept_patterns(config, facts), METHODS[config.method].personal
    lacking = ([] if set(personal) & set(kept) or not personal else list(personal)) + [
        end for end in ENDS if facts.own_ends and end not in kept
    ]
    if lacking:
        raise ConfigError(
            f'model = "{config.model}": method = "{config.method}" keeps {", ".join(lacking)} at each client, and this '
            "model has no parameters of these names; allowed is a model that has, or another method"
        )


def kept_patterns(config: RunConfig, facts: Facts) -> list[str]:
    """Patterns of the parameters that stay with every client of a run, those alone that its model has any of."""
    names = list(named_state(build_model(model_spec(config, facts), config.seed)))
    patterns = METHODS[config.method].personal + (ENDS if facts.own_ends else ())
    return [pattern for pattern in dict.fromkeys(patterns) if fnmatch.filter(names, pattern)]
