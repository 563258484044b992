"""pFedMe's local work (T. Dinh, Tran & Nguyen, NeurIPS 2020): a model of the client's own, and the shared one after it."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from curvfed.strategies.base.own_model import OwnModel
from curvfed.strategies.base.sgd import SGD
from curvfed.strategies.base.training import Proximal, Trained, train
from curvfed.strategies.config.run_config import RunConfig


class PFedMe(OwnModel):
    """For every batch K steps θ ← θ − δ (∇f(θ) + λ (θ − w)), then w ← w − ηλ (w − θ): Algorithm 1.

    λ (θ̃ − w) with θ̃ the end of the K steps stands for the gradient −∇F of the Moreau envelope F(w) = min f(θ) + λ/2
    ‖θ − w‖². A round has one such step of w per batch, in `local-epochs` passes, where the paper has R.

    The paper does not say where θ begins. The authors' code decides: at the w received, then, batch after batch, where the
    one before ended. Its steps are plain ones, and so are these, whatever `optimizer` and `momentum` say. δ is
    `learning-rate`, after the schedule, which leaves η as it is; `weight-decay` is a part of f.

    w is what is shared, θ what is kept and scored. Running statistics are those that θ met, and are shared as w's.
    """

    def train(self) -> Trained:
        """Both models; the loss is θ's over all steps of the last pass, the number of steps is w's."""
        local, config = self.local, self.local.config
        for name, tensor in self.own_state.items():
            tensor.detach().copy_(local.tensors[name].detach())
        own = {name: parameter for name, parameter in self.own.named_parameters() if parameter.requires_grad}
        shared = [local.tensors[name].detach() for name in own]
        steps = _Envelope(own, shared, local.optimizer.learning_rate, config)
        pull = Proximal(own.values(), config.pfedme.penalty / 2, shared)
        epochs, repeats = config.local_epochs, config.pfedme.steps
        loss = train(self.own, local.task, steps, epochs, [pull], config.clip_norm, self.loss, repeats)
        for name, tensor in self.own_state.items():
            if name not in own:
                local.tensors[name].detach().copy_(tensor.detach())
        return Trained(loss, epochs * local.task.num_steps)


class _Envelope(SGD):
    """Plain steps on θ, and after every K of them one of w towards it.

    Parameters
    ----------
    own : mapping of str to Parameter
        θ.
    shared : sequence of Tensor
        w, in the same order.
    learning_rate : float
        δ.
    config : RunConfig
    """

    def __init__(
        self, own: Mapping[str, nn.Parameter], shared: Sequence[Tensor], learning_rate: float, config: RunConfig
    ) -> None:
        super().__init__(own, learning_rate, 0.0, config.weight_decay)
        self._shared, self._keys, self._done = shared, config.pfedme, 0

    @torch.no_grad()
    def step(self) -> None:
        """One step of θ, and where it is due one of w."""
        super().step()
        self._done += 1
        if self._done % self._keys.steps == 0:
            for shared, own in zip(self._shared, self._parameters.values(), strict=True):
                shared.lerp_(own, self._keys.rate * self._keys.penalty)


LEARNER = PFedMe
