"""A client's description of itself and of its data before the first round."""

from typing import Any

from curvfed.client_app.client import Client
from curvfed.client_app.data import Data, class_names, has_small_class, statistics
from curvfed.strategies.base.abilities import StartsFromAll
from curvfed.strategies.config.build_method import learner_class
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.wire.messages import Description


def describe(client: Client) -> Description:
    """The description of the client that the server needs before the first round.

    Raises
    ------
    ConfigError
        If the run costs more privacy than the node's policy leaves.
    """
    client.guard.check()
    data = client.data
    num_partitions = client.node.num_partitions if data.partition_digest else 0
    return description_of(
        data,
        client.config,
        digest=client.digest,
        num_partitions=num_partitions or 0,
        group=client.group if client.config.is_masked else (),
        min_holders=client.node.min_holders if client.config.is_masked else 0,
        statistics=_statistics(client),
    )


def description_of(data: Data, config: RunConfig, digest: str, **of_node: Any) -> Description:
    """The description of a client's data, with further fields that the node decides."""
    return Description(
        task=data.task,
        space=data.space,
        metric=data.metric,
        num_features=data.num_features,
        shape=data.shape,
        bits=getattr(data, "bits", 0),
        class_names=class_names(data, config),
        digest=digest,
        partition_digest=data.partition_digest,
        **of_node,
    )


def start_figures(client: Client) -> dict[str, float]:
    """Figures of the data from which a personal parameter starts; empty if statistics may not
    leave."""
    learner = learner_class(client.method)
    if not client.shares_statistics or not issubclass(learner, StartsFromAll):
        return {}
    return learner.answer(client.data, client.config.own_keys)


def _statistics(client: Client) -> dict[str, Any]:
    """Figures about the data that may leave; class counts only if every class is large."""
    if not client.shares_statistics:
        return {}
    figures = statistics(client.data, client.config)
    if has_small_class(figures.get("class_counts", ()), client.node):
        del figures["class_counts"]
    return figures
