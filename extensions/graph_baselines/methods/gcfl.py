"""GCFL and GCFL+ (Xie et al., NeurIPS 2021): averages within clusters of clients with similar
updates."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import Field

from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.aggregation import Aggregation, Replies, check_names, split_average
from curvfed.strategies.base.figure import Figure
from curvfed.strategies.base.figures import register
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import GRAPHS, INPUT_OUTPUT_LAYERS, Method
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Arrays, join_groups, select_prefix, split_groups


class Keys(Table):
    """Keys of GCFL and GCFL+."""

    eps1: Rate = Field(default=50.0, ge=0)
    """a cluster of clients may split if the norm of its mean update is below this times the
    learning rate; a good value depends on the width, and mean_update_norm in the summary is the
    norm to compare with. A cluster never splits if at most half of its clients reply. The authors
    use .03 to .08 at a rate of .001"""
    eps2: Rate = Field(default=100.0, ge=0)
    """a cluster splits only if the norm of a client's update is above this times the learning rate
    (largest_update_norm in the summary); at least eps1, so that clients that agree stay together"""
    warmup: int = Field(default=20, ge=0, le=1_000_000)
    """rounds before the first that may split a cluster"""
    window: int = Field(default=0, ge=0, le=10_000)
    """0: split clients by the directions of their updates (GCFL); n: by the norms of their last n
    updates, under dynamic time warping (GCFL+; the authors use 5 and 10)"""

    def conflicts(self, config: RunKeys) -> Iterator[tuple[str, str]]:
        """`eps1` above `eps2` would split clusters of clients that agree."""
        if self.eps1 > self.eps2:
            yield "gcfl.eps1 gcfl.eps2", "eps1 <= eps2"


@dataclass(frozen=True, eq=False)
class Updates:
    """Statistics of the updates of n clients of one cluster.

    Attributes
    ----------
    products : array, (n, n)
        Inner products of all pairs.
    mean_norm : float
        Norm of their unweighted mean.
    """

    products: Floats
    mean_norm: float

    @classmethod
    def of(cls, start: Arrays, models: Sequence[Arrays]) -> "Updates":
        """Statistics of the updates model - start.

        Raises
        ------
        AggregationError
            If a model has other parameters than the start.
        """
        for arrays in models:
            check_names(arrays, start)
        products = np.zeros((len(models), len(models)))
        square = 0.0
        # Sorted: parameters from a checkpoint have another order, which must not change the sums.
        for name in sorted(start):
            rows = np.stack([arrays[name].ravel() for arrays in models]).astype(np.float64)
            rows -= start[name].ravel()
            mean = rows.mean(axis=0)
            products += rows @ rows.T
            square += float(mean @ mean)
        return cls(products, math.sqrt(square))

    @property
    def norms(self) -> Floats:
        """Norms of the updates, (n,)."""
        return np.sqrt(self.products.diagonal())

    def weights(self) -> Floats:
        """Edge weights of GCFL, (n, n), in [0, 2]: 1 + cosine of two updates; with an update of 0
        it is 1."""
        scale = self.norms[:, None] * self.norms
        cosines = np.divide(self.products, scale, out=np.zeros_like(scale), where=scale > 0)
        return np.maximum(1 + cosines, 0)  # of opposite updates, after rounding


CLUSTER = "cluster/"
SEQUENCE = "sequence/"
"""Prefixes in the state: of models, followed by "number/name", and of clients' update norms, by
partition."""


class GcflServer(Aggregation):
    """Every cluster has a model. At first all clients are in one cluster, which is repeatedly split
    in two.

    A cluster is split when its model hardly changes while single clients still do: when the norm of
    its clients' mean update is below ε1 and that of the largest update is above ε2. The halves are
    a minimum cut of the complete graph over its clients. The weight of an edge is 1 + the cosine of
    two updates; for GCFL+ it is the largest distance between any two sequences of update norms
    minus the distance between these two. Then each cluster averages its replies by examples.

    The norms are those of updates and go with the learning rate; so do the keys that set ε1 and ε2,
    and a cluster is split at the same stage of training at any rate.

    Further details follow the authors' code: the mean is unweighted; clusters are not split in the
    first rounds, nor with fewer than three clients; after a split all sequences start anew. This is
    the code's form of GCFL+ with norms of updates, which the server knows; for the code's other
    form, clients would have to send norms of gradients.

    In the paper all clients take part in every round. Here a split is decided by the clients that
    replied in the round and have examples, if they are more than half of the cluster's known
    clients; the others stay in the larger half, which keeps the cluster's number. A client that
    never replied is in cluster 0.
    """

    name = "clusters"
    keys: Keys

    def begin(self, arrays: Arrays) -> None:
        """Start with one cluster."""
        self._models = [arrays]
        self._round = 0
        self._cluster: dict[int, int] = {}
        self._sequences: dict[int, list[float]] = {}
        self._norms = (0.0, 0.0)

    def sent_to(self, partition: int) -> Arrays:
        """The model of the client's cluster."""
        return self._models[self._cluster.get(partition, 0)]

    def aggregate(self, replies: Replies) -> None:
        """Split clusters where due, and average within each cluster."""
        self._round += 1
        trained: dict[int, list[int]] = {}
        for partition, update in replies.items():
            number = self._cluster.setdefault(partition, 0)
            if update.weight:
                trained.setdefault(number, []).append(partition)
        updates: dict[int, Updates] = {}
        for number in sorted(trained):
            models = [replies[partition].arrays for partition in trained[number]]
            updates[number] = Updates.of(self._models[number], models)
        if window := self.keys.window:
            for number, statistics in updates.items():
                for partition, norm in zip(trained[number], statistics.norms.tolist(), strict=True):
                    norms = [*self._sequences.get(partition, []), norm]
                    self._sequences[partition] = norms[-window:]
        for number, statistics in updates.items():
            self._split(number, trained[number], statistics)
        mean_norms = [statistics.mean_norm for statistics in updates.values()]
        largest_norms = [float(statistics.norms.max()) for statistics in updates.values()]
        self._norms = (min(mean_norms, default=0.0), max(largest_norms, default=0.0))
        for number, model in enumerate(self._models):
            members = [reply for p, reply in replies.items() if self._cluster[p] == number]
            self._models[number] = split_average(model, members)
        self._report()

    def _split(self, number: int, partitions: Sequence[int], updates: Updates) -> None:
        keys = self.keys
        rate = self.config.learning_rate
        size = sum(cluster == number for cluster in self._cluster.values())
        if self._round <= keys.warmup or len(partitions) < 3 or 2 * len(partitions) <= size:
            return
        if not (updates.mean_norm < keys.eps1 * rate and updates.norms.max() > keys.eps2 * rate):
            return
        if keys.window:
            sequences = [self._sequences.get(partition, []) for partition in partitions]
            if min(map(len, sequences)) < keys.window:
                return
            weights = sequence_weights(sequences)
            self._sequences = {}
        else:
            weights = updates.weights()
        for index in min_cut(weights)[1]:
            self._cluster[partitions[index]] = len(self._models)
        self._models.append(self._models[number])

    def state(self) -> Arrays:
        """The models as "cluster/number/name", each client's cluster, the number of rounds, and the
        norms."""
        models = join_groups(CLUSTER, dict(enumerate(self._models)))
        sequences = {
            f"{SEQUENCE}{p}": np.array(norms) for p, norms in sorted(self._sequences.items())
        }
        counters: Arrays = {
            "members": np.array(sorted(self._cluster.items()), np.int64).reshape(-1, 2),
            "rounds": np.array(self._round),
            "norms": np.array(self._norms),
        }
        return models | sequences | counters

    def load(self, state: Arrays) -> None:
        """Continue from stored clusters."""
        models = split_groups(state, CLUSTER)
        self._models = [models[number] for number in range(len(models))]
        self._sequences = {
            int(p): norms.tolist() for p, norms in select_prefix(state, SEQUENCE).items()
        }
        self._cluster = {int(p): int(number) for p, number in state["members"]}
        self._round = int(state["rounds"])
        self._norms = float(state["norms"][0]), float(state["norms"][1])
        self._report()

    def _report(self) -> None:
        """Number of clusters, and the least mean and largest update norm of the last round, to
        compare with ε1 and ε2."""
        self.figures = {
            "clusters": len(self._models),
            "mean_update_norm": self._norms[0],
            "largest_update_norm": self._norms[1],
        }


