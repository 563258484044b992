"""FedProto (Tan et al., AAAI 2022): clients share the mean features of each class, and no
parameters."""

from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from curvfed.strategies.base.aggregation import Average, Replies, split_average
from curvfed.strategies.base.keys import Rate, Scalar, Table
from curvfed.strategies.base.learner import Learner, Local
from curvfed.strategies.base.method import IMAGES, PLAIN_MEAN, Method, Network
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.base.training import Trained
from curvfed.tasks.images.client_task import classifier_inputs
from curvfed.tasks.task import Batch

MEANS = "head.means"
"""Name of the prototypes (C, d) of all clients, the only parameter that is shared."""

SUMS = f"sums/{MEANS}"
COUNTS = f"counts/{MEANS}"
"""Names of a client's sums of features by class (C, d), and of its numbers of examples (C,), both
divided by its number of examples."""


class Keys(Table):
    """Keys of FedProto."""

    retired: ClassVar[tuple[tuple[str, Scalar], ...]] = (("predicts", "prototypes"),)

    weight: Rate = Field(default=1.0, ge=0)
    """lambda, weight of the squared distance of features from their prototypes"""


class FedProtoServer(Average):
    """The prototype of a class is the plain mean of the clients' means, as in the authors' code.

    With `weights = examples` it is the mean of its features over all examples of all clients that
    replied (Eq. 6). A class that no client has keeps its prototype, which the authors' code drops.
    """

    name = "prototypes"
    summed_clients = "own"
    keys: Keys

    def expected_reply(self, partition: int) -> Arrays:
        """Sums and numbers by class in place of the prototypes."""
        means = self._arrays[MEANS]
        return {SUMS: np.zeros_like(means), COUNTS: np.zeros_like(means[:, 0])}

    def aggregate(self, replies: Replies) -> None:
        """The means by class, over examples or clients."""
        totals = split_average(self.expected_reply(0), list(replies.values()))
        counts = totals[COUNTS][:, None]
        # Sums of no examples are exactly 0, also in a secure sum.
        divisors = np.where(counts > 0, counts, 1)
        means = np.where(counts > 0, totals[SUMS] / divisors, self._arrays[MEANS])
        self._arrays = {MEANS: means.astype(counts.dtype)}


class FedProtoClient(Learner):
    """Trains a network of its own on f(θ_k) + λ ‖z − c_y‖²/d, the mean over a batch: Eq. 7.

    z are an example's features, d their number, c_y the prototype of its class; an example of a
    class without prototype adds 0 to the second term, as in the authors' code, which divides by d
    like this one. After the round's steps the client sums its features by class, in evaluation
    mode, where the authors' code uses those of its last pass. A real node leaves out its small
    classes.
    """

    keys: Keys
    reports_statistics = True
    sums_by_name = True
    hides_records = False

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._forget()

    def _forget(self) -> None:
        self._sums = torch.zeros_like(self.local.tensors[MEANS].detach())
        self._counts = torch.zeros_like(self._sums[:, 0])

    def receive(self, arrays: Arrays) -> None:
        """The prototypes; without training the client shares no features."""
        super().receive(arrays)
        self._forget()

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The cross-entropy of the client's classifier, and the distance from the prototypes."""
        features: Tensor = model.features(batch.inputs)  # type: ignore[operator]
        logits = model.head(features)  # type: ignore[operator]
        means = self.local.tensors[MEANS].detach()[batch.labels]
        distances = (features - means).square().mean(1) * means.any(1)
        loss = F.cross_entropy(logits, batch.labels)
        return loss + self.keys.weight * distances.mean()

    def train(self) -> Trained:
        """The round's steps, and the sums of features after them."""
        trained = super().train()
        features, labels = classifier_inputs(self.local.model, self.local.task)
        leaves = self.local.leaving.examples(labels.numpy())
        one_hot = F.one_hot(labels, len(self._counts)).to(features.dtype)
        classes = one_hot / max(len(labels), 1)
        classes *= torch.from_numpy(leaves)[:, None]
        self._sums = classes.T @ features
        self._counts = classes.sum(0)
        if self.local.config.weights == "uniform":
            self._sums /= torch.where(self._counts > 0, self._counts, 1)[:, None]
            self._counts = self._counts.sign()
        return trained

    def share(self) -> Arrays:
        """Sums and numbers by class, over the number of examples; with `weights = uniform` means,
        and 1 for each class that the client has."""
        return {
            SUMS: self._sums.numpy(force=True),
            COUNTS: self._counts.numpy(force=True),
        }


PERSONAL = ("body.*", "head.weight", "head.bias")

METHODS = {
    "fedproto": Method(
        "own networks, drawn to shared means of each class's features (Tan et al., 2022)",
        space="flat",
        personal=PERSONAL,
        network=Network(head="means"),
        tasks=IMAGES,
        settings={"images": PLAIN_MEAN | {"fine_tune_epochs": 0}},
        keys={"fedproto": Keys},
        tuned={"images": {"fedproto.weight": (0.1, 10.0)}},
        server=FedProtoServer,
        client=FedProtoClient,
    ),
}
