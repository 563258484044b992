"""FedDBE (Zhang et al., NeurIPS 2023): a personal offset of the features, and a regulariser that
holds their mean at a common one."""

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from curvfed.extensions.baselines.methods.fedrod import with_head
from curvfed.strategies.base.aggregation import Average, Replies, split_average
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local
from curvfed.strategies.base.method import IMAGES, Method, Network
from curvfed.strategies.base.optimizer import SGD
from curvfed.strategies.base.statistics import HEAD, Arrays
from curvfed.strategies.base.tensors import load_arrays
from curvfed.strategies.base.training import GradientTerm, Trained
from curvfed.strategies.wire.checks import check_arrays
from curvfed.tasks.task import Batch

MEAN = "consensus/mean"
"""Name in messages of the features' mean: of all clients, to a client; its own, from it."""

OFFSET = "offset"
"""Name of the client's offset in its local state."""


class Keys(Table):
    """Keys of FedDBE."""

    kappa: Rate = Field(default=1.0, ge=0)
    """kappa, weight of the squared distance of the features' mean from the common one; 1 is the
    authors' choice for ResNet-18. 50, theirs for a CNN of four layers, needs a rate as low as their
    .005 without momentum"""
    momentum: Rate = Field(default=1.0, gt=0, le=1)
    """mu, share of the last batch in the moving mean of the features; 1: that batch alone. 1 is the
    authors' choice for a CNN, .1 for ResNet-18"""


class FedDbeServer(Average):
    """FedAvg, and the mean of all clients' features after the first round, by numbers of examples,
    which stays from then on.

    In the authors' code the mean comes from training all clients once before the first round, and
    these models are dropped; here that is the first round, and its models are averaged.
    """

    summed_clients = "own"
    keys: Keys

    def begin(self, arrays: Arrays) -> None:
        """Start without a mean: zeros."""
        super().begin(arrays)
        weight = arrays[f"{HEAD}weight"]
        self._sent = arrays | {MEAN: weight[0] * 0}

    def sent_to(self, partition: int) -> Arrays:
        """The shared parameters and the mean."""
        return self._sent

    def aggregate(self, replies: Replies) -> None:
        """Average the parameters, and in the first round the means."""
        averages = split_average(self._sent, list(replies.values()))
        if self._sent[MEAN].any():
            averages[MEAN] = self._sent[MEAN]
        self.load(averages)

    def state(self) -> Arrays:
        """The parameters by name, and the mean."""
        return dict(self._sent)

    def load(self, state: Arrays) -> None:
        """Continue from stored parameters and mean."""
        self._sent = dict(state)
        self._arrays = {name: array for name, array in state.items() if name != MEAN}


class FedDbeClient(Learner):
    """Steps on f(h(z + b_k)) + κ/2 ‖m − m̄‖²/d: Section 4.

    z are the features, d their number, h the classifier, b_k the client's offset (the personalised
    representation bias memory), m a moving mean of z over the round's batches, begun at 0 in each
    round, and m̄ that of all clients. b_k has plain SGD at the run's learning rate. Until there is
    an m̄, the client trains as in FedAvg. Its score is that of h(z + b_k).
    """

    keys: Keys
    own_model = True
    hides_records = False

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        features = local.tensors[f"{HEAD}weight"][0].detach()
        self._offset = nn.Parameter(torch.zeros_like(features))
        self._common = torch.zeros_like(self._offset.detach())
        self._mean = torch.zeros_like(self._common)
        self._optimizer = SGD({OFFSET: self._offset}, 0.0, 0.0, 0.0)
        self._shifted = with_head(local.model, ShiftedHead(local.model, self._offset))

    def local_state(self) -> dict[str, Tensor]:
        """b_k."""
        return {OFFSET: self._offset}

    def receive(self, arrays: Arrays) -> None:
        """The shared parameters and m̄."""
        check_arrays(arrays, self.share())
        load_arrays(arrays, {**self.local.tensors, MEAN: self._common})
        self._mean = torch.zeros_like(self._common)

    def train(self) -> Trained:
        """The round's steps of the shared parameters and of b_k."""
        self._optimizer.learning_rate = self.local.optimizer.learning_rate
        return super().train()

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The cross-entropy of the shifted features, and the regulariser."""
        keys = self.keys
        features = model.features(batch.inputs)  # type: ignore[operator]
        mean = torch.lerp(self._mean, features.mean(0), keys.momentum)
        self._mean = mean.detach()
        if not self._common.any():
            return F.cross_entropy(model.head(features), batch.labels)  # type: ignore[operator]
        logits = model.head(features + self._offset)  # type: ignore[operator]
        distance = (mean - self._common).square().mean() / 2
        return F.cross_entropy(logits, batch.labels) + keys.kappa * distance

    def gradient_terms(self) -> list[GradientTerm]:
        """The terms of the shared parameters, and the step of b_k, which changes no other
        gradient."""
        return [*super().gradient_terms(), self._step]

    def _step(self) -> None:
        self._optimizer.step()
        self._optimizer.zero_grad()

    def share(self) -> Arrays:
        """The shared parameters, and m until there is an m̄, which goes back as it came."""
        mean = self._common if self._common.any() else self._mean
        return super().share() | {MEAN: mean.numpy(force=True)}

    @property
    def scored(self) -> nn.Module:
        """The model with shifted features."""
        return self._shifted

    @staticmethod
    def restored(model: nn.Module, state: Arrays) -> nn.Module:
        """The scored model, with the stored offset."""
        offset = nn.Parameter(torch.from_numpy(state[OFFSET].copy()))
        return with_head(model, ShiftedHead(model, offset))


class ShiftedHead(nn.Module):
    """A model's classifier, not a copy, on features to which an offset is added."""

    def __init__(self, model: nn.Module, offset: nn.Parameter) -> None:
        super().__init__()
        self.head: nn.Module = model.head  # type: ignore[assignment]
        self.offset = offset

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, C)."""
        return self.head(features + self.offset)


METHODS = {
    "feddbe": Method(
        "fedavg with a personal offset of the features, whose mean is held at a common one (Zhang"
        " et al., 2023)",
        space="flat",
        tasks=IMAGES,
        settings={"images": {"fine_tune_epochs": 0}},
        keys={"feddbe": Keys},
        tuned={"images": {"feddbe.kappa": (0.1, 10.0)}},
        network=Network(separates_head=True),
        server=FedDbeServer,
        client=FedDbeClient,
    ),
}
