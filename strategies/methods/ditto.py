"""Ditto (Li et al., ICML 2021): FedAvg, and a model of each client's own that is drawn to the shared one."""

from pydantic import Field

from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Local, clones, fresh_optimizer
from curvfed.strategies.base.method import GRAPHS, IMAGES, Method
from curvfed.strategies.base.own_model import OwnModel
from curvfed.strategies.base.training import Proximal, Trained, train


class Keys(Table):
    """Keys of Ditto."""

    mu: Rate = Field(
        default=1.0,
        ge=0,
        description="lambda of lambda/2 ||v - w||^2, which draws a client's own model v to the shared one; 0 is training "
        "alone. 1 is HyperFed's choice (Appendix B)",
    )
    epochs: int = Field(
        default=1, ge=1, le=10_000, description="passes that train a client's own model in a round, beside local-epochs"
    )


class DittoClient(OwnModel):
    """v ← v − η (∇f(v) + λ (v − θ)) for `ditto.epochs` passes, θ as received; then θ is trained and shared as in FedAvg.

    Algorithm 1 with FedAvg as its solver for θ: v never enters what is shared. λ is `ditto.mu`; at 0 v is trained as by
    `local`, but for the optimiser, which starts afresh in every round, and the draws of dropout and batches.
    """

    keys: Keys

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._optimizer = fresh_optimizer(self.own, local.config)

    def train(self) -> Trained:
        """Both models; the loss and the steps are those of the shared one."""
        local, config = self.local, self.local.config
        own = {name: parameter for name, parameter in self.own.named_parameters() if parameter.requires_grad}
        pull = Proximal(own.values(), self.keys.mu / 2, clones(local.tensors[name] for name in own))
        self._optimizer.reset()
        self._optimizer.learning_rate = local.optimizer.learning_rate
        train(self.own, local.task, self._optimizer, self.keys.epochs, [pull], config.clip_norm)
        return super().train()


METHODS = {
    "ditto": Method(
        "fedavg, and beside it a model of each client's own that is drawn to the shared one (Li et al., 2021)",
        space="flat",
        own_model=True,
        tasks=(*GRAPHS, *IMAGES),
        settings={"images": {"fine_tune_epochs": 0}},
        keys={"ditto": Keys},
        client=DittoClient,
    ),
}
