"""pFedMe (T. Dinh, Tran & Nguyen, NeurIPS 2020): a model of each client's own by a Moreau envelope."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from curvfed.strategies.base.aggregation import Aggregation, Average, Replies
from curvfed.strategies.base.average import Arrays, split_average
from curvfed.strategies.base.deviations import is_buffer
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import IMAGES, PLAIN_MEAN, Method
from curvfed.strategies.base.optimizers.sgd import SGD
from curvfed.strategies.base.own_model import OwnModel
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.training import Proximal, Trained, train


class Keys(Table):
    """Keys of pFedMe."""

    penalty: Rate = Field(
        default=1.0,
        gt=0,
        description="lambda of lambda/2 ||theta - w||^2, which draws a client's own model to the shared one; 1 is "
        "HyperFed's choice (Appendix B), the authors use 15 to 30",
    )
    steps: int = Field(
        default=5, ge=1, le=10_000, description="K, steps of the client's own model on a batch, by the learning-rate"
    )
    rate: Rate = Field(
        default=0.3,
        gt=0,
        description="eta: a batch brings the shared model eta lambda of the way to the client's own; .3 learns in tens of "
        "rounds where the authors' .005, at their lambda of 15, takes hundreds, and 1 / lambda leaves no own model",
    )
    beta: Rate = Field(
        default=1.0, gt=0, description="how far the server goes from its model to the clients' mean; 1 is all the way"
    )


Array = NDArray[Any]


class PFedMeServer(Average):
    """w ← (1 − β) w + β w̄, w̄ the average of the replies: the last line of Algorithm 1.

    β = 1 is the average, to the bit. Beyond 1 it goes past it, which the paper allows. Running statistics are averaged:
    past it a variance could be below 0. A round in which nobody has examples changes nothing.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from.
    beta : float
        β > 0.
    """

    def __init__(self, arrays: Arrays, beta: float) -> None:
        super().__init__(arrays)
        self._beta = beta

    def aggregate(self, replies: Replies) -> None:
        """Average, and go β of the way."""
        averaged = split_average(self._arrays, list(replies.values()))
        if self._beta != 1:
            averaged |= {
                name: _between(start, averaged[name], self._beta)
                for name, start in self._arrays.items()
                if not is_buffer(name)
            }
        self._arrays = averaged


def _between(start: Array, end: Array, share: float) -> Array:
    found: Array = ((1 - share) * start.astype(np.float64) + share * end.astype(np.float64)).astype(start.dtype)
    return found


class PFedMeClient(OwnModel):
    """For every batch K steps θ ← θ − δ (∇f(θ) + λ (θ − w)), then w ← w − ηλ (w − θ): Algorithm 1.

    λ (θ̃ − w) with θ̃ the end of the K steps stands for the gradient −∇F of the Moreau envelope F(w) = min f(θ) + λ/2
    ‖θ − w‖². A round has one such step of w per batch, in `local-epochs` passes, where the paper has R.

    The paper does not say where θ begins. The authors' code decides: at the w received, then, batch after batch, where the
    one before ended. Its steps are plain ones, and so are these, whatever `optimizer` and `momentum` say. δ is
    `learning-rate`, after the schedule, which leaves η as it is; `weight-decay` is a part of f.

    w is what is shared, θ what is kept and scored. Running statistics are those that θ met, and are shared as w's.
    """

    keys: Keys

    def train(self) -> Trained:
        """Both models; the loss is θ's over all steps of the last pass, the number of steps is w's."""
        local, config = self.local, self.local.config
        for name, tensor in self.own_state.items():
            tensor.detach().copy_(local.tensors[name].detach())
        own = {name: parameter for name, parameter in self.own.named_parameters() if parameter.requires_grad}
        shared = [local.tensors[name].detach() for name in own]
        steps = _Envelope(own, shared, local.optimizer.learning_rate, config.weight_decay, self.keys)
        pull = Proximal(own.values(), self.keys.penalty / 2, shared)
        epochs, repeats = config.local_epochs, self.keys.steps
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
    learning_rate, weight_decay : float
        δ, and what is a part of f.
    keys : Keys
    """

    def __init__(
        self,
        own: Mapping[str, nn.Parameter],
        shared: Sequence[Tensor],
        learning_rate: float,
        weight_decay: float,
        keys: Keys,
    ) -> None:
        super().__init__(own, learning_rate, 0.0, weight_decay)
        self._shared, self._keys, self._done = shared, keys, 0

    @torch.no_grad()
    def step(self) -> None:
        """One step of θ, and where it is due one of w."""
        super().step()
        self._done += 1
        if self._done % self._keys.steps == 0:
            for shared, own in zip(self._shared, self._parameters.values(), strict=True):
                shared.lerp_(own, self._keys.rate * self._keys.penalty)


def server(arrays: Arrays, keys: Keys, run: RunKeys, clients: int) -> Aggregation:
    """The server's half of a run."""
    return PFedMeServer(arrays, keys.beta)


METHODS = {
    "pfedme": Method(
        "a model of each client's own by a Moreau envelope around the shared one (T. Dinh et al., 2020)",
        space="flat",
        own_model=True,
        aggregation="interpolated",
        tasks=IMAGES,
        settings={"images": PLAIN_MEAN | {"fine_tune_epochs": 0, "learning_rate": 0.1}},
        keys={"pfedme": Keys},
        server=server,
        client=PFedMeClient,
    ),
}
