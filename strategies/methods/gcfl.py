"""GCFL and GCFL+ (Xie et al., NeurIPS 2021): averages within clusters of clients whose updates agree."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from curvfed.strategies.base.aggregation import Aggregation, Replies
from curvfed.strategies.base.average import Arrays, check_names, split_average
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import ENDS, Method
from curvfed.strategies.base.run_keys import RunKeys


class Keys(Table):
    """Keys of GCFL and GCFL+."""

    eps1: Rate = Field(
        default=0.05,
        ge=0,
        description="a cluster of clients may be split when the norm of its mean update is below this; it goes with "
        "learning rate and width, and the summary's mean_update_norm says what it is held against. It is never split "
        "where at most half of its clients reply in a round",
    )
    eps2: Rate = Field(
        default=0.1,
        ge=0,
        description="and when the norm of a client's update is above this (largest_update_norm); at least eps1, so that "
        "clients that agree are never parted",
    )
    warmup: int = Field(default=20, ge=0, le=1_000_000, description="rounds before the first that may split a cluster")
    window: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="0: clients are parted by the directions of their updates (GCFL); n: by the norms of their last n "
        "updates, under dynamic time warping (GCFL+; the authors use 5 and 10)",
    )

    def conflict(self) -> str:
        """A cluster of clients that agree is never parted."""
        if self.eps1 <= self.eps2:
            return ""
        return f"gcfl.eps1 = {self.eps1} and gcfl.eps2 = {self.eps2}: allowed is eps1 <= eps2"


Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Updates:
    """What is looked at of the updates of n clients of one cluster.

    Attributes
    ----------
    products : array, (n, n)
        Inner products of any two.
    mean_norm : float
        Norm of their unweighted mean.
    """

    products: Matrix
    mean_norm: float

    @classmethod
    def of(cls, start: Arrays, models: Sequence[Arrays]) -> "Updates":
        """Of the updates model - start.

        Raises
        ------
        AggregationError
            If a model has other parameters than the start.
        """
        for arrays in models:
            check_names(arrays, start)
        products, square = np.zeros((len(models), len(models))), 0.0
        # By name: a model that comes from a checkpoint has its parameters in another order, and sums must not tell.
        for name in sorted(start):
            rows = np.stack([arrays[name].ravel() for arrays in models]).astype(np.float64)
            rows -= start[name].ravel()
            mean = rows.mean(axis=0)
            products += rows @ rows.T
            square += float(mean @ mean)
        return cls(products, math.sqrt(square))

    @property
    def norms(self) -> Matrix:
        """(n,)."""
        return np.sqrt(self.products.diagonal())

    def weights(self) -> Matrix:
        """Edge weights of GCFL, (n, n), in [0, 2]: 1 + cosine of two updates. That with one of 0 is taken to be 0."""
        scale = self.norms[:, None] * self.norms
        cosines = np.divide(self.products, scale, out=np.zeros_like(scale), where=scale > 0)
        weights: Matrix = np.maximum(1 + cosines, 0)  # opposite updates: rounding must not make a weight negative
        return weights


class GcflServer(Aggregation):
    """A model for every cluster; one cluster at first, which is split in two again and again.

    A cluster is split when its model stands still while single clients still move: when the norm of its clients' mean
    update is below ε1 and that of the largest update above ε2. The halves are the minimum cut of the complete graph over
    its clients, whose edges weigh 1 + the cosine of two updates, or for GCFL+ what the largest distance between two
    sequences of update norms exceeds theirs by. Then each cluster averages its own replies by examples.

    So far the paper. The authors' code decides that the mean is unweighted; that there is no split in the first rounds, nor
    of fewer than three clients; that after a split all sequences start anew. Of its two forms of GCFL+ this is the one
    with norms of updates, which the server knows; for the other, clients would have to send norms of gradients.

    The paper has all clients take part. Here those decide who replied in the round and have examples, if they are most of
    the cluster's known clients; the others stay with the larger half, which keeps the cluster's number. A client that was
    never heard of is in cluster 0.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from.
    eps1, eps2 : float
    warmup : int
        Rounds before the first that can split.
    window : int
        Length of the sequences of GCFL+; 0 is GCFL.
    """

    def __init__(self, arrays: Arrays, eps1: float, eps2: float, warmup: int, window: int) -> None:
        self._models = [arrays]
        self._eps1, self._eps2, self._warmup, self._window = eps1, eps2, warmup, window
        self._round = 0
        self._cluster: dict[int, int] = {}
        self._sequences: dict[int, list[float]] = {}
        self._norms = (0.0, 0.0)

    def sent_to(self, partition: int) -> Arrays:
        """The model of the client's cluster."""
        return self._models[self._cluster.get(partition, 0)]

    def aggregate(self, replies: Replies) -> None:
        """Split what is to be split, and average within the clusters."""
        self._round += 1
        self._cluster |= {p: 0 for p in replies if p not in self._cluster}
        heard: dict[int, list[int]] = {}
        for partition, update in replies.items():
            if update.examples:
                heard.setdefault(self._cluster[partition], []).append(partition)
        updates = {
            number: Updates.of(self._models[number], [replies[p].arrays for p in heard[number]])
            for number in sorted(heard)
        }
        for number, found in updates.items():
            self._note(heard[number], found)
        for number, found in updates.items():
            self._split(number, heard[number], found)
        self._norms = (
            min((found.mean_norm for found in updates.values()), default=0.0),
            max((float(found.norms.max()) for found in updates.values()), default=0.0),
        )
        for number, model in enumerate(self._models):
            self._models[number] = split_average(model, [r for p, r in replies.items() if self._cluster[p] == number])

    def _note(self, partitions: Sequence[int], updates: Updates) -> None:
        if self._window:
            for partition, norm in zip(partitions, updates.norms.tolist(), strict=True):
                self._sequences[partition] = [*self._sequences.get(partition, []), norm][-self._window :]

    def _split(self, number: int, partitions: Sequence[int], updates: Updates) -> None:
        known = sum(cluster == number for cluster in self._cluster.values())
        if self._round <= self._warmup or len(partitions) < 3 or 2 * len(partitions) <= known:
            return
        if not (updates.mean_norm < self._eps1 and updates.norms.max() > self._eps2):
            return
        if self._window:
            sequences = [self._sequences.get(partition, []) for partition in partitions]
            if min(map(len, sequences)) < self._window:
                return
            weights = sequence_weights(sequences)
            self._sequences = {}
        else:
            weights = updates.weights()
        for index in min_cut(weights)[1]:
            self._cluster[partitions[index]] = len(self._models)
        self._models.append(self._models[number])

    def state(self) -> Arrays:
        """ "cluster/number/name" for every model, who is in which, the number of rounds, and the norms."""
        models = {f"cluster/{c}/{name}": a for c, model in enumerate(self._models) for name, a in model.items()}
        sequences = {f"sequence/{p}": np.array(norms) for p, norms in sorted(self._sequences.items())}
        about: Arrays = {
            "members": np.array(sorted(self._cluster.items()), np.int64).reshape(-1, 2),
            "rounds": np.array(self._round),
            "norms": np.array(self._norms),
        }
        return models | sequences | about

    def load(self, state: Arrays) -> None:
        """Go on from stored clusters."""
        models: dict[int, Arrays] = {}
        self._sequences = {}
        for key, array in state.items():
            kind, _, rest = key.partition("/")
            if kind == "cluster":
                number, _, name = rest.partition("/")
                models.setdefault(int(number), {})[name] = array
            elif kind == "sequence":
                self._sequences[int(rest)] = array.tolist()
        self._models = [models[number] for number in range(len(models))]
        self._cluster = {int(p): int(number) for p, number in state["members"]}
        self._round = int(state["rounds"])
        self._norms = float(state["norms"][0]), float(state["norms"][1])

    def figures(self) -> dict[str, float]:
        """How many clusters, and what ε1 and ε2 were held against in the last round: the least and greatest norms."""
        return {
            "clusters": len(self._models),
            "mean_update_norm": self._norms[0],
            "largest_update_norm": self._norms[1],
        }


