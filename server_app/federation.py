"""Before the first round: which nodes are connected, whether their data fit together, and facts for
all clients."""

import logging
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from curvfed.strategies.base.method import INPUT_OUTPUT_LAYERS
from curvfed.strategies.config.model_spec import build_model, model_spec
from curvfed.strategies.config.run_config import RunConfig, resolve_defaults
from curvfed.strategies.wire.checks import MAX_CLASSES
from curvfed.strategies.wire.exchange import FederationError, exchange, nodes_by_partition
from curvfed.strategies.wire.messages import (
    CCVR,
    CURVATURE,
    DESCRIBE,
    Description,
    Facts,
    Header,
    Request,
)

log = logging.getLogger("curvfed")

_SELF = re.compile(r"(partition-id \d+): ")

DIFFERENT_PARTITION = (
    "its part belongs to another partition of the public data set than the others': num-partitions"
    " and the data set's files must be the same at all nodes"
)

MANY_CLASSES = 1000
"""Number of classes above which a warning names the client with most of them: its mistake would
enlarge all heads."""

MANY_CLIENTS = 2000
"""The distances of all pairs of more clients would take gigabytes: 800 MB for 10,000."""

NODE_WAIT = 60.0
"""Seconds to wait for enough nodes; real nodes connect one by one."""


