"""FED-PUB (Baek et al., ICML 2023): personal masks, and for each client its own average, weighted
by similarity."""

import numpy as np
from pydantic import Field

from curvfed.strategies.base.aggregation import Replies
from curvfed.strategies.base.average import split_average
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import GRAPHS, Method
from curvfed.strategies.base.personal_averages import Matrix, PersonalAverages, cosines
from curvfed.strategies.base.statistics import Arrays
from curvfed.tasks.graphs.models.functional_embedding import EMBEDDING


class Keys(Table):
    """Keys of FED-PUB."""

    scale: Rate = Field(
        default=3.0,
        ge=0,
        description=(
            "tau, the factor of the cosines in the softmax that weighs other clients' models; 0:"
            " equal weights. The authors use 3 for disjoint parts of a graph, 5 for overlapping"
            " parts"
        ),
    )
    l1: Rate = Field(
        default=1e-4,
        ge=0,
        description=(
            "lambda_1, coefficient of the L1 norm of the personal masks in the local objective. In"
            " the authors' code, with 1e-3, the term has no gradient; with a gradient 1e-3 brings"
            " the masks to nearly 0 within 100 rounds"
        ),
    )
    threshold: Rate = Field(
        default=1e-3,
        ge=0,
        le=1,
        description="threshold of the masks in evaluation: smaller entries count as 0",
    )
    proximal: Rate = Field(
        default=1e-3,
        ge=0,
        description=(
            "lambda_2, coefficient of the proximal term on the shared parameters; no effect with a"
            " single local step, as for flatland.proximal"
        ),
    )


class FedPubServer(PersonalAverages):
    """Every client starts from its own average, in which models that compute similar functions have
    larger weights.

    The average of client i is Σ_j α_ij θ_j with α_ij = exp(τ S_ij) / Σ_k exp(τ S_ik), where S_ij is
    the cosine of the functional embeddings of i and j, over the clients j that replied in the
    round, including i. Numbers of examples have no influence.

    As in the authors' code, the client computes the embedding
    (`curvfed.tasks.graphs.models.functional_embedding`) and sends it with the shared parameters;
    the masks that it depends on stay at the client. In the paper all clients take part in every
    round. As in the authors' code, a client that does not reply keeps its average, and one that
    never replied starts from the plain average by examples. A client without examples gets an
    average, but its model enters no average.

    Parameters
    ----------
    arrays : dict of str to array
        The initial shared parameters, including the embedding.
    scale : float
        τ; at 0 every average is the unweighted mean.
    """

    def __init__(self, arrays: Arrays, scale: float) -> None:
        super().__init__(arrays)
        self._scale = scale

    def aggregate(self, replies: Replies) -> None:
        """Compute an average for every client that replied."""
        self._average = split_average(self._average, list(replies.values()))
        trained = [update.arrays for update in replies.values() if update.weight]
        if not trained:
            return
        embeddings = np.stack([update.arrays[EMBEDDING] for update in replies.values()]).astype(
            np.float64
        )
        sources = np.stack([arrays[EMBEDDING] for arrays in trained]).astype(np.float64)
        self._mix(replies, trained, mixing_weights(embeddings, sources, self._scale))


def mixing_weights(embeddings: Matrix, sources: Matrix, scale: float) -> Matrix:
    """Softmax of scale times the cosine over the sources: row i has the weights of client i's
    average.

    Parameters
    ----------
    embeddings : array, (n, d)
    sources : array, (m, d)
    scale : float

    Returns
    -------
    array, (n, m)
        Rows sum to 1. The cosine with a vector of zeros is taken to be 0.
    """
    scores = scale * cosines(embeddings, sources)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


METHODS = {
    "fed-pub": Method(
        "fedavg with personal masks and a personal average by similarity (Baek et al., 2023)",
        space="flat",
        personal=("*.mask",),
        proximal="fed-pub.proximal",
        sparsity="fed-pub.l1",
        aggregation="similarity",
        keys={"fed-pub": Keys},
        tuned={task: {"fed-pub.scale": (1.0, 10.0)} for task in GRAPHS},
        server=lambda arrays, keys, run, clients: FedPubServer(arrays, keys.scale),
    ),
}
