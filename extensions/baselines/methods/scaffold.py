"""SCAFFOLD (Karimireddy et al., ICML 2020): FedAvg with control variates that correct the clients'
gradients."""

from dataclasses import replace

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from curvfed.strategies.base.aggregation import Average, Replies, check_names, split_average
from curvfed.strategies.base.deviations import weighted_step
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local
from curvfed.strategies.base.method import GRAPHS, IMAGES, PLAIN_MEAN, Method
from curvfed.strategies.base.optimizer import gradient_weight
from curvfed.strategies.base.statistics import (
    OF_UPDATE,
    Arrays,
    Statistics,
    add_prefix,
    is_buffer,
    select_prefix,
    split_prefix,
)
from curvfed.strategies.base.tensors import clones, load_arrays
from curvfed.strategies.base.training import Correction, GradientTerm, Trained
from curvfed.strategies.wire.checks import check_arrays


class Keys(Table):
    """Keys of SCAFFOLD."""

    learning_rate: Rate = Field(default=1.0, gt=0)
    """eta_g, the server's learning rate for the step to the mean of the clients' models; 1, as in
    the paper's experiments, moves the model to the mean"""


VARIATE = OF_UPDATE
"""Prefix of the names of control variates: c in messages to clients, Δcᵢ in replies."""


class ScaffoldServer(Average):
    """x ← x + η_g Σ pᵢ (yᵢ − x) and c ← c + (|S|/N) Σ pᵢ Δcᵢ over the clients S that reply and have
    examples.

    Algorithm 1 has pᵢ = 1/|S|, this method's choice of `weights`: c is then the mean of all cᵢ,
    whichever clients took part. With `weights = "examples"` pᵢ is a client's share of the examples.
    N counts all clients, including those without examples, with variates of 0. Running statistics
    are averaged.
    """

    summed_clients = "any"
    plain_sgd = True
    equal_steps = True
    keys: Keys

    def begin(self, arrays: Arrays) -> None:
        """Start at a variate of 0."""
        super().begin(arrays)
        self._variate = {
            name: np.zeros_like(array) for name, array in arrays.items() if not is_buffer(name)
        }
        self._sent = self.state()

    def sent_to(self, partition: int) -> Arrays:
        """x and c, the same for every client. Replies have arrays of the same names and shapes: y
        and Δcᵢ."""
        return self._sent

    def aggregate(self, replies: Replies) -> None:
        """Update x and c."""
        for update in replies.values():
            check_names(update.arrays, self._sent)
        updates = [update for update in replies.values() if update.weight]
        active = sum(update.clients for update in updates)
        if not updates:
            return
        examples = np.array([update.weight for update in updates], np.float64)
        models: list[Statistics] = []
        changes: list[Statistics] = []
        for update in updates:
            arrays = {name: update.arrays[name] for name in self._arrays}
            models.append(replace(update, arrays=arrays))
            changes.append(replace(update, arrays=select_prefix(update.arrays, VARIATE)))
        self._arrays = weighted_step(
            self._arrays, models, self.keys.learning_rate * examples / examples.sum()
        )
        mean = split_average(self._variate, changes)
        share = active / len(self.clients)
        for name, variate in self._variate.items():
            total = variate + np.multiply(mean[name], share, dtype=np.float64)
            self._variate[name] = total.astype(variate.dtype)
        self._sent = self.state()

    def state(self) -> Arrays:
        """x by parameter name, and c as "variate/name"."""
        return self._arrays | add_prefix(VARIATE, self._variate)

    def load(self, state: Arrays) -> None:
        """Continue from stored parameters and variates."""
        self._arrays, self._variate = split_prefix(state, VARIATE)
        self._sent = self.state()


OWN_VARIATE = "own-variate/"
"""Prefix of the names of the client's own variate cᵢ in its local state."""


