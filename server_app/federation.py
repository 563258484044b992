"""The start of a run: the connected nodes that take part, their descriptions, and the test data of
the server, which must fit them."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from flwr.serverapp import Grid

from curvfed.server_app.facts import facts_for, remove_unlike
from curvfed.strategies.base.abilities import StartsFromAll
from curvfed.strategies.base.method import INPUT_OUTPUT_LAYERS
from curvfed.strategies.config.build_method import (
    build_model,
    learner_class,
    model_spec,
)
from curvfed.strategies.config.run_config import (
    RunConfig,
    open_dataset,
    resolve_defaults,
    with_bits,
)
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.run_log import log
from curvfed.strategies.wire.exchange import FederationError, exchange, nodes_by_partition
from curvfed.strategies.wire.messages import DESCRIBE, START, Description, Facts, Header, Request
from curvfed.tasks.amounts import amount, be
from curvfed.tasks.class_names import titles
from curvfed.tasks.errors import DataError

_SELF = re.compile(r"(partition-id \d+): ")

MANY_CLIENTS = 2000
"""Largest number of clients for pairwise distances: 10,000 would take 800 MB."""

NODE_WAIT = 60.0
"""Seconds to wait for enough nodes, which connect one by one."""


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
    examples : dict of partition to int
        The number of training examples that each client described; empty if it stays at the client
        or in a secure sum.
    names : dict of partition to str
        The names by which the server registered the nodes; none in a simulation.
    """

    nodes: dict[int, int]
    descriptions: dict[int, Description]
    facts: Facts
    refused: dict[str, str]
    examples: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)

    def label(self, partition: int, noun: str = "partition") -> str:
        """The client in a text, with the name of its node if it is known."""
        name = self.names.get(partition)
        return f"{noun} {partition} ({name})" if name else f"{noun} {partition}"

    @cached_property
    def metric(self) -> str:
        """The metric of the data set."""
        return next(iter(self.descriptions.values())).metric

    @property
    def shares_public_data(self) -> bool:
        """Whether every client has a part of a public data set."""
        return all(description.partition_digest for description in self.descriptions.values())

    def class_titles(self, partition: int) -> list[str]:
        """A client's classes in the order of its logits, as the report names them."""
        description = self.descriptions[partition]
        return titles(description.space, self.facts.class_names or description.class_names)

    def record(self) -> dict[str, Any]:
        """For `clients.json`."""
        clients = [
            {"partition": partition} | asdict(description)
            for partition, description in self.descriptions.items()
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
        classes differ. With more than `MANY_CLIENTS` clients, an evenly spaced selection is
        compared.
        """
        if self.facts.own_ends:
            return None
        counts = []
        for description in self.descriptions.values():
            class_counts = description.statistics.get("class_counts")
            if class_counts and any(class_counts):
                by_name = dict(zip(description.class_names, class_counts, strict=True))
                counts.append([by_name.get(name, 0) for name in self.facts.class_names])
        if len(counts) < 2:
            return None
        from scipy.spatial.distance import pdist  # a run of one client needs no scipy

        # One call, because a thousand clients have 499,500 pairs.
        step = -(-len(counts) // MANY_CLIENTS)
        sample = np.array(counts[::step], float)
        return float(np.median(pdist(sample, "jensenshannon")))


def connect(grid: Grid, config: RunConfig, run: str, expected: Sequence[int] = ()) -> Federation:
    """Ask every connected node for a description of its data, and refuse nodes that do not fit.

    Parameters
    ----------
    expected : sequence of int
        The partitions of a resumed run. The run waits for this number of nodes, at least
        `min-replies`, and starts without nodes that do not connect.

    Raises
    ------
    FederationError
        If too few nodes fit, two nodes have the same partition-id, or the method or the metric does
        not work on such data.
    """
    num_needed = max(config.min_replies, len(expected))
    patience = NODE_WAIT if nodes_can_join(grid) else 0.0
    nodes = _connected(grid, num_needed, patience)
    pronoun = "it has" if len(nodes) == 1 else "they have"
    log.info("%s; asking what data %s", _connection(len(nodes)), pronoun)
    header = Header(run, DESCRIBE, 0)
    replies, failures, _ = exchange(
        grid, {node: Request(header) for node in nodes}, config.round_timeout
    )
    refused = {f"node {node}": str(reason) for node, reason in failures.items()}
    partitions = nodes_by_partition(replies)
    descriptions = {
        partition: description
        for partition, node in partitions.items()
        if (description := replies[node].description) is not None
    }
    refused |= {
        f"partition-id {partition}": reason
        for partition, reason in remove_unlike(descriptions).items()
    }
    for names, reason in grouped(refused):
        log.warning("refused %s: %s", ", ".join(names), reason)
    _check_enough(descriptions, refused, len(nodes), config, expected)
    facts = facts_for(descriptions, config)
    if facts.own_ends:
        shown = list(descriptions.items())[:20]
        spaces = ", ".join(
            f"{partition}: {description.space or description.num_features}"
            for partition, description in shown
        )
        log.warning(
            "the clients' feature spaces differ (%s): %s stay at each client",
            spaces,
            ", ".join(INPUT_OUTPUT_LAYERS),
        )
    if learner_class(config.row).lists_clients:
        facts = replace(facts, partitions=tuple(descriptions))
    nodes_of_run = {partition: partitions[partition] for partition in descriptions}
    examples = {}
    if config.sends_examples:
        examples = {
            partition: replies[node].num_examples for partition, node in nodes_of_run.items()
        }
    registered = {node.node_id: node.name for node in grid.get_nodes() if node.name}
    node_names = {
        partition: registered[node]
        for partition, node in nodes_of_run.items()
        if node in registered
    }
    federation = Federation(nodes_of_run, descriptions, facts, refused, examples, node_names)
    return _ask_for_start(grid, config, run, federation)


def nodes_back(
    grid: Grid, config: RunConfig, run: str, federation: Federation, partitions: Iterable[int]
) -> dict[int, int]:
    """The connected nodes of clients that were away, by partition. A node that was restarted can
    have another id; it is known by its description."""
    connected = set(grid.get_node_ids())
    nodes = {
        partition: federation.nodes[partition]
        for partition in partitions
        if federation.nodes[partition] in connected
    }
    missing = set(partitions) - nodes.keys()
    unknown = sorted(connected - set(federation.nodes.values()))
    if missing and unknown:
        requests = {node: Request(Header(run, DESCRIBE, 0)) for node in unknown}
        replies, _, _ = exchange(grid, requests, config.round_timeout)
        for node, reply in replies.items():
            is_known = reply.description == federation.descriptions.get(reply.partition)
            if reply.partition in missing and is_known:
                nodes[reply.partition] = node
    return nodes


def _check_enough(
    descriptions: Mapping[int, Description],
    refused: Mapping[str, str],
    nodes: int,
    config: RunConfig,
    expected: Sequence[int],
) -> None:
    """Refuse a run with too few clients, or without one of its data sets."""
    if len(descriptions) < config.min_replies:
        texts = [
            f"{', '.join(names[:3])}{', …' * (len(names) > 3)}: {reason}"
            for names, reason in grouped(refused)
        ]
        if missing := ", ".join(
            str(partition) for partition in expected if partition not in descriptions
        ):
            texts.insert(
                0,
                f"partition-id {missing} took part before and is missing: start its node, and"
                " resume the run",
            )
        reasons = "; ".join(texts[:3]) or _connection(nodes)
        raise FederationError(
            f"{len(descriptions)} of {amount(nodes, 'node')} can take part, needed are"
            f" {config.min_replies}. {reasons}",
            key="too-few-clients",
        )
    if refused and any(description.space for description in descriptions.values()):
        # A mean over some of the data sets must not pass for one over all.
        name, reason = next(iter(refused.items()))
        raise FederationError(
            f"{len(refused)} of {nodes} clients of {config.dataset} cannot take part; {name}:"
            f" {reason}",
            key="refused-clients",
        )


def nodes_can_join(grid: Grid) -> bool:
    """Whether more nodes may connect; False for nodes in the server's process."""
    return not getattr(grid, "works_in_pull", False)


def _connection(number: int) -> str:
    """The number of connected nodes, in words."""
    return f"{amount(number or 'no', 'node')} {be(number)} connected"


def _connected(grid: Grid, expected: int, wait: float) -> list[int]:
    """Sorted ids of the connected nodes; waits up to `wait` seconds for `expected` nodes."""
    deadline = time.monotonic() + wait
    is_logged = False
    while len(nodes := sorted(grid.get_node_ids())) < expected and time.monotonic() < deadline:
        if not is_logged:
            log.info("%s; waiting up to %g s for %d", _connection(len(nodes)), wait, expected)
            is_logged = True
        time.sleep(0.5)
    if len(nodes) < expected:
        log.warning(
            "starting with %s of %d; nodes that connect later can take part after a resume",
            amount(len(nodes), "node"),
            expected,
        )
    return nodes


def grouped(refused: Mapping[str, str]) -> list[tuple[list[str], str]]:
    """The names of the refused nodes or clients, grouped by reason: those that read the same files
    often share one."""
    names_by_reason: dict[str, list[tuple[str, str]]] = {}
    for name, reason in refused.items():
        prefix = _SELF.match(reason)
        text = reason[prefix.end() :] if prefix else reason
        tag = prefix[1] if prefix else ""
        names_by_reason.setdefault(text, []).append((name, tag))
    groups = []
    for reason, members in names_by_reason.items():
        if len(members) == 1:
            name, _ = members[0]
            groups.append(([name], refused[name]))
        else:
            groups.append(
                ([f"{name} ({prefix})" if prefix else name for name, prefix in members], reason)
            )
    return groups


def _ask_for_start(grid: Grid, config: RunConfig, run: str, federation: Federation) -> Federation:
    """Ask the clients for figures from which a personal parameter starts, if the method has one."""
    learner = learner_class(config.row)
    if not issubclass(learner, StartsFromAll):
        return federation
    name = learner.asked_for(config.own_keys)
    if not name:
        return federation
    spec = model_spec(resolve_defaults(config, federation.facts.task), federation.facts)
    if name not in dict(build_model(spec, config.seed).named_parameters()):
        return federation
    header = Header(run, START, 0)
    requests = {node: Request(header) for node in federation.nodes.values()}
    replies, failures, _ = exchange(grid, requests, config.round_timeout)
    for partition, node in federation.nodes.items():
        if node in failures:
            label = federation.label(partition)
            log.warning("%s: no figures for the start of %s: %s", label, name, failures[node])
    answers = [
        replies[node].metrics if node in replies else {} for node in federation.nodes.values()
    ]
    facts = replace(federation.facts, figures=learner.start_figures(answers))
    return replace(federation, facts=facts)


def read_test(config: RunConfig, federation: Federation) -> Any:
    """The server's test examples; None if it lacks them.

    Raises
    ------
    ConfigError
        If they cannot be read, or have other classes or another shape.
    """
    facts = federation.facts
    if config.test_data == "none":
        return None
    if config.test_data == "auto" and not federation.shares_public_data:
        log.info("no global accuracy: the server has no test data (test-data)")
        return None
    try:
        dataset = open_dataset(with_bits(config, facts.bits), facts.task)
        test = dataset.test(config.test_path)
        if test is not None:
            test.check_test(facts.shape, facts.class_names)
    except DataError as error:
        source = f'test-data = "{config.test_data}"'
        if config.test_data == "auto":
            source = f'dataset = "{config.dataset}"'
        raise ConfigError(f"{source}: {error}", key="data") from None
    return test
