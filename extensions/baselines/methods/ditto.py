"""Ditto (Li et al., ICML 2021): FedAvg, and a personal model at each client that is pulled towards
the shared one."""

from pydantic import Field
from torch import Tensor

from curvfed.extensions.baselines.own_model import OwnModel, kept_moments
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Local, fresh_optimizer
from curvfed.strategies.base.method import GRAPHS, IMAGES, Method
from curvfed.strategies.base.tensors import clones
from curvfed.strategies.base.training import Proximal, Trained, train


class Keys(Table):
    """Keys of Ditto."""

    mu: Rate = Field(default=1.0, ge=0)
    """lambda of lambda/2 ||v - w||^2, which draws a client's own model v to the shared one; 0: each
    client trains alone. 1 is HyperFed's choice (Appendix B)"""
    epochs: int = Field(default=1, ge=1, le=10_000)
    """passes per round that train a client's own model, in addition to local-epochs"""


class DittoClient(OwnModel):
    """v ← v − η (∇f(v) + λ (v − θ)) for `ditto.epochs` passes, θ as received; then θ is trained and
    shared as in FedAvg.

    This is Algorithm 1 with FedAvg as its solver for θ; v never affects θ. λ is `ditto.mu`. At λ =
    0 v is trained as by `local` with the same `optimizer-state`, except that it draws other dropout
    and batches.
    """

    keys: Keys

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._optimizer = fresh_optimizer(self.own, local.config)

    def local_state(self) -> dict[str, Tensor]:
        """The personal model, and its optimiser's moments if the run keeps moments."""
        return super().local_state() | kept_moments(self._optimizer, self.local.config)

    def train(self) -> Trained:
        """Train both models; loss and number of steps are those of the shared one."""
        local = self.local
        clip_norm = self.local.config.clip_norm
        received = clones(local.tensors[name] for name in self.own_trained)
        term = Proximal(self.own_trained.values(), self.keys.mu / 2, received)
        if local.config.optimizer_state != "kept":
            self._optimizer.reset()
        self._optimizer.learning_rate = local.optimizer.learning_rate
        train(self.own, local.task, self._optimizer, self.keys.epochs, [term], clip_norm)
        return super().train()


METHODS = {
    "ditto": Method(
        "fedavg, and each client's own model beside it, drawn to the shared one (Li et al., 2021)",
        space="flat",
        tasks=(*GRAPHS, *IMAGES),
        settings={"images": {"fine_tune_epochs": 0}},
        keys={"ditto": Keys},
        tuned={task: {"ditto.mu": (0.1, 0.3, 3.0)} for task in (*GRAPHS, *IMAGES)},
        client=DittoClient,
    ),
}
