"""MOON (Li, He & Song, CVPR 2021): features are drawn to the shared model's and away from the client's last."""

import contextlib
import copy
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local
from curvfed.strategies.base.method import GRAPHS, IMAGES, Method
from curvfed.strategies.base.model_state import named_state
from curvfed.strategies.base.training import Trained
from curvfed.tasks.task import Batch


class Keys(Table):
    """Keys of MOON."""

    mu: Rate = Field(
        default=1.0,
        ge=0,
        description="mu, weight of the contrastive term beside the local loss; 0 is fedavg. 1 is HyperFed's choice "
        "(Appendix B); the authors use .1 to 10",
    )
    temperature: Rate = Field(
        default=0.5, gt=0, description="tau, which the cosines of the contrastive term are divided by"
    )


PREVIOUS = "previous/"
"""What the names of the client's last model begin with."""


class MoonClient(Learner):
    """f(θ) + μ ℓ, ℓ the mean over the batch of −log(e^(s⁺/τ)/(e^(s⁺/τ) + e^(s⁻/τ))): Section 3.3, Eqs. 3 and 4.

    s⁺ is the cosine of the features z of an example under the model in training and under the model received, s⁻ that of z
    and the features under the model that the client ended its last round with. z is what the classifier sees: the layers
    before it stand for the paper's projection head, which all methods have there in its experiments, so that they train one
    network here as well.

    Before a client's first own round its last model is the seeded start. In the first round of a run that is the model
    received, so that ℓ = log 2 and its gradient is 0; in a later one ℓ draws away from the start. The paper is silent on
    this; in the authors' code the last models are initial ones too, but for the first round, where there is no ℓ.

    The two other models are in evaluation mode, as in the authors' code. On graphs so are they: their features then are
    those that the models are used by, and they draw no dropout, of which the model in training has as many draws as under
    FedAvg. At μ = 0 neither computes anything.

    In the first step of a round z is what the model received makes of the example, so that s⁺ is at its maximum and ℓ does
    nothing but draw away from what the client learnt last. A round of a single step, as graphs have by default, has no
    other: there μ = 1 costs accuracy, and takes `local-epochs` of 3 or more to be of no harm.

    Parameters
    ----------
    local : Local
    """

    keys: Keys

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._received, self._previous = (copy.deepcopy(local.model).requires_grad_(False).eval() for _ in range(2))

    def local_state(self) -> dict[str, Tensor]:
        """All that the last model computes with."""
        return {f"{PREVIOUS}{name}": tensor for name, tensor in named_state(self._previous).items()}

    def train(self) -> Trained:
        """The round's steps, between the model received and that which the next round is to differ from."""
        self._copy_to(self._received)
        trained = super().train()
        self._copy_to(self._previous)
        return trained

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The local loss and μ ℓ, from one pass of the model, and one of each of the others."""
        keys = self.keys
        if not keys.mu:
            return super().loss(model, batch)
        with seen_by_head(model) as seen:
            loss = super().loss(model, batch)
        features = batch.of(seen[-1])
        near, far = (_cosines(features, other, batch) for other in (self._received, self._previous))
        return loss + keys.mu * F.softplus((far - near) / keys.temperature).mean()

    @torch.no_grad()
    def _copy_to(self, other: nn.Module) -> None:
        for name, tensor in named_state(other).items():
            tensor.copy_(self.local.tensors[name])


def _cosines(features: Tensor, other: nn.Module, batch: Batch) -> Tensor:
    """Of the examples' features (n, d) and those that another model gives them, (n,); 0 for features of 0."""
    with torch.no_grad(), seen_by_head(other) as seen:
        other(batch.inputs)
    return F.cosine_similarity(features, batch.of(seen[-1]), dim=1)


@contextlib.contextmanager
def seen_by_head(model: nn.Module) -> Iterator[list[Tensor]]:
    """What the classifier of a model is called with, pass by pass, as they come within the block."""
    seen: list[Tensor] = []
    handle = model.get_submodule("head").register_forward_pre_hook(lambda head, given: seen.append(given[0]))
    try:
        yield seen
    finally:
        handle.remove()


METHODS = {
    "moon": Method(
        "fedavg with features drawn to the shared model's and away from the client's last (Li et al., 2021)",
        space="flat",
        tasks=(*GRAPHS, *IMAGES),
        # With the task's one step a round the model starts where it is drawn to, and is only pushed away.
        settings={"nodes": {"local_epochs": 3}},
        keys={"moon": Keys},
        reads_classifier=True,
        client=MoonClient,
    ),
}
