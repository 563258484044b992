"""The aggregations by name, and a run's own, with the start that its seed gives."""

import fnmatch
from collections.abc import Callable

from strategies.aggregation import Aggregation, Average
from strategies.clusters import Clusters
from strategies.consistent import Consistent
from strategies.messages import Facts
from strategies.methods import ENDS, METHODS
from strategies.model_spec import build_model, is_fixed, model_spec, named_state
from strategies.normalised import FedNova
from strategies.run_config import RunConfig
from strategies.server_optimizer import ServerOptimizer
from strategies.similarity import Similarity
from strategies.split import Arrays

AGGREGATIONS: dict[str, Callable[[Arrays, RunConfig, int], Aggregation]] = {
    "average": lambda arrays, config, clients: Average(arrays),
    "clusters": lambda arrays, config, clients: Clusters(
        arrays, config.gcfl.eps1, config.gcfl.eps2, config.gcfl.warmup, config.gcfl.window
    ),
    "similarity": lambda arrays, config, clients: Similarity(arrays, config.fed_pub.scale),
    "consistent": lambda arrays, config, clients: Consistent(
        arrays, config.hyperfed.radius, config.hyperfed.deviations
    ),
    "fednova": lambda arrays, config, clients: FedNova(arrays, config.momentum if config.optimizer == "sgd" else 0.0),
    "fedopt": lambda arrays, config, clients: ServerOptimizer(
        arrays,
        config.fedopt.optimizer,
        config.fedopt.learning_rate,
        config.fedopt.beta1,
        config.fedopt.beta2,
        config.fedopt.tau,
    ),
}


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
    return AGGREGATIONS[config.aggregation](shared, config, clients)


def kept_patterns(config: RunConfig, facts: Facts) -> list[str]:
    """Patterns of the parameters that stay with every client of a run, those alone that its model has any of."""
    names = list(named_state(build_model(model_spec(config, facts), config.seed)))
    patterns = METHODS[config.method].personal + (ENDS if facts.own_ends else ())
    return [pattern for pattern in dict.fromkeys(patterns) if fnmatch.filter(names, pattern)]
