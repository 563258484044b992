"""Before the first round: who is there, do they fit together, what do all need to know."""

import logging
import re
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from curvfed.strategies.base.method import ENDS
from curvfed.strategies.config.defaults import settled
from curvfed.strategies.config.model_spec import model_spec
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.wire.checks import MAX_CLASSES
from curvfed.strategies.wire.exchange import FederationError, exchange, nodes_by_partition
from curvfed.strategies.wire.messages import CCVR, CURVATURE, DESCRIBE, Description, Facts, Header, Request

log = logging.getLogger("curvfed")

_SELF = re.compile(r"(partition-id \d+): ")

DIFFERENT_PARTITION = (
    "its part is of a public data set that was cut up otherwise than the others': num-partitions and the data set's "
    "files must be the same at all nodes"
)

MANY_CLASSES = 1000
"""Of more it is said who names them: one client's mistake would cost all of them a head of that size."""

NODE_WAIT = 60.0
"""Seconds to wait for enough nodes to be connected: real ones come up one by one."""


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
        Reason by name, of the nodes that cannot take part.
    """

    nodes: dict[int, int]
    descriptions: dict[int, Description]
    facts: Facts
    refused: dict[str, str]

    @property
    def metric(self) -> str:
        """What the data set is scored by."""
        return next(iter(self.descriptions.values())).metric

    def record(self) -> dict[str, Any]:
        """For `clients.json`."""
        clients = [{"partition": partition} | asdict(about) for partition, about in self.descriptions.items()]
        return {
            "clients": clients,
            "refused": self.refused,
            "facts": asdict(self.facts),
            "heterogeneity": self.heterogeneity(),
        }

    def heterogeneity(self) -> float | None:
        """Median pairwise Jensen-Shannon distance (natural logarithm) of the clients' label distributions.

        None for fewer than two clients with examples that tell their class counts, and where their classes have nothing
        in common.
        """
        from scipy.spatial.distance import pdist

        if self.facts.own_ends:
            return None
        counts = [
            [dict(zip(about.class_names, told, strict=True)).get(name, 0) for name in self.facts.class_names]
            for about in self.descriptions.values()
            if (told := about.statistics.get("class_counts")) and any(told)
        ]
        if len(counts) < 2:
            return None
        # In one call: a thousand clients have 499,500 pairs.
        return float(np.median(pdist(np.array(counts, float), "jensenshannon")))


def meet(grid: Grid, config: RunConfig, run: str, expected: int = 0) -> Federation:
    """Ask every connected node who it is; refuse, by name, those that do not fit.

    Parameters
    ----------
    expected : int
        So many nodes are waited for, as are `min-replies`, and the run begins without those that do not come.

    Raises
    ------
    FederationError
        If too few nodes are left, two claim one partition-id, the classes do not fit the metric, or the method does not
        work on such data.
    """
    nodes = _connected(grid, max(config.min_replies, expected), NODE_WAIT if nodes_can_join(grid) else 0.0)
    log.info("%d nodes are connected; asking what they hold", len(nodes))
    header = Header(run, DESCRIBE, 0)
    replies, failures, _ = exchange(grid, {node: Request(header) for node in nodes}, config.round_timeout)
    refused = {f"node {node}": reason for node, reason in failures.items()}
    partitions = nodes_by_partition(replies)
    described = {p: d for p, node in partitions.items() if (d := replies[node].description) is not None}
    if described:
        ((usual, cut), _), *_ = Counter(_kind(description) for description in described.values()).most_common(1)
        for partition, description in list(described.items()):
            kind, own_cut = _kind(description)
            if (kind, own_cut) != (usual, cut):
                refused[f"partition-id {partition}"] = (
                    f"its data are {kind}, the others' are {usual}" if kind != usual else DIFFERENT_PARTITION
                )
                del described[partition]
    for names, reason in _grouped(refused):
        log.warning("refused %s: %s", ", ".join(names), reason)
    if len(described) < config.min_replies:
        told = [f"{', '.join(names[:3])}{', …' * (len(names) > 3)}: {reason}" for names, reason in _grouped(refused)]
        reasons = "; ".join(told[:3]) or "no node is connected"
        raise FederationError(
            f"{len(described)} of {len(nodes)} nodes can take part, needed are {config.min_replies}. {reasons}"
        )
    if refused and any(description.space for description in described.values()):
        # A mean over some of the data sets that the run names would be read as one over all.
        name, reason = next(iter(refused.items()))
        raise FederationError(
            f"{len(refused)} of {len(nodes)} clients of {config.dataset} cannot take part; {name}: {reason}"
        )
    facts = _facts(described)
    if facts.task not in (tasks := config.row.tasks):
        raise FederationError(
            f'the clients\' data are {facts.task}, method = "{config.method}" works on {", ".join(tasks)}'
        )
    method = config.row
    tells = CCVR in method.after or method.tells_statistics
    if tells and not all(about.statistics for about in described.values()):
        raise FederationError(
            f'method = "{config.method}" has figures about the clients\' data told: it needs share-statistics=true'
        )
    if facts.own_ends:
        spaces = ", ".join(f"{p}: {d.space or d.num_features}" for p, d in list(described.items())[:20])
        log.warning("the clients' feature spaces differ (%s): %s stay with each of them", spaces, ", ".join(ENDS))
    first = next(iter(described.values()))
    if first.metric == "roc_auc" and not facts.own_ends and len(facts.class_names) != 2:
        raise FederationError(
            f"ROC-AUC needs 2 classes, the clients have {len(facts.class_names)}: {facts.class_names}"
        )
    if config.row.lists_clients:
        facts = replace(facts, partitions=tuple(described))
    federation = Federation({p: partitions[p] for p in described}, described, facts, refused)
    return _ask_curvature(grid, config, run, federation)


def nodes_can_join(grid: Grid) -> bool:
    """Whether nodes may still come up; those that work in the server's own process are all there."""
    return not getattr(grid, "works_in_pull", False)


