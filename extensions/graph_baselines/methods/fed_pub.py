"""FED-PUB (Baek et al., ICML 2023): personal masks, and for each client its own average, weighted
by similarity."""

from collections.abc import Iterable, Iterator

import numpy as np
from pydantic import Field
from torch import nn

from curvfed.extensions.graph_baselines.functional_embedding import EMBEDDING, FedPubParts, embed
from curvfed.extensions.graph_baselines.personal_averages import PersonalAverages, cosines
from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.aggregation import Replies, split_average
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import GRAPHS, Method, Network
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.base.training import GradientTerm


class Keys(Table):
    """Keys of FED-PUB."""

    retired = (("threshold", 0.001),)

    scale: Rate = Field(default=3.0, ge=0)
    """tau, the factor of the cosines in the softmax that weighs other clients' models; 0: equal
    weights. The authors use 3 for disjoint parts of a graph, 5 for overlapping parts"""
    l1: Rate = Field(default=1e-4, ge=0)
    """lambda_1, coefficient of the L1 norm of the personal masks in the local objective. In the
    authors' code, with 1e-3, the term lacks a gradient; with a gradient 1e-3 brings the masks to
    nearly 0 within 100 rounds"""
    proximal: Rate = Field(default=1e-3, ge=0)
    """lambda_2, coefficient of the proximal term on the shared parameters; no effect with a single
    local step, as for flatland.proximal"""

    def proximal_terms(self) -> dict[str, float]:
        """The paper's term, without a half."""
        return {"proximal": self.proximal}

    def conflicts(self, config: RunKeys) -> Iterator[tuple[str, str]]:
        """Only these networks have masks."""
        if config.model not in (None, "gcn", "gin"):
            yield "model method", "model = auto, gcn or gin"


THRESHOLD = 1e-3
"""Entries of the masks below it count as 0 in evaluation, as in the authors' code."""


class FedPubServer(PersonalAverages):
    """Every client starts from its own average, in which models that compute similar functions have
    larger weights.

    The average of client i is Σ_j α_ij θ_j with α_ij = exp(τ S_ij) / Σ_k exp(τ S_ik), where S_ij is
    the cosine of the functional embeddings of i and j, over the clients j that replied in the
    round, including i. Numbers of examples do not matter.

    As in the authors' code, the client computes the embedding (`functional_embedding.py`) and sends
    it with the shared parameters; the masks that it depends on stay at the client. In the paper all
    clients take part in every round. As in the authors' code, a client that does not reply keeps
    its average, and one that never replied starts from the plain average by examples. A client
    without examples gets an average, but its model enters no average.
    """

    name = "similarity"
    keys: Keys

    def aggregate(self, replies: Replies) -> None:
        """Compute an average for every client that replied."""
        self._average = split_average(self._average, list(replies.values()))
        trained = [update.arrays for update in replies.values() if update.weight]
        if not trained:
            return
        rows = [update.arrays[EMBEDDING] for update in replies.values()]
        embeddings = np.stack(rows).astype(np.float64)
        sources = np.stack([arrays[EMBEDDING] for arrays in trained]).astype(np.float64)
        self._mix(replies, trained, mixing_weights(embeddings, sources, self.keys.scale))


def mixing_weights(embeddings: Floats, sources: Floats, scale: float) -> Floats:
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
    return shares / shares.sum(axis=1, keepdims=True)


class Sparsity:
    """The gradient of coefficient · Σ ‖parameter‖₁; at entries of 0 it is taken to be 0.

    Parameters
    ----------
    parameters : iterable of Parameter
    coefficient : float

    Examples
    --------
    >>> mask = nn.Parameter(torch.tensor([2.0, 0.0, -3.0]))
    >>> mask.grad = torch.zeros(3)
    >>> Sparsity([mask], 0.1)()
    >>> mask.grad
    tensor([ 0.1000,  0.0000, -0.1000])
    """

    def __init__(self, parameters: Iterable[nn.Parameter], coefficient: float) -> None:
        self._parameters = list(parameters)
        self._coefficient = coefficient

    def __call__(self) -> None:
        """Add the gradient; a parameter without a gradient is skipped."""
        for parameter in self._parameters:
            if parameter.grad is not None:
                parameter.grad.add_(parameter.detach().sign(), alpha=self._coefficient)


class FedPubClient(Learner):
    """FedAvg's local work under personal masks; it sends the functional embedding too."""

    keys: Keys

    def gradient_terms(self) -> list[GradientTerm]:
        """The gradient of the masks' L1 norm too."""
        trained = self.local.trained
        masks = [trained[name] for name in trained if name.endswith(".mask")]
        return [*super().gradient_terms(), Sparsity(masks, self.keys.l1)]

    def share(self) -> Arrays:
        """The shared parameters, with the embedding of the trained network."""
        local = self.local
        data = local.data
        embed(local.model, data.num_features, local.config.seed, data.graph_of_node is not None)
        return super().share()


METHODS = {
    "fed-pub": Method(
        "fedavg with personal masks and a personal average by similarity (Baek et al., 2023)",
        space="flat",
        personal=("*.mask",),
        network=Network(options={"addition": FedPubParts(THRESHOLD)}),
        keys={"fed-pub": Keys},
        tuned={task: {"fed-pub.scale": (1.0, 10.0)} for task in GRAPHS},
        server=FedPubServer,
        client=FedPubClient,
    ),
}
