"""pFedMe (T. Dinh, Tran & Nguyen, NeurIPS 2020): a personal model at each client by a Moreau
envelope."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from curvfed.extensions.baselines.own_model import OwnModel
from curvfed.strategies.base.aggregation import Average, Replies, split_average
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import IMAGES, PLAIN_MEAN, Method
from curvfed.strategies.base.optimizer import SGD
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import is_buffer
from curvfed.strategies.base.tensors import copy_tensors
from curvfed.strategies.base.training import Proximal, Trained, train


class Keys(Table):
    """Keys of pFedMe."""

    penalty: Rate = Field(default=1.0, gt=0)
    """lambda of lambda/2 ||theta - w||^2, which draws a client's own model to the shared one; 1 is
    HyperFed's choice (Appendix B), the authors use 15 to 30"""
    steps: int = Field(default=5, ge=1, le=10_000)
    """K, number of steps of the client's own model per batch, with the learning-rate"""
    rate: Rate = Field(default=0.3, gt=0)
    """eta: a batch moves the shared model by eta lambda of the way to the client's own; .3 learns
    in tens of rounds, the authors' .005, at their lambda of 15, in hundreds; at 1 / lambda both
    models are equal"""
    beta: Rate = Field(default=1.0, gt=0)
    """share of the way from the server's model to the clients' mean that the server goes; 1: all"""

    def conflicts(self, config: RunKeys) -> Iterator[tuple[str, str]]:
        """Its steps have a penalty of their own."""
        if config.proximal:
            yield "proximal method", "proximal = 0.0, for its steps have a penalty of their own"


class PFedMeServer(Average):
    """w ← (1 − β) w + β w̄, w̄ the average of the replies: the last line of Algorithm 1.

    β = 1 gives the average, to the bit. The paper also allows β > 1. Running statistics are always
    averaged, because extrapolated variances could be negative. A round without examples changes
    nothing.
    """

    name = "interpolated"
    summed_clients = "any"
    keys: Keys

    def aggregate(self, replies: Replies) -> None:
        """Average, and go the share β of the way."""
        beta = self.keys.beta
        averaged = split_average(self._arrays, list(replies.values()))
        for name, start in self._arrays.items():
            if beta != 1 and not is_buffer(name):
                end = averaged[name].astype(np.float64)
                mixed = (1 - beta) * start.astype(np.float64) + beta * end
                averaged[name] = mixed.astype(start.dtype)
        self._arrays = averaged


class PFedMeClient(OwnModel):
    """For every batch K steps θ ← θ − δ (∇f(θ) + λ (θ − w)), then w ← w − ηλ (w − θ): Algorithm 1.

    λ (θ̃ − w), where θ̃ is the result of the K steps, approximates −∇F of the Moreau envelope F(w)
    = min f(θ) + λ/2 ‖θ − w‖². A round has one step of w per batch, in `local-epochs` passes; the
    paper has R steps.

    The paper does not say where θ starts. It starts, as in the authors' code, at the received w,
    and for each further batch where the previous one ended. The steps are plain SGD, whatever
    `optimizer` and `momentum` say. δ is `learning-rate` after the schedule, which does not change
    η; `weight-decay` is a part of f.

    w is shared; θ is kept and scored. Running statistics are updated with θ and shared as those of
    w.
    """

    keys: Keys

    def train(self) -> Trained:
        """Train both models; the loss is that of θ over all steps of the last pass, the number of
        steps is that of w."""
        local = self.local
        config = self.local.config
        epochs = self.local.config.local_epochs
        copy_tensors(local.tensors, self.own_state)
        shared = [local.tensors[name].detach() for name in self.own_trained]
        steps = _Envelope(
            self.own_trained, shared, local.optimizer.learning_rate, config.weight_decay, self.keys
        )
        term = Proximal(self.own_trained.values(), self.keys.penalty / 2, shared)
        loss = train(
            self.own,
            local.task,
            steps,
            epochs,
            terms=[term],
            clip_norm=config.clip_norm,
            loss=self.loss,
            repeats=self.keys.steps,
        )
        untrained = {
            name: local.tensors[name] for name in self.own_state.keys() - self.own_trained.keys()
        }
        copy_tensors(self.own_state, untrained)
        return Trained(loss, epochs * local.task.num_steps)


class _Envelope(SGD):
    """Plain steps of θ, and after every K of them one step of w towards θ.

    Parameters
    ----------
    parameters : mapping of str to Parameter
        θ.
    shared : sequence of Tensor
        w, in the same order.
    learning_rate, weight_decay : float
        δ, and the L2 penalty in f.
    keys : Keys
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        shared: Sequence[Tensor],
        learning_rate: float,
        weight_decay: float,
        keys: Keys,
    ) -> None:
        super().__init__(parameters, learning_rate, 0.0, weight_decay)
        self._shared = shared
        self._keys = keys
        self._done = 0

    @torch.no_grad()
    def step(self) -> None:
        """One step of θ, and after every K-th one a step of w."""
        super().step()
        self._done += 1
        if self._done % self._keys.steps == 0:
            for shared, parameter in zip(self._shared, self._parameters.values(), strict=True):
                shared.lerp_(parameter, self._keys.rate * self._keys.penalty)


METHODS = {
    "pfedme": Method(
        "personal models by Moreau envelopes around the shared one (T. Dinh et al., 2020)",
        space="flat",
        tasks=IMAGES,
        settings={"images": PLAIN_MEAN | {"fine_tune_epochs": 0, "learning_rate": 0.1}},
        keys={"pfedme": Keys},
        tuned={"images": {"pfedme.penalty": (0.3, 3.0)}},
        server=PFedMeServer,
        client=PFedMeClient,
    ),
}
