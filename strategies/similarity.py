"""Aggregation by similarity of what the clients' models compute (FED-PUB, Baek et al., ICML 2023)."""

import numpy as np
from numpy.typing import NDArray

from strategies.aggregation import Aggregation, Replies
from strategies.split import Arrays, split_average
from tasks.graphs.functional import EMBEDDING

Matrix = NDArray[np.float64]


class Similarity(Aggregation):
    """Every client starts from an average of its own, in which the models that compute alike weigh more.

    The start of client i is Σ_j α_ij θ_j with α_ij = exp(τ S_ij) / Σ_k exp(τ S_ik), S_ij the cosine of the functional
    embeddings of i and j, over the clients j that replied in the round, i included. Numbers of examples do not enter.

    The embedding comes with the shared parameters, from the client, as in the authors' code (`tasks.graphs.functional`);
    the masks that it depends on stay there. The paper has all clients take part; the code decides that a client which does
    not reply keeps the start that it has, and that one which never replied starts from the plain average by examples. A
    client without examples has learnt nothing: it is given a start, but is in nobody's.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from, the embedding among them.
    scale : float
        τ; at 0 every start is the unweighted mean.
    """

    def __init__(self, arrays: Arrays, scale: float) -> None:
        self._average = arrays
        self._starts: dict[int, Arrays] = {}
        self._scale = scale

    def sent_to(self, partition: int) -> Arrays:
        """The client's own start, or the plain average until it has one."""
        return self._starts.get(partition, self._average)

    def aggregate(self, replies: Replies) -> None:
        """Give a start to every client that replied."""
        self._average = split_average(self._average, list(replies.values()))
        learnt = [update.arrays for update in replies.values() if update.examples]
        if not learnt:
            return
        embeddings = np.stack([update.arrays[EMBEDDING] for update in replies.values()]).astype(np.float64)
        sources = np.stack([arrays[EMBEDDING] for arrays in learnt]).astype(np.float64)
        weights = mixing_weights(embeddings, sources, self._scale)
        starts: dict[int, Arrays] = {partition: {} for partition in replies}
        for name, array in self._average.items():
            stacked = np.stack([arrays[name].ravel() for arrays in learnt]).astype(np.float64)
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


def mixing_weights(embeddings: Matrix, sources: Matrix, scale: float) -> Matrix:
    """Softmax over the sources of scale times the cosine: row i says what the start of i is made of.

    Parameters
    ----------
    embeddings : array, (n, d)
    sources : array, (m, d)
    scale : float

    Returns
    -------
    array, (n, m)
        Rows sum to 1. The cosine with a vector of zeros, which has no direction, is taken to be 0.
    """
    scores = scale * (_directions(embeddings) @ _directions(sources).T)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights: Matrix = shares / shares.sum(axis=1, keepdims=True)
    return weights


def _directions(vectors: Matrix) -> Matrix:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Matrix = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return unit
