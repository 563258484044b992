"""FedGTA (Li et al., VLDB 2024): an average of its own for each client, over those with like soft labels."""

from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field

from curvfed.strategies.base.aggregation import Aggregation, Replies
from curvfed.strategies.base.average import AggregationError, Arrays, split_average
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, load_arrays, to_numpy
from curvfed.strategies.base.method import Method
from curvfed.strategies.base.personal_averages import Matrix, PersonalAverages, cosines
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.wire.arrays import check_arrays
from curvfed.tasks.graphs.client_task import NodeTask
from curvfed.tasks.graphs.label_propagation import moments, propagate, smoothing_confidence


class Keys(Table):
    """Keys of FedGTA."""

    steps: int = Field(default=5, ge=0, le=1000, description="k, steps of label propagation")
    alpha: float = Field(
        default=0.5, ge=0, le=1, description="alpha, what a node keeps of its own soft label in each of them"
    )
    moments: int = Field(
        default=13, ge=1, le=1000, description="K: soft labels are compared by their moments of the orders 1 to K"
    )
    temperature: Rate = Field(
        default=20.0, gt=0, description="what soft labels are divided by where a client's confidence is measured"
    )
    threshold: float = Field(
        default=0.65,
        ge=-1,
        le=1,
        description="epsilon: a client's average is over those whose moments have a cosine with its own of at least this; "
        "the summary's models_per_start says how many these are. The authors have .65 on PubMed, .6 on CiteSeer",
    )


MOMENTS, CONFIDENCE = "topology/moments", "topology/confidence"
"""What a client sends beside the shared parameters: moments of its soft labels, (K, C), and its confidence, ()."""


class FedGtaServer(PersonalAverages):
    """Every client starts from an average over those whose soft labels have moments like its own.

    The start of client i is Σ_j H_j θ_j / Σ_j H_j over the clients j whose moments M_j have a cosine with M_i of at least
    ε, H their local smoothing confidence. Its own model is among them, with no more than its confidence. Numbers of
    examples do not enter.

    The paper has all clients take part. Here a client that does not reply keeps the start that it has, and one which never
    replied starts from the plain average by examples. A client without examples has learnt nothing: it is given a start,
    the plain average where nobody is like it, but is in nobody's. Where those who are alike have no confidence at all,
    being without edges, they count alike.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from.
    threshold : float
        ε; at −1 all have one start, at 1 each its own model, unless two have the same moments.
    order : int
        K, the number of moments.
    """

    def __init__(self, arrays: Arrays, threshold: float, order: int) -> None:
        super().__init__(arrays)
        self._threshold, self._order = threshold, order
        self._sources = 0.0

    def expected_reply(self, partition: int) -> Arrays:
        """What it was sent, and both figures; the classes are those of the classifier."""
        bias = self._average["head.bias"]
        figures = {MOMENTS: np.zeros((self._order, bias.size), bias.dtype), CONFIDENCE: np.zeros((), bias.dtype)}
        return self.sent_to(partition) | figures

    def aggregate(self, replies: Replies) -> None:
        """Give a start to every client that replied."""
        if not all({MOMENTS, CONFIDENCE} <= update.arrays.keys() for update in replies.values()):
            raise AggregationError(f"{MOMENTS} and {CONFIDENCE} are not in every reply")
        models = {
            partition: {name: array for name, array in update.arrays.items() if name not in (MOMENTS, CONFIDENCE)}
            for partition, update in replies.items()
        }
        updates = [replace(update, arrays=models[partition]) for partition, update in replies.items()]
        self._average = split_average(self._average, updates)
        learnt = [partition for partition, update in replies.items() if update.examples]
        if not learnt:
            return
        moments = {partition: _floats(update.arrays[MOMENTS]).ravel() for partition, update in replies.items()}
        # No client's own is negative; one that lies about it must not turn the sums around.
        confidence = np.array([max(float(replies[partition].arrays[CONFIDENCE]), 0.0) for partition in learnt])
        alike = cosines(np.stack(list(moments.values())), np.stack([moments[p] for p in learnt])) >= self._threshold
        # Rounding must not part a client from itself.
        alike |= np.array(list(replies))[:, None] == np.array(learnt)
        examples = np.array([replies[partition].examples for partition in learnt], np.float64)
        self._mix(replies, [models[partition] for partition in learnt], shares(alike, confidence, examples))
        self._sources = float(alike.sum(axis=1).mean())

    def state(self) -> Arrays:
        """The starts, and the mean number of models in each."""
        return super().state() | {"topology/sources": np.array(self._sources)}

    def load(self, state: Arrays) -> None:
        """Go on from stored starts."""
        super().load({name: array for name, array in state.items() if name != "topology/sources"})
        self._sources = float(state["topology/sources"])

    def figures(self) -> dict[str, float]:
        """How many models the clients' starts were made of in the last round, in the mean."""
        return {"models_per_start": self._sources}