@dataclass(frozen=True)
class Federation:
    """The clients of a run.

    Attributes
    ----------
    nodes : dict of partition to node id
        Sorted by partition.
    descriptions : dict of partition to Description
    facts : Facts
    refused : dict of str to str
        The reason for each node that cannot take part, by name.
    """

    nodes: dict[int, int]
    descriptions: dict[int, Description]
    facts: Facts
    refused: dict[str, str]

    @property
    def metric(self) -> str:
        """The metric of the data set."""
        return next(iter(self.descriptions.values())).metric

    def record(self) -> dict[str, Any]:
        """For `clients.json`."""
        clients = [
            {"partition": partition} | asdict(about)
            for partition, about in self.descriptions.items()
        ]
        return {
            "clients": clients,
            "refused": self.refused,
            "facts": asdict(self.facts),
            "heterogeneity": self.heterogeneity(),
        }

    def heterogeneity(self) -> float | None:
        """Median pairwise Jensen-Shannon distance (natural logarithm) of the clients' label
        distributions.

        None if fewer than two clients with examples share their class counts, and if the clients'
        classes differ. Of more than `MANY_CLIENTS` clients, an evenly spaced selection is compared.
        """
        from scipy.spatial.distance import pdist

        if self.facts.own_ends:
            return None
        counts = [
            [
                dict(zip(about.class_names, shared, strict=True)).get(name, 0)
                for name in self.facts.class_names
            ]
            for about in self.descriptions.values()
            if (shared := about.statistics.get("class_counts")) and any(shared)
        ]
        if len(counts) < 2:
            return None
        # One call, because a thousand clients have 499,500 pairs.
        return float(
            np.median(
                pdist(np.array(counts[:: -(-len(counts) // MANY_CLIENTS)], float), "jensenshannon")
            )
        )


def connect(grid: Grid, config: RunConfig, run: str, expected: Sequence[int] = ()) -> Federation:
    """Ask every connected node for its data's description; nodes that do not fit are refused by
    name.

    Parameters
    ----------
    expected : sequence of int
        The partitions of a run that is resumed. The run waits for as many nodes, or for
        `min-replies` if that is more, and starts without those that do not come.

    Raises
    ------
    FederationError
        If too few nodes are left, two nodes have one partition-id, or the method or the metric does
        not work on such data.
    """
    nodes = _connected(
        grid, max(config.min_replies, len(expected)), NODE_WAIT if nodes_can_join(grid) else 0.0
    )
    log.info("%d nodes are connected; asking what data they have", len(nodes))
    header = Header(run, DESCRIBE, 0)
    replies, failures, _ = exchange(
        grid, {node: Request(header) for node in nodes}, config.round_timeout
    )
    refused = {f"node {node}": reason for node, reason in failures.items()}
    partitions = nodes_by_partition(replies)
    described = {
        p: d for p, node in partitions.items() if (d := replies[node].description) is not None
    }
    refused |= {
        f"partition-id {partition}": reason
        for partition, reason in _remove_unlike(described).items()
    }
    for names, reason in grouped(refused):
        log.warning("refused %s: %s", ", ".join(names), reason)
    _check_enough(described, refused, len(nodes), config, expected)
    facts = _facts_for(described, config)
    if facts.own_ends:
        spaces = ", ".join(
            f"{p}: {d.space or d.num_features}" for p, d in list(described.items())[:20]
        )
        log.warning(
            "the clients' feature spaces differ (%s): %s stay at each client",
            spaces,
            ", ".join(INPUT_OUTPUT_LAYERS),
        )
    if config.row.lists_clients:
        facts = replace(facts, partitions=tuple(described))
    federation = Federation({p: partitions[p] for p in described}, described, facts, refused)
    return _ask_curvature(grid, config, run, federation)


def check_clients(described: dict[int, Description], config: RunConfig) -> Facts:
    """The facts of a run with these clients; those that cannot all take part in one are refused.

    Raises
    ------
    FederationError
        If one's data are of another kind than most, or the method or the metric does not work on
        such data.
    """
    for partition, reason in _remove_unlike(described).items():
        raise FederationError(f"data[{partition}]: {reason}")
    return _facts_for(described, config)


def _remove_unlike(described: dict[int, Description]) -> dict[int, str]:
    """Remove the clients whose data are of another kind than most; why, by their partitions."""
    if not described:
        return {}
    usual, partition_key = Counter(map(_kind, described.values())).most_common(1)[0][0]
    refused = {}
    for partition, description in list(described.items()):
        kind, own_key = _kind(description)
        if kind != usual:
            refused[partition] = f"its data are {kind}, the others' are {usual}"
        elif own_key != partition_key:
            refused[partition] = DIFFERENT_PARTITION
        else:
            continue
        del described[partition]
    return refused


def _check_enough(
    described: Mapping[int, Description],
    refused: Mapping[str, str],
    nodes: int,
    config: RunConfig,
    expected: Sequence[int],
) -> None:
    """Refuse a run with too few clients, or without one of the data sets that it names."""
    if len(described) < config.min_replies:
        texts = [
            f"{', '.join(names[:3])}{', …' * (len(names) > 3)}: {reason}"
            for names, reason in grouped(refused)
        ]
        if away := ", ".join(
            str(partition) for partition in expected if partition not in described
        ):
            texts.insert(
                0,
                f"partition-id {away} took part before and is missing: start its node, and resume"
                " the run",
            )
        reasons = "; ".join(texts[:3]) or f"{nodes or 'no'} nodes are connected"
        raise FederationError(
            f"{len(described)} of {nodes} nodes can take part, needed are {config.min_replies}."
            f" {reasons}"
        )
    if refused and any(description.space for description in described.values()):
        # Otherwise a mean over some of the named data sets would look like one over all of them.
        name, reason = next(iter(refused.items()))
        raise FederationError(
            f"{len(refused)} of {nodes} clients of {config.dataset} cannot take part; {name}:"
            f" {reason}"
        )


def _facts_for(described: dict[int, Description], config: RunConfig) -> Facts:
    """The facts of a run with these clients; data that the method or the metric does not work on
    are refused."""
    row = config.row
    facts = _facts(described)
    if facts.task not in row.tasks:
        raise FederationError(
            f'the clients\' data are {facts.task}, method = "{config.method}" works on'
            f" {', '.join(row.tasks)}"
        )
    if (CCVR in row.after or row.reports_statistics) and not all(
        about.statistics for about in described.values()
    ):
        raise FederationError(
            f'method = "{config.method}" uses figures about the clients\' data: it needs'
            " share-statistics=true"
        )
    metric = next(iter(described.values())).metric
    count = len(facts.class_names)
    if metric == "roc_auc" and not facts.own_ends and count != 2:
        raise FederationError(
            f"ROC-AUC needs 2 classes, the clients have {count}: {facts.class_names}"
        )
    return facts


def nodes_can_join(grid: Grid) -> bool:
    """Whether more nodes may connect; nodes in the server's process are all there from the
    start.
    """
    return not getattr(grid, "works_in_pull", False)


def _connected(grid: Grid, wanted: int, wait: float) -> list[int]:
    """Ids of the connected nodes, sorted; waits at most `wait` seconds for `wanted` of them."""
    deadline = time.monotonic() + wait
    is_logged = False
    while len(nodes := sorted(grid.get_node_ids())) < wanted and time.monotonic() < deadline:
        if not is_logged:
            log.info("%d nodes are connected; waiting up to %g s for %d", len(nodes), wait, wanted)
            is_logged = True
        time.sleep(0.5)
    if len(nodes) < wanted:
        log.warning(
            "starting with %d nodes of %d; nodes that connect later can take part after a resume",
            len(nodes),
            wanted,
        )
    return nodes


def grouped(refused: Mapping[str, str]) -> list[tuple[list[str], str]]:
    """The names of the refused nodes grouped by reason; clients that read the same files often have
    the same one."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, reason in refused.items():
        own = _SELF.match(reason)
        found.setdefault(reason[own.end() :] if own else reason, []).append(
            (name, own[1] if own else "")
        )
    groups = []
    for reason, members in found.items():
        if len(members) == 1:
            name, _ = members[0]
            groups.append(([name], refused[name]))
        else:
            groups.append(([f"{name} ({own})" if own else name for name, own in members], reason))
    return groups


def _kind(description: Description) -> tuple[str, tuple[str, ...]]:
    """What all clients must have in common: the kind of their data, and a key of the public data
    set's partition."""
    key: tuple[str, ...] = ()
    # parts of graph data sets list all classes
    if description.partition_digest and description.task != "graphs":
        key = (
            description.partition_digest,
            str(description.num_partitions),
            *description.class_names,
        )
    features = f" of {description.num_features} features" if description.task == "nodes" else ""
    if description.task == "images":
        features = f" of {description.shape}"
    part = ", part of a public data set" if key else ""
    return f"{description.task}{features} scored by {description.metric}{part}", key


def _facts(described: dict[int, Description]) -> Facts:
    """Number of features, and the union of the classes in the order of the partitions; neither of
    them where the feature spaces differ."""
    first = next(iter(described.values()))
    spaces = {(description.space, description.num_features) for description in described.values()}
    if first.task == "graphs" and len(spaces) > 1:
        return Facts(first.task, 0, (), own_ends=True)
    names = dict.fromkeys(
        name for description in described.values() for name in description.class_names
    )
    if len(names) > MANY_CLASSES:
        most = max(described, key=lambda partition: len(described[partition].class_names))
        count = len(described[most].class_names)
        log.warning(
            "the clients name %d classes in total, partition-id %d names %d",
            len(names),
            most,
            count,
        )
    if len(names) > MAX_CLASSES:
        raise FederationError(
            f"the clients name {len(names)} classes in total; allowed are up to {MAX_CLASSES}"
        )
    return Facts(first.task, first.num_features, tuple(names), first.shape)


def _ask_curvature(grid: Grid, config: RunConfig, run: str, federation: Federation) -> Federation:
    """FlatLand's query phase for the Ricci curvatures, which are standardised over the clients
    before they set k."""
    if CURVATURE not in config.row.before or config["flatland.curvature-init"] in (
        "constant",
        "mlp",
        "literal",
    ):
        return federation
    spec = model_spec(resolve_defaults(config, federation.facts.task), federation.facts)
    if "k" not in dict(build_model(spec, config.seed).named_parameters()):
        return federation
    header = Header(run, CURVATURE, 0)
    requests = {node: Request(header) for node in federation.nodes.values()}
    replies, failures, _ = exchange(grid, requests, config.round_timeout)
    for node, reason in failures.items():
        log.warning("node %d did not send its curvature: %s", node, reason)
    known = [
        replies[node].metrics.get("ricci") for node in federation.nodes.values() if node in replies
    ]
    values = [value for value in known if value is not None and np.isfinite(value)]
    private = len(federation.nodes) - len(values)
    if private:
        log.info(
            "%d of %d clients keep their curvature private: all start at -1",
            private,
            len(federation.nodes),
        )
        return federation
    facts = replace(
        federation.facts, ricci_mean=float(np.mean(values)), ricci_std=float(np.std(values))
    )
    return replace(federation, facts=facts)
