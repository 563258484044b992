"""Aggregation by similarity of what the clients' models compute (FED-PUB, Baek et al., ICML 2023)."""

import numpy as np

from curvfed.strategies.base.aggregation import Replies
from curvfed.strategies.base.average import Arrays, split_average
from curvfed.strategies.base.own_starts import Matrix, Starts, cosines
from curvfed.tasks.graphs.functional import EMBEDDING


class Similarity(Starts):
    """Every client starts from an average of its own, in which the models that compute alike weigh more.

    The start of client i is Σ_j α_ij θ_j with α_ij = exp(τ S_ij) / Σ_k exp(τ S_ik), S_ij the cosine of the functional
    embeddings of i and j, over the clients j that replied in the round, i included. Numbers of examples do not enter.

    The embedding comes with the shared parameters, from the client, as in the authors' code
    (`curvfed.tasks.graphs.functional`); the masks that it depends on stay there. The paper has all clients take part;
    the code decides that a client which does not reply keeps the start that it has, and that one which never replied
    starts from the plain average by examples. A client without examples has learnt nothing: it is given a start, but is
    in nobody's.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from, the embedding among them.
    scale : float
        τ; at 0 every start is the unweighted mean.
    """

    def __init__(self, arrays: Arrays, scale: float) -> None:
        super().__init__(arrays)
        self._scale = scale

    def aggregate(self, replies: Replies) -> None:
        """Give a start to every client that replied."""
        self._average = split_average(self._average, list(replies.values()))
        learnt = [update.arrays for update in replies.values() if update.examples]
        if not learnt:
            return
        embeddings = np.stack([update.arrays[EMBEDDING] for update in replies.values()]).astype(np.float64)
        sources = np.stack([arrays[EMBEDDING] for arrays in learnt]).astype(np.float64)
        weights = mixing_weights(embeddings, sources, self._scale)
        self._mix(replies, learnt, weights)


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
    scores = scale * cosines(embeddings, sources)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights: Matrix = shares / shares.sum(axis=1, keepdims=True)
    return weights