def shares(alike: NDArray[np.bool_], confidence: Matrix, examples: Matrix) -> Matrix:
    """What each start is made of, (n, m), rows of sum 1: of those alike by confidence, of nobody alike all by examples.

    Parameters
    ----------
    alike : array, (n, m)
    confidence, examples : array, (m,)
        Not negative; no examples are 0.
    """
    weights = alike * confidence
    unsure = weights.sum(axis=1) == 0
    weights[unsure] = alike[unsure]
    weights[~alike.any(axis=1)] = examples
    found: Matrix = weights / weights.sum(axis=1, keepdims=True)
    return found


def _floats(array: NDArray[np.generic]) -> Matrix:
    return array.astype(np.float64)


class FedGtaClient(Learner):
    """With the parameters goes what the server compares the clients' graphs by.

    Y⁰ are the model's probabilities, at training nodes the labels; Yᵏ is what k steps of propagation make of them
    (`curvfed.tasks.graphs.label_propagation`). Sent are the moments of softmax(Yᵏ) up to order K, class by class, over
    all nodes, and the local smoothing confidence of softmax(Yᵏ/T), whose degrees count no self-loop. Both have the
    labels at training nodes.

    The propagation is the paper's; its authors' code decides that the soft labels come from a softmax after it, with a
    temperature T for the confidence, that training nodes have their labels before and after it, and that the powers are
    not taken about the mean.
    """

    keys: Keys

    def receive(self, arrays: Arrays) -> None:
        """Take in the client's start."""
        check_arrays(arrays, super().share())
        load_arrays(arrays, self.local.tensors)

    def share(self) -> dict[str, NDArray[Any]]:
        """The shared parameters, the moments and the confidence."""
        shared = super().share()
        return shared | self._figures(shared["head.bias"].dtype)

    def _figures(self, dtype: np.dtype[Any]) -> dict[str, NDArray[Any]]:
        model, keys, task = self.local.model, self.keys, cast(NodeTask, self.local.task)
        (batch,) = task.batches(model)
        soft = task.logits(model).softmax(dim=1)
        truth = F.one_hot(batch.labels, soft.shape[1]).to(soft.dtype)
        soft[batch.rows] = truth
        last = propagate(soft, batch.inputs.adjacency, keys.steps, keys.alpha)
        soft, softer = last.softmax(dim=1), (last / keys.temperature).softmax(dim=1)
        soft[batch.rows], softer[batch.rows] = truth, truth
        degrees = torch.bincount(batch.inputs.edge_index[0], minlength=len(soft)).to(soft.dtype)
        found = {MOMENTS: moments(soft, keys.moments), CONFIDENCE: smoothing_confidence(softer, degrees)}
        return {name: to_numpy(tensor).astype(dtype) for name, tensor in found.items()}


def server(arrays: Arrays, keys: Keys, run: RunKeys, clients: int) -> Aggregation:
    """The server's half of a run."""
    return FedGtaServer(arrays, keys.threshold, keys.moments)


METHODS = {
    "fedgta": Method(
        "an average of its own for each client, over those with like soft labels, by confidence (Li et al., 2024)",
        space="flat",
        tells_statistics=True,
        aggregation="topology",
        tasks=("nodes",),
        keys={"fedgta": Keys},
        server=server,
        client=FedGtaClient,
    ),
}
