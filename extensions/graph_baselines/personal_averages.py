"""Each client's own mix of the clients' models."""

from collections.abc import Iterable, Sequence

import numpy as np

from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.aggregation import Aggregation
from curvfed.strategies.base.statistics import Arrays, join_groups, split_groups, split_prefix

CLIENT = "client/"
"""Prefix of the clients' own averages in the state, followed by "partition/name"."""


class PersonalAverages(Aggregation):
    """Every client that replied gets its own average, and keeps it until its next reply; a client
    that never replied gets the plain average."""

    def begin(self, arrays: Arrays) -> None:
        """Start all clients from the initial parameters."""
        self._average = arrays
        self._personal: dict[int, Arrays] = {}

    def sent_to(self, partition: int) -> Arrays:
        """The client's own average, or the plain average until it has one."""
        return self._personal.get(partition, self._average)

    def _mix(self, partitions: Iterable[int], models: Sequence[Arrays], weights: Floats) -> None:
        """Give client i of n the average Σ_j weights_ij models_j; weights have shape (n, number of
        models)."""
        averages: dict[int, Arrays] = {partition: {} for partition in partitions}
        for name, array in self._average.items():
            stacked = np.stack([arrays[name].ravel() for arrays in models]).astype(np.float64)
            for average, mixed in zip(averages.values(), weights @ stacked, strict=True):
                average[name] = mixed.reshape(array.shape).astype(array.dtype)
        self._personal |= averages

    def state(self) -> Arrays:
        """The plain average by parameter name, and "client/partition/name" for every client's own
        average."""
        return self._average | join_groups(CLIENT, self._personal)

    def load(self, state: Arrays) -> None:
        """Continue from stored averages."""
        self._average, _ = split_prefix(state, CLIENT)
        self._personal = split_groups(state, CLIENT)


def cosines(rows: Floats, columns: Floats) -> Floats:
    """Cosine similarity of all pairs of rows, (n, d) and (m, d) -> (n, m); 0 for a vector of
    zeros.
    """
    return _directions(rows) @ _directions(columns).T


def _directions(vectors: Floats) -> Floats:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