class ScaffoldClient(Learner):
    """y ← y − η (g(y) − cᵢ + c) from y = x, then cᵢ⁺ = cᵢ − c + (x − y)/(η‖a‖₁): Algorithm 1,
    option II.

    The paper's steps are plain SGD, for which ‖a‖₁ is the number of steps K. With heavy-ball
    momentum x − y = η Σ aₖ (gₖ − cᵢ + c), because the gradient of step k also enters all later
    steps. Dividing by ‖a‖₁ = Σ aₖ (`curvfed.strategies.base.optimizer.gradient_weight`) makes
    cᵢ⁺ a mean of the client's gradients, Σ aₖ gₖ/‖a‖₁; divided by K it and the correction would be
    up to 1/(1 − ρ) times too large. Weight decay counts as gradient; where `clip-norm` scales a
    step down, cᵢ⁺ is that of the scaled step. η is the round's learning rate after the schedule.

    Running statistics lack a gradient and a variate. cᵢ starts at 0 and does not change in a round
    without training. Δcᵢ = cᵢ⁺ − cᵢ is sent with y.
    """

    keys: Keys
    hides_records = True

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._names = [name for name in local.shared if not is_buffer(name)]
        self._own = self._zeros()
        self._common = self._zeros()
        self._change = self._zeros()

    def _zeros(self) -> dict[str, Tensor]:
        tensors = self.local.tensors
        return {name: torch.zeros_like(tensors[name].detach()) for name in self._names}

    def local_state(self) -> dict[str, Tensor]:
        """cᵢ."""
        return add_prefix(OWN_VARIATE, self._own)

    def receive(self, arrays: Arrays) -> None:
        """x and c."""
        check_arrays(arrays, self.share())
        load_arrays({name: arrays[name] for name in self.local.shared}, self.local.tensors)
        load_arrays(select_prefix(arrays, VARIATE), self._common)
        for change in self._change.values():
            change.zero_()

    def train(self) -> Trained:
        """The round's steps, and the new variate."""
        local = self.local
        config = self.local.config
        starts = clones(local.tensors[name] for name in self._names)
        trained = super().train()
        length = local.optimizer.learning_rate * float(
            gradient_weight(trained.steps, config.momentum)
        )
        # a schedule may end at a rate of 0, where nothing is known about the gradient
        if length > 0:
            for name, start in zip(self._names, starts, strict=True):
                change = self._change[name]
                torch.sub(start, local.tensors[name].detach(), out=change)
                change.div_(length).sub_(self._common[name])
                self._own[name].add_(change)
        return trained

    def gradient_terms(self) -> list[GradientTerm]:
        """The correction c − cᵢ, after the row's own terms."""
        trained = {
            name: self.local.trained[name] for name in self._names if name in self.local.trained
        }
        corrections = {name: self._common[name] - self._own[name] for name in trained}
        return [*super().gradient_terms(), Correction(trained, corrections)]

    def share(self) -> Arrays:
        """y and Δcᵢ."""
        return super().share() | {
            f"{VARIATE}{name}": change.numpy(force=True) for name, change in self._change.items()
        }


METHODS = {
    "scaffold": Method(
        "fedavg with gradients corrected by control variates (Karimireddy et al., 2020)",
        space="flat",
        tasks=(*GRAPHS, *IMAGES),
        # With a single local step, the default of graphs, the corrections cancel in the mean and
        # the method is plain SGD. With larger steps the corrections grow without bound: at a rate
        # of .005 with momentum .9, MNIST on 20 dissimilar clients diverges after ten rounds.
        settings={
            "images": PLAIN_MEAN | {"optimizer": "sgd", "learning_rate": 0.002},
            "nodes": PLAIN_MEAN | {"optimizer": "sgd", "local_epochs": 5, "learning_rate": 0.3},
            "graphs": PLAIN_MEAN | {"optimizer": "sgd", "local_epochs": 5, "learning_rate": 0.001},
        },
        keys={"scaffold": Keys},
        server=ScaffoldServer,
        client=ScaffoldClient,
    ),
}
