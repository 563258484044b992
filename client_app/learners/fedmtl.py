"""Federated multi-task learning's local work (MOCHA, Smith et al., NIPS 2017), by stochastic gradients."""

import numpy as np
import torch

from curvfed.strategies.base.deviations import is_buffer
from curvfed.strategies.base.learner import Arrays, Learner, Local, copy_in, part
from curvfed.strategies.base.training import Pull
from curvfed.strategies.multi_task import PULL, WEIGHT
from curvfed.strategies.wire.arrays import MessageError, check_arrays


class FedMtl(Learner):
    """w_k ← w_k − η (∇f_k(w_k) + λ₁ (a_k w_k + b_k) + λ₂ w_k): steps on f_k + λ₁/2 tr(W Ω Wᵀ) + λ₂/2 ‖W‖² (Eq. 1).

    MOCHA solves the dual of a linear model's problem; a network has none, so these are the clients' usual steps, from w_k
    as the last round left it. All other models rest meanwhile: a_k and b_k come from the server
    (`curvfed.strategies.multi_task`). The paper writes both terms without the halves, its authors' code the first with
    it. λ₁ is `fedmtl.coupling`, λ₂ `fedmtl.ridge`; with both 0 each client trains alone.

    Parameters
    ----------
    local : Local
    """

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._pulls = {
            name: torch.zeros_like(local.tensors[name].detach()) for name in local.shared if not is_buffer(name)
        }
        self._weight = 0.0

    def receive(self, arrays: Arrays) -> None:
        """w_k, b_k and a_k."""
        own = self.share()
        pulls = {f"{PULL}{name}": own[name] for name in self._pulls}
        check_arrays(arrays, own | pulls | {WEIGHT: np.zeros(1)})
        if not arrays[WEIGHT][0] >= 0:
            raise MessageError(f"{WEIGHT} is {arrays[WEIGHT][0]}; allowed is a number >= 0")
        copy_in({name: arrays[name] for name in own}, self.local.tensors)
        copy_in(part(arrays, PULL), self._pulls)
        self._weight = float(arrays[WEIGHT][0])

    def pulls(self) -> list[Pull]:
        """The gradients of both terms, beside what others ask for."""
        return [*super().pulls(), self._pull]

    def _pull(self) -> None:
        keys = self.local.config.fedmtl
        for name, constant in self._pulls.items():
            parameter = self.local.trained.get(name)
            if parameter is not None and parameter.grad is not None:
                parameter.grad.add_(parameter.detach(), alpha=keys.coupling * self._weight + keys.ridge)
                parameter.grad.add_(constant, alpha=keys.coupling)


LEARNER = FedMtl