def sequence_weights(sequences: Sequence[Sequence[float]]) -> Floats:
    """Edge weights of GCFL+, (n, n): the largest distance by dynamic time warping minus that of the
    two sequences."""
    distances = np.zeros((len(sequences), len(sequences)))
    for row, first in enumerate(sequences):
        distances[row] = [time_warping(first, second) for second in sequences]
    return distances.max() - distances


def time_warping(first: Sequence[float], second: Sequence[float]) -> float:
    """Distance of two sequences by dynamic time warping (Sakoe & Chiba, 1978), without a band.

    The least √(Σ (a - b)²) over all alignments of the two sequences; a step advances in one or in
    both.
    """
    row = [0.0] + [math.inf] * len(second)
    for a in first:
        above = row
        row = [math.inf]
        for j, b in enumerate(second):
            nearest = min(above[j], above[j + 1], row[j])
            row.append((a - b) ** 2 + nearest)
    return math.sqrt(row[-1])


def min_cut(weights: Floats) -> tuple[list[int], list[int]]:
    """Minimum cut of the complete graph (Stoer & Wagner, 1997).

    Parameters
    ----------
    weights : array, (n, n), n >= 2
        Symmetric and not negative; the diagonal is ignored.

    Returns
    -------
    list of int, list of int
        The halves, ascending, the larger one first; of equal ones the one with row 0.
    """
    import networkx

    graph = networkx.Graph()
    graph.add_weighted_edges_from(
        (i, j, float(weights[i, j])) for i in range(len(weights)) for j in range(i)
    )
    _, halves = networkx.stoer_wagner(graph)
    larger, smaller = sorted(map(sorted, halves), key=lambda half: (-len(half), half[0]))
    return larger, smaller


register(
    Figure("clusters", "clusters of clients"),
    Figure("mean_update_norm", "norm of a cluster's mean update, least"),
    Figure("largest_update_norm", "norm of a client's update, largest"),
)

METHODS = {
    "gcfl": Method(
        "average within clusters of clients with similar updates, personal classifiers (Xie et al.,"
        " 2021)",
        space="flat",
        personal=INPUT_OUTPUT_LAYERS,
        keys={"gcfl": Keys},
        tuned={task: {"gcfl.eps1": (25.0, 100.0)} for task in GRAPHS},
        server=GcflServer,
    ),
}
