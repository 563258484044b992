"""FedGTA's local work (Li et al., VLDB 2024): FedAvg's, and what the graph looks like through the model's soft labels."""

from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from curvfed.strategies.base.learner import Arrays, Learner, copy_in, host
from curvfed.strategies.topology import CONFIDENCE, MOMENTS
from curvfed.strategies.wire.arrays import check_arrays
from curvfed.tasks.graphs.client_task import NodeTask
from curvfed.tasks.graphs.label_propagation import moments, propagate, smoothing_confidence


class FedGTA(Learner):
    """With the parameters goes what the server compares the clients' graphs by.

    Y⁰ are the model's probabilities, at training nodes the labels; Yᵏ is what k steps of propagation make of them
    (`curvfed.tasks.graphs.label_propagation`). Sent are the moments of softmax(Yᵏ) up to order K, class by class, over
    all nodes, and the local smoothing confidence of softmax(Yᵏ/T), whose degrees count no self-loop. Both have the
    labels at training nodes.

    The propagation is the paper's; its authors' code decides that the soft labels come from a softmax after it, with a
    temperature T for the confidence, that training nodes have their labels before and after it, and that the powers are
    not taken about the mean.
    """

    def receive(self, arrays: Arrays) -> None:
        """Take in the client's start."""
        check_arrays(arrays, super().share())
        copy_in(arrays, self.local.tensors)

    def share(self) -> dict[str, NDArray[Any]]:
        """The shared parameters, the moments and the confidence."""
        shared = super().share()
        return shared | self._figures(shared["head.bias"].dtype)

    def _figures(self, dtype: np.dtype[Any]) -> dict[str, NDArray[Any]]:
        model, keys, task = self.local.model, self.local.config.fedgta, cast(NodeTask, self.local.task)
        (batch,) = task.batches(model)
        soft = task.logits(model).softmax(dim=1)
        truth = F.one_hot(batch.labels, soft.shape[1]).to(soft.dtype)
        soft[batch.rows] = truth
        last = propagate(soft, batch.inputs.adjacency, keys.steps, keys.alpha)
        soft, softer = last.softmax(dim=1), (last / keys.temperature).softmax(dim=1)
        soft[batch.rows], softer[batch.rows] = truth, truth
        degrees = torch.bincount(batch.inputs.edge_index[0], minlength=len(soft)).to(soft.dtype)
        found = {MOMENTS: moments(soft, keys.moments), CONFIDENCE: smoothing_confidence(softer, degrees)}
        return {name: host(tensor).astype(dtype) for name, tensor in found.items()}


LEARNER = FedGTA
