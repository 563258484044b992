"""Ditto's local work (Li et al., ICML 2021): the shared model as in FedAvg, and one of the client's own drawn to it."""

from curvfed.strategies.base.learner import Local, copies, fresh_optimizer
from curvfed.strategies.base.own_model import OwnModel
from curvfed.strategies.base.training import Proximal, Trained, train


class Ditto(OwnModel):
    """v ← v − η (∇f(v) + λ (v − θ)) for `ditto.epochs` passes, θ as received; then θ is trained and shared as in FedAvg.

    Algorithm 1 with FedAvg as its solver for θ: v never enters what is shared. λ is `ditto.mu`; at 0 v is trained as by
    `local`, but for the optimiser, which starts afresh in every round, and the draws of dropout and batches.
    """

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._optimizer = fresh_optimizer(self.own, local.config)

    def train(self) -> Trained:
        """Both models; the loss and the steps are those of the shared one."""
        local, config = self.local, self.local.config
        own = {name: parameter for name, parameter in self.own.named_parameters() if parameter.requires_grad}
        pull = Proximal(own.values(), config.ditto.mu / 2, copies(local.tensors[name] for name in own))
        self._optimizer.reset()
        self._optimizer.learning_rate = local.optimizer.learning_rate
        train(self.own, local.task, self._optimizer, config.ditto.epochs, [pull], config.clip_norm)
        return super().train()


LEARNER = Ditto
