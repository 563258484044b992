"""MOON (Li, He & Song, CVPR 2021): features are pulled to the shared model's and away from the
client's previous ones."""

import contextlib
import copy
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local
from curvfed.strategies.base.method import GRAPHS, IMAGES, Method, Network
from curvfed.strategies.base.statistics import add_prefix, named_state
from curvfed.strategies.base.tensors import copy_tensors
from curvfed.strategies.base.training import Trained
from curvfed.tasks.task import Batch


class Keys(Table):
    """Keys of MOON."""

    mu: Rate = Field(default=1.0, ge=0)
    """mu, weight of the contrastive term, added to the local loss; 0: as fedavg. 1 is HyperFed's
    choice (Appendix B); the authors use .1 to 10"""
    temperature: Rate = Field(default=0.5, gt=0)
    """tau, the temperature of the cosines in the contrastive term"""


PREVIOUS = "previous/"
"""Prefix of the names of the client's previous model in its local state."""


class MoonClient(Learner):
    """f(θ) + μ ℓ, ℓ the mean over the batch of −log(e^(s⁺/τ)/(e^(s⁺/τ) + e^(s⁻/τ))): Section 3.3,
    Eqs. 3 and 4.

    s⁺ is the cosine between the features z of an example in the model being trained and in the
    received model, s⁻ the one between z and the features in the client's previous model, with which
    it ended its last round. z is the input of the classifier. In the paper's experiments all
    methods have a projection head before the classifier; here its place is taken by the layers
    before the classifier, so that all methods train the same network.

    Before a client's first round its previous model is the initial model. In the first round of a
    run this is also the received model, so that ℓ = log 2 and its gradient is 0; in a later round ℓ
    pushes away from the initial model. The paper does not specify this case. In the authors' code
    the previous models are initial ones too, and the first round lacks ℓ.

    The two other models are in evaluation mode, as in the authors' code. They therefore draw no
    dropout, and the model being trained draws the same dropout as under FedAvg. At μ = 0 they
    compute nothing.

    In the first step of a round z is equal to the received model's features, so s⁺ is at its
    maximum and ℓ only pushes away from the previous model. A round with a single step, the default
    of graphs, ends there: μ = 1 then lowers the accuracy, unless `local-epochs` is at least 3.
    """

    keys: Keys

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._received, self._previous = (
            copy.deepcopy(local.model).requires_grad_(False).eval() for _ in range(2)
        )

    def local_state(self) -> dict[str, Tensor]:
        """Parameters and running statistics of the previous model."""
        return add_prefix(PREVIOUS, named_state(self._previous))

    def train(self) -> Trained:
        """The round's steps; the received model is copied before them, the trained model after
        them."""
        copy_tensors(self.local.tensors, named_state(self._received))
        trained = super().train()
        copy_tensors(self.local.tensors, named_state(self._previous))
        return trained

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The local loss plus μ ℓ, from one forward pass of each of the three models."""
        keys = self.keys
        if not keys.mu:
            return super().loss(model, batch)
        with head_inputs(model) as inputs:
            loss = super().loss(model, batch)
        features = batch.select(inputs[-1])
        near = _cosines(features, self._received, batch)
        far = _cosines(features, self._previous, batch)
        return loss + keys.mu * F.softplus((far - near) / keys.temperature).mean()


def _cosines(features: Tensor, model: nn.Module, batch: Batch) -> Tensor:
    """Cosine (n,) between features (n, d) of the examples and their features in another model; 0
    for features of 0."""
    with torch.no_grad(), head_inputs(model) as inputs:
        model(batch.inputs)
    return F.cosine_similarity(features, batch.select(inputs[-1]), dim=1)


@contextlib.contextmanager
def head_inputs(model: nn.Module) -> Iterator[list[Tensor]]:
    """A list to which every forward pass within the block appends the input of the model's
    classifier."""
    inputs: list[Tensor] = []
    handle = model.get_submodule("head").register_forward_pre_hook(
        lambda head, arguments: inputs.append(arguments[0])
    )
    try:
        yield inputs
    finally:
        handle.remove()


METHODS = {
    "moon": Method(
        "fedavg with features drawn to the shared model's and away from the client's earlier ones"
        " (Li et al., 2021)",
        space="flat",
        tasks=(*GRAPHS, *IMAGES),
        keys={"moon": Keys},
        tuned={task: {"moon.mu": (0.01, 0.1, 5.0)} for task in (*GRAPHS, *IMAGES)},
        network=Network(separates_head=True),
        client=MoonClient,
    ),
}