def sequence_weights(sequences: Sequence[Sequence[float]]) -> Matrix:
    """Edge weights of GCFL+, (n, n): the largest of all distances by dynamic time warping, less that of two rows."""
    distances: Matrix = np.array([[time_warping(one, other) for other in sequences] for one in sequences])
    weights: Matrix = distances.max() - distances
    return weights


def time_warping(one: Sequence[float], other: Sequence[float]) -> float:
    """Distance of two sequences by dynamic time warping (Sakoe & Chiba, 1978), without a band.

    The least √(Σ (a - b)²) over all ways to walk through both from end to end, a step going on in either or both.
    """
    row = [0.0] + [math.inf] * len(other)
    for a in one:
        above, row = row, [math.inf]
        for j, b in enumerate(other):
            row.append((a - b) ** 2 + min(above[j], above[j + 1], row[j]))
    return math.sqrt(row[-1])


def min_cut(weights: Matrix) -> tuple[list[int], list[int]]:
    """Cut the complete graph in two so that the weights across are least (Stoer & Wagner, 1997).

    Parameters
    ----------
    weights : array, (n, n), n >= 2
        Symmetric and not negative; the diagonal is of no account.

    Returns
    -------
    list of int, list of int
        The halves, ascending, the larger first; of equal ones that with row 0.
    """
    import networkx

    graph = networkx.Graph()
    graph.add_weighted_edges_from((i, j, float(weights[i, j])) for i in range(len(weights)) for j in range(i))
    one, other = sorted(map(sorted, networkx.stoer_wagner(graph)[1]), key=lambda half: (-len(half), half[0]))
    return one, other


def server(arrays: Arrays, keys: Keys, run: RunKeys, clients: int) -> Aggregation:
    """The server's half of a run."""
    return GcflServer(arrays, keys.eps1, keys.eps2, keys.warmup, keys.window)


METHODS = {
    "gcfl": Method(
        "layers averaged within clusters of clients whose updates agree, classifier stays (Xie et al., 2021)",
        space="flat",
        personal=ENDS,
        aggregation="clusters",
        keys={"gcfl": Keys},
        server=server,
    ),
}