def _connected(grid: Grid, wanted: int, wait: float) -> list[int]:
    """Ids of the connected nodes, sorted; waits a while, in seconds, for `wanted` of them."""
    give_up, told = time.monotonic() + wait, False
    while len(nodes := sorted(grid.get_node_ids())) < wanted and time.monotonic() < give_up:
        if not told:
            log.info("%d nodes are connected; waiting up to %g s for %d", len(nodes), wait, wanted)
            told = True
        time.sleep(0.5)
    if len(nodes) < wanted:
        log.warning(
            "going on with %d nodes of %d; who comes later takes part from the next resume on", len(nodes), wanted
        )
    return nodes


def _grouped(refused: dict[str, str]) -> list[tuple[list[str], str]]:
    """Names and the reason that they have in common: clients that read the same files are refused for the same."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name, reason in refused.items():
        own = _SELF.match(reason)
        found.setdefault(reason[own.end() :] if own else reason, []).append((name, own[1] if own else ""))
    groups = []
    for reason, who in found.items():
        if len(who) == 1:
            groups.append(([who[0][0]], refused[who[0][0]]))
        else:
            groups.append(([f"{name} ({own})" if own else name for name, own in who], reason))
    return groups


def _kind(description: Description) -> tuple[str, tuple[str, ...]]:
    """What must agree between clients: their data in words, and how a public data set was cut up, if one was."""
    cut: tuple[str, ...] = ()
    if description.partition_digest and description.task != "graphs":  # all know the classes of the whole data set
        cut = (description.partition_digest, str(description.num_partitions), *description.class_names)
    features = f" of {description.num_features} features" if description.task == "nodes" else ""
    if description.task == "images":
        features = f" of {description.shape}"
    part = ", part of a public data set" if cut else ""
    return f"{description.task}{features} scored by {description.metric}{part}", cut


def _facts(described: dict[int, Description]) -> Facts:
    """Number of features, and the union of the classes in the order in which the partitions name them; none of either
    where the feature spaces differ."""
    first = next(iter(described.values()))
    spaces = {(description.space, description.num_features) for description in described.values()}
    if first.task == "graphs" and len(spaces) > 1:
        return Facts(first.task, 0, (), own_ends=True)
    names = dict.fromkeys(name for description in described.values() for name in description.class_names)
    if len(names) > MANY_CLASSES:
        most = max(described, key=lambda partition: len(described[partition].class_names))
        count = len(described[most].class_names)
        log.warning("the clients name %d classes between them, partition-id %d names %d", len(names), most, count)
    if len(names) > MAX_CLASSES:
        raise FederationError(f"the clients name {len(names)} classes between them; allowed are up to {MAX_CLASSES}")
    return Facts(first.task, first.num_features, tuple(names), first.shape)


def _ask_curvature(grid: Grid, config: RunConfig, run: str, federation: Federation) -> Federation:
    """FlatLand's query phase: Ricci curvatures are standardised over the clients before they set k."""
    if CURVATURE not in config.row.before or config.flatland.curvature_init in ("constant", "mlp"):
        return federation
    if (
        model_spec(settled(config, federation.facts.task), federation.facts).kind != "lorentz"
    ):  # nobody is asked for what sets nothing
        return federation
    header = Header(run, CURVATURE, 0)
    requests = {node: Request(header) for node in federation.nodes.values()}
    replies, failures, _ = exchange(grid, requests, config.round_timeout)
    for node, reason in failures.items():
        log.warning("node %d did not tell its curvature: %s", node, reason)
    known = [replies[node].metrics.get("ricci") for node in federation.nodes.values() if node in replies]
    values = [value for value in known if value is not None and np.isfinite(value)]
    if len(values) < len(federation.nodes):
        log.info("%d of %d clients keep their curvature private: all start at -1", len(federation.nodes) - len(values),
                 len(federation.nodes))  # fmt: skip
        return federation
    facts = replace(federation.facts, ricci_mean=float(np.mean(values)), ricci_std=float(np.std(values)))
    return replace(federation, facts=facts)
