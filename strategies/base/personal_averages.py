"""A start of its own for each client: what the aggregations have in common that average anew for every one of them."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.base.aggregation import Aggregation
from curvfed.strategies.base.average import Arrays

Matrix = NDArray[np.float64]


class PersonalAverages(Aggregation):
    """Every client that replied has a start of its own, and goes on from it until it replies again.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from; later the plain average, for clients that never replied.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._average = arrays
        self._starts: dict[int, Arrays] = {}

    def sent_to(self, partition: int) -> Arrays:
        """The client's own start, or the plain average until it has one."""
        return self._starts.get(partition, self._average)

    def _mix(self, partitions: Iterable[int], models: Sequence[Arrays], weights: Matrix) -> None:
        """Give client i of n the start Σ_j weights_ij models_j, weights of shape (n, number of models)."""
        starts: dict[int, Arrays] = {partition: {} for partition in partitions}
        for name, array in self._average.items():
            stacked = np.stack([arrays[name].ravel() for arrays in models]).astype(np.float64)
            for start, mixed in zip(starts.values(), weights @ stacked, strict=True):
                start[name] = mixed.reshape(array.shape).astype(array.dtype)
        self._starts |= starts

    def state(self) -> Arrays:
        """The plain average under the parameters' names, and "client/partition/name" for every start."""
        found = dict(self._average)
        for partition, start in sorted(self._starts.items()):
            found |= {f"client/{partition}/{name}": array for name, array in start.items()}
        return found

    def load(self, state: Arrays) -> None:
        """Go on from stored starts."""
        self._average, self._starts = {}, {}
        for key, array in state.items():
            if key.startswith("client/"):
                _, partition, name = key.split("/")
                self._starts.setdefault(int(partition), {})[name] = array
            else:
                self._average[key] = array


def cosines(rows: Matrix, columns: Matrix) -> Matrix:
    """Of every row of one matrix with every row of the other, (n, d) and (m, d) -> (n, m).

    That with a vector of zeros, which has no direction, is taken to be 0.
    """
    found: Matrix = _directions(rows) @ _directions(columns).T
    return found


def _directions(vectors: Matrix) -> Matrix:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Matrix = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return unit
