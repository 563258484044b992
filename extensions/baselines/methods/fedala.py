"""FedALA (Zhang et al., AAAI 2023): each client mixes the shared model into its own, element by
element, before it trains."""

from collections.abc import Mapping
from itertools import islice

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from curvfed.extensions.baselines.own_model import OwnModel
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Local
from curvfed.strategies.base.method import GRAPHS, IMAGES, Method
from curvfed.strategies.base.statistics import add_prefix
from curvfed.strategies.base.tensors import copy_tensors
from curvfed.strategies.base.training import Trained, check_finite, training_only

SPREAD = 0.1
"""Standard deviation of the last losses below which the first search for weights ends, as in the
authors' code; later rounds make one pass."""

PASSES = 10
"""Number of these losses."""

MAX_PASSES = 100
"""Maximum number of passes of that search; unlimited in the authors' code."""


class Keys(Table):
    """Keys of FedALA."""

    retired = (("spread", 0.1),)

    layers: int = Field(default=1, ge=1, le=1_000)
    """p: the last layers, in which weights are learned; all others are the shared"""
    rate: Rate = Field(default=1.0, gt=0)
    """eta, the learning rate of the weights"""
    sample: Rate = Field(default=0.8, gt=0, le=1)
    """share of the client's batches, drawn in each round, that the weights learn on"""


class FedAlaClient(OwnModel):
    """Starts the round from v + (θ − v) ∘ w, trains it, shares it and keeps it as v: Algorithm 1.

    v is the client's model after its last round and θ the one received; below the last
    `fedala.layers` layers the start is θ itself. The weights w begin at 1 and stay: on some batches
    of the client, the same in all passes of a round, they descend, w ← clip(w − η g ∘ (θ − v), 0,
    1), where g is the gradient of the loss at the mixed model. A client scores v, after training;
    the authors' tables score the mixed model before it.

    Layers are those of the network with parameters, while the authors' code counts tensors. A
    client's first round starts from θ, before v exists; in the authors' code that is so in round 1
    alone. A client with last layers equal to the shared ones learns no weights.
    """

    keys: Keys

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        names = local.shared_and_trained
        layers = list(dict.fromkeys(name.rpartition(".")[0] for name in names))
        last = layers[-self.keys.layers :]
        self._names = [name for name in names if name.rpartition(".")[0] in last]
        self._weights = {
            name: torch.ones_like(self.own_trained[name].detach()) for name in self._names
        }
        # 0: v does not exist yet; 1: it does; 2: weights were learned, too. A tensor, as all that a
        # client keeps.
        self._stage = torch.zeros(1)

    def local_state(self) -> dict[str, Tensor]:
        """v, the weights, and whether there are any."""
        weights = add_prefix("weight/", self._weights)
        return super().local_state() | weights | {"stage": self._stage}

    def train(self) -> Trained:
        """Mix, and train the mixed model."""
        local = self.local
        own_model = {name: self.own_state[name].detach().clone() for name in self._names}
        copy_tensors(local.tensors, self.own_state)
        is_other = any(
            not torch.equal(own_model[name], self.own_state[name]) for name in self._names
        )
        if is_other and self._stage:
            self._learn_weights(own_model)
        self._stage.clamp_(min=1)
        copy_tensors(self.own_state, {name: local.tensors[name].detach() for name in self._names})
        trained = super().train()
        copy_tensors(local.tensors, self.own_state)
        return trained

    def _learn_weights(self, own_model: Mapping[str, Tensor]) -> None:
        """Learn the weights on the own model, which is left mixed."""
        task = self.local.task
        gaps = {name: self.own_state[name].detach() - own_model[name] for name in self._names}
        self._mix(own_model, gaps)
        passes = 1 if self._stage == 2 else MAX_PASSES
        num_batches = max(1, round(self.keys.sample * task.num_steps))
        parameters = [self.own_trained[name] for name in self._names]
        self.own.train()
        batches = list(islice(task.batches(self.own), num_batches))
        losses: list[float] = []
        with training_only(self.own_trained, self._names):
            for number in range(passes):
                for batch in batches:
                    loss = self.loss(self.own, batch)
                    gradients = torch.autograd.grad(loss, parameters)
                    for name, gradient in zip(self._names, gradients, strict=True):
                        step = self.keys.rate * gradient * gaps[name]
                        self._weights[name].sub_(step).clamp_(0, 1)
                    self._mix(own_model, gaps)
                losses.append(loss.item())
                check_finite(losses[-1:], number, passes)
                if len(losses) > PASSES and np.std(losses[-PASSES:]) < SPREAD:
                    break
        self._stage.fill_(2)

    @torch.no_grad()
    def _mix(self, own_model: Mapping[str, Tensor], gaps: Mapping[str, Tensor]) -> None:
        for name, weight in self._weights.items():
            self.own_trained[name].copy_(own_model[name] + gaps[name] * weight)


METHODS = {
    "fedala": Method(
        "each client mixes the shared model into its own by learned weights (Zhang et al., 2023)",
        space="flat",
        tasks=(*GRAPHS, *IMAGES),
        settings={"images": {"fine_tune_epochs": 0}},
        keys={"fedala": Keys},
        tuned={task: {"fedala.layers": (2, 1000)} for task in (*GRAPHS, *IMAGES)},
        client=FedAlaClient,
    ),
}
