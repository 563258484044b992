"""FedGTA (Li et al., VLDB 2024): each client has its own average, over the clients with similar
soft labels."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field

from curvfed.extensions.graph_baselines.label_propagation import (
    moments,
    propagate,
    smoothing_confidence,
)
from curvfed.extensions.graph_baselines.personal_averages import PersonalAverages, cosines
from curvfed.geometry.arrays import Booleans, Floats
from curvfed.strategies.base.aggregation import AggregationError, Replies, split_average
from curvfed.strategies.base.figure import Figure
from curvfed.strategies.base.figures import register
from curvfed.strategies.base.keys import Table
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import Method
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Arrays
from curvfed.tasks.graphs.client_task import NodeTask


class Keys(Table):
    """Keys of FedGTA."""

    retired = (("temperature", 20.0),)

    steps: int = Field(default=5, ge=0, le=1000)
    """k, number of steps of label propagation"""
    alpha: float = Field(default=0.5, ge=0, le=1)
    """alpha, the weight of a node's own soft label in each step"""
    moments: int = Field(default=13, ge=1, le=1000)
    """K, the highest order of the moments by which soft labels are compared"""
    threshold: float = Field(default=0.65, ge=-1, le=1)
    """epsilon, the minimum cosine of the moments of two clients that are averaged together;
    models_per_start in the summary is the mean number of these clients. The authors use .65 on
    PubMed, .6 on CiteSeer"""

    def conflicts(self, config: RunKeys) -> Iterator[tuple[str, str]]:
        """Its learner looks at the whole graph."""
        if config.batch_size:
            yield "batch-size method", "batch-size = auto or 0, for it uses whole graphs"


TEMPERATURE = 20.0
"""T of the soft labels in a client's confidence, as in the authors' code."""

SOURCES = "topology/sources"
"""Name of the mean number of models per average in the server's state."""

MOMENTS = "topology/moments"
CONFIDENCE = "topology/confidence"
"""Arrays that a client sends with the shared parameters: moments of its soft labels, (K, C), and
its confidence, ()."""


class FedGtaServer(PersonalAverages):
    """Every client starts from its own average, over the clients with similar moments of their soft
    labels.

    The average of client i is Σ_j H_j θ_j / Σ_j H_j over the clients j with cos(M_i, M_j) ≥ ε,
    where M are their moments and H is their local smoothing confidence. Client i's own model is
    always included, with its confidence as weight. Numbers of examples do not matter.

    In the paper all clients take part in every round. Here a client that does not reply keeps its
    average, and one that never replied starts from the plain average by examples. A client without
    examples gets an average (the plain one if no client is similar), but its model enters no
    average. Similar clients that all have a confidence of 0, because their graphs lack edges, get
    equal weights. At ε = −1 all clients get the same average, at 1 each its own model, unless two
    have the same moments.
    """

    name = "topology"
    keys: Keys

    def begin(self, arrays: Arrays) -> None:
        """Start all clients from the initial parameters."""
        super().begin(arrays)
        self._report(0.0)

    def _report(self, sources: float) -> None:
        """The mean number of models in a client's average, in the last round."""
        self.figures = {"models_per_start": sources}

    def expected_reply(self, partition: int) -> Arrays:
        """The arrays that were sent to it, its moments (a row per order, a column per class) and
        its confidence."""
        bias = self._average["head.bias"]
        graph = {
            MOMENTS: np.zeros((self.keys.moments, bias.size), bias.dtype),
            CONFIDENCE: np.zeros((), bias.dtype),
        }
        return self.sent_to(partition) | graph

    def aggregate(self, replies: Replies) -> None:
        """Compute an average for every client that replied."""
        if not all({MOMENTS, CONFIDENCE} <= update.arrays.keys() for update in replies.values()):
            raise AggregationError(
                f"{MOMENTS} and {CONFIDENCE} are not in every reply", key="parameters"
            )
        models: dict[int, Arrays] = {}
        for partition, update in replies.items():
            models[partition] = dict(update.arrays)
            del models[partition][MOMENTS]
            del models[partition][CONFIDENCE]
        updates = [
            replace(update, arrays=models[partition]) for partition, update in replies.items()
        ]
        self._average = split_average(self._average, updates)
        trained = [partition for partition, update in replies.items() if update.weight]
        if not trained:
            return
        moments = {
            partition: update.arrays[MOMENTS].astype(np.float64).ravel()
            for partition, update in replies.items()
        }
        # A confidence is never negative; a client that lies about it must not change the signs of
        # the sums.
        confidences = [float(replies[partition].arrays[CONFIDENCE]) for partition in trained]
        confidence = np.array([max(value, 0.0) for value in confidences])
        all_moments = np.stack(list(moments.values()))
        trained_moments = np.stack([moments[p] for p in trained])
        alike = cosines(all_moments, trained_moments) >= self.keys.threshold
        # Rounding must not exclude a client's own model.
        alike |= np.array(list(replies))[:, None] == np.array(trained)
        examples = np.array([replies[partition].weight for partition in trained], np.float64)
        self._mix(
            replies,
            [models[partition] for partition in trained],
            shares(alike, confidence, examples),
        )
        self._report(float(alike.sum(axis=1).mean()))

    def state(self) -> Arrays:
        """The averages, and the mean number of models per average."""
        return super().state() | {SOURCES: np.array(self.figures["models_per_start"])}

    def load(self, state: Arrays) -> None:
        """Continue from stored averages."""
        super().load({name: array for name, array in state.items() if name != SOURCES})
        self._report(float(state[SOURCES]))


