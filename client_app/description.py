"""What a client says of its data before the first round."""

from typing import Any

from curvfed.client_app.client import Client
from curvfed.client_app.data import class_names, has_small_class, statistics
from curvfed.strategies.config.build_method import learner_class
from curvfed.strategies.wire.messages import Description


def describe(client: Client) -> Description:
    """What the server must know before the first round.

    Raises
    ------
    ConfigError
        If the run costs more privacy than the node's policy leaves.
    """
    if client.is_private:
        from curvfed.client_app.private_rounds import check_budget

        num_examples = int(client.data.train.sum())
        check_budget(client.config, client.run, client.node, client.ledger, num_examples)
    data = client.data
    return Description(
        task=data.task,
        space=data.space,
        metric=data.metric,
        num_features=data.num_features,
        shape=data.shape,
        class_names=class_names(data, client.config),
        digest=client.digest,
        partition_digest=data.partition_digest,
        num_partitions=_num_partitions(client),
        group=client.group if client.config.is_masked else (),
        statistics=_statistics(client),
    )


def start_figures(client: Client) -> dict[str, float]:
    """Figures of the data from which a personal parameter starts; empty if statistics may not
    leave."""
    if not client.shares_statistics:
        return {}
    return learner_class(client.method).answer(client.data, client.config.own_keys)


def _statistics(client: Client) -> dict[str, Any]:
    """Figures about the data that may leave; class counts only if every class is large."""
    if not client.shares_statistics:
        return {}
    figures = statistics(client.data, client.config)
    if has_small_class(figures.get("class_counts", ()), client.node):
        del figures["class_counts"]
    return figures


def _num_partitions(client: Client) -> int:
    """Number of parts of the public data set; 0 for a client with data of its own."""
    if not client.data.partition_digest or client.node.num_partitions is None:
        return 0
    return client.node.num_partitions