def shares(alike: Booleans, confidence: Floats, examples: Floats) -> Floats:
    """Weights of the averages, (n, m), rows sum to 1: similar clients by confidence, or all by
    examples if none is similar.

    Parameters
    ----------
    alike : array, (n, m)
    confidence, examples : array, (m,)
        Not negative; no number of examples is 0.
    """
    weights = alike * confidence
    without_confidence = weights.sum(axis=1) == 0
    weights[without_confidence] = alike[without_confidence]
    weights[~alike.any(axis=1)] = examples
    return weights / weights.sum(axis=1, keepdims=True)


class FedGtaClient(Learner):
    """The client sends figures about its graph with the parameters, by which the server compares
    the clients.

    Y⁰ are the model's probabilities, and the labels at training nodes; Yᵏ is Y⁰ after k steps of
    propagation (`curvfed.tasks.graphs.sparse`). The client sends the moments of
    softmax(Yᵏ) up to order K for each class over all nodes, and the local smoothing confidence of
    softmax(Yᵏ/T), with degrees that count no self-loops. In both, training nodes have their labels.

    The propagation is the paper's. The rest follows the authors' first code: soft labels come from
    a softmax after the propagation, with a temperature T for the confidence; training nodes have
    their labels before and after it; the moments are not central.
    """

    keys: Keys
    reports_statistics = True

    def share(self) -> Arrays:
        """The shared parameters, the moments and the confidence."""
        shared = super().share()
        return shared | self._graph_figures(shared["head.bias"].dtype)

    def _graph_figures(self, dtype: np.dtype[Any]) -> Arrays:
        model = self.local.model
        keys = self.keys
        task = cast(NodeTask, self.local.task)
        (batch,) = task.batches(model)
        soft = task.logits(model).softmax(dim=1)
        truth = F.one_hot(batch.labels, soft.shape[1]).to(soft.dtype)
        soft[batch.rows] = truth
        last = propagate(soft, batch.inputs.adjacency, keys.steps, keys.alpha)
        soft = last.softmax(dim=1)
        softer = (last / TEMPERATURE).softmax(dim=1)
        soft[batch.rows] = truth
        softer[batch.rows] = truth
        num_edges = torch.bincount(batch.inputs.edge_index[0], minlength=len(soft))
        degrees = num_edges.to(soft.dtype)
        figures = {
            MOMENTS: moments(soft, keys.moments),
            CONFIDENCE: smoothing_confidence(softer, degrees),
        }
        return {name: tensor.numpy(force=True).astype(dtype) for name, tensor in figures.items()}


register(Figure("models_per_start", "models in a client's average, mean", digits=1))

METHODS = {
    "fedgta": Method(
        "a personal average per client over clients with similar soft labels, by confidence (Li et"
        " al., 2024)",
        space="flat",
        tasks=("nodes",),
        keys={"fedgta": Keys},
        tuned={"nodes": {"fedgta.threshold": (0.3, 0.9)}},
        server=FedGtaServer,
        client=FedGtaClient,
    ),
}
