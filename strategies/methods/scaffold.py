"""SCAFFOLD (Karimireddy et al., ICML 2020): FedAvg whose clients' gradients are corrected by control variates."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from curvfed.strategies.base.aggregation import Aggregation, Average, Replies
from curvfed.strategies.base.average import Arrays, check_names, split_average
from curvfed.strategies.base.deviations import is_buffer, weighted_step
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local, clones, load_arrays, select_prefix, to_numpy
from curvfed.strategies.base.method import GRAPHS, IMAGES, PLAIN_MEAN, SGD_FROM_REST, Method
from curvfed.strategies.base.optimizers.sgd import gradient_weight
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.training import Correction, GradientTerm, Trained
from curvfed.strategies.wire.arrays import check_arrays


class Keys(Table):
    """Keys of SCAFFOLD."""

    learning_rate: Rate = Field(
        default=1.0,
        gt=0,
        description="eta_g, the server's, of the step to the mean of the clients' models; 1 goes all the way, as the "
        "paper's experiments do",
    )


VARIATE = "variate/"
"""What the names of control variates begin with: c on the way down, Δcᵢ on the way up."""


class ScaffoldServer(Average):
    """x ← x + η_g Σ pᵢ (yᵢ − x) and c ← c + (|S|/N) Σ pᵢ Δcᵢ over the clients S that reply and have examples.

    Algorithm 1, where pᵢ = 1/|S|, which is this method's choice of `weights`: c is then the mean of all cᵢ, whoever took
    part. By examples pᵢ is a client's share of them. N counts all clients, those without examples too, whose variates are
    0. Running statistics are averaged.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from.
    learning_rate : float
        η_g.
    clients : int
        N.
    """

    def __init__(self, arrays: Arrays, learning_rate: float, clients: int) -> None:
        super().__init__(arrays)
        self._variate = {name: np.zeros_like(array) for name, array in arrays.items() if not is_buffer(name)}
        self._learning_rate, self._clients = learning_rate, clients
        self._sent = self.state()

    def sent_to(self, partition: int) -> Arrays:
        """x and c, for everybody. Replies have arrays of the same names and shapes: y and Δcᵢ."""
        return self._sent

    def global_model(self) -> Arrays:
        """x alone."""
        return self._arrays

    def aggregate(self, replies: Replies) -> None:
        """A step of both."""
        for update in replies.values():
            check_names(update.arrays, self._sent)
        updates = [update for update in replies.values() if update.examples]
        if not updates:
            return
        examples = np.array([update.examples for update in updates], np.float64)
        models = [replace(one, arrays={name: one.arrays[name] for name in self._arrays}) for one in updates]
        self._arrays = weighted_step(self._arrays, models, self._learning_rate * examples / examples.sum())
        changes = [replace(one, arrays={name: one.arrays[VARIATE + name] for name in self._variate}) for one in updates]
        mean, share = split_average(self._variate, changes), len(updates) / self._clients
        for name, variate in self._variate.items():
            total = variate + np.multiply(mean[name], share, dtype=np.float64)
            self._variate[name] = total.astype(variate.dtype)
        self._sent = self.state()

    def state(self) -> Arrays:
        """x under the parameters' names, and c under "variate/name"."""
        return self._arrays | {VARIATE + name: variate for name, variate in self._variate.items()}

    def load(self, state: Arrays) -> None:
        """Go on from stored parameters and variates."""
        self._arrays = {name: array for name, array in state.items() if not name.startswith(VARIATE)}
        self._variate = {name.removeprefix(VARIATE): a for name, a in state.items() if name.startswith(VARIATE)}
        self._sent = self.state()


KEPT = "own-variate/"
"""What the names of the client's own variate begin with."""


class ScaffoldClient(Learner):
    """y ← y − η (g(y) − cᵢ + c) from y = x, then cᵢ⁺ = cᵢ − c + (x − y)/(η‖a‖₁): Algorithm 1, option II.

    The paper's steps are plain SGD, of which ‖a‖₁ = K, their number. Heavy-ball momentum makes it
    x − y = η Σ aₖ (gₖ − cᵢ + c), where the gradient of step k goes into all later steps too; ‖a‖₁ = Σ aₖ
    (`curvfed.strategies.methods.fednova.gradient_weight`) is what keeps cᵢ⁺ a mean of the client's gradients, Σ aₖ gₖ/‖a‖₁.
    Divided by K alone it would be up to 1/(1 − ρ) times too long, and so would the correction. What `weight-decay` adds
    counts as gradient; where `clip-norm` shortens a step, cᵢ⁺ is of the shortened one. η is the round's, after the
    schedule.

    Running statistics have no gradient, and no variate. cᵢ starts at 0 and stays where it is in a round without training;
    Δcᵢ = cᵢ⁺ − cᵢ is sent beside y.

    Parameters
    ----------
    local : Local
    """

    keys: Keys

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._names = [name for name in local.shared if not is_buffer(name)]
        self._own, self._common, self._change = (
            {name: torch.zeros_like(local.tensors[name].detach()) for name in self._names} for _ in range(3)
        )

    def local_state(self) -> dict[str, Tensor]:
        """cᵢ."""
        return {f"{KEPT}{name}": tensor for name, tensor in self._own.items()}

    def receive(self, arrays: Arrays) -> None:
        """x and c."""
        check_arrays(arrays, self.share())
        load_arrays({name: arrays[name] for name in self.local.shared}, self.local.tensors)
        load_arrays(select_prefix(arrays, VARIATE), self._common)
        for change in self._change.values():
            change.zero_()

    def train(self) -> Trained:
        """The round's steps, and the variate that they leave."""
        local, config = self.local, self.local.config
        starts = clones(local.tensors[name] for name in self._names)
        trained = super().train()
        length = local.optimizer.learning_rate * float(gradient_weight(trained.steps, config.momentum))
        if length > 0:  # a schedule may end at no length at all, which tells of no gradient
            for name, start in zip(self._names, starts, strict=True):
                change = self._change[name]
                torch.sub(start, local.tensors[name].detach(), out=change)
                change.div_(length).sub_(self._common[name])
                self._own[name].add_(change)
        return trained

    def gradient_terms(self) -> list[GradientTerm]:
        """The correction c − cᵢ, beside what others ask for."""
        trained = {name: self.local.trained[name] for name in self._names if name in self.local.trained}
        corrections = {name: self._common[name] - self._own[name] for name in trained}
        return [*super().gradient_terms(), Correction(trained, corrections)]

    def share(self) -> dict[str, NDArray[Any]]:
        """y and Δcᵢ."""
        return super().share() | {f"{VARIATE}{name}": to_numpy(change) for name, change in self._change.items()}


def server(arrays: Arrays, keys: Keys, run: RunKeys, clients: int) -> Aggregation:
    """The server's half of a run."""
    return ScaffoldServer(arrays, keys.learning_rate, clients)


METHODS = {
    "scaffold": Method(
        "fedavg whose clients' gradients are corrected by control variates (Karimireddy et al., 2020)",
        space="flat",
        aggregation="scaffold",
        tasks=(*GRAPHS, *IMAGES),
        # In a single local step, the graphs' own choice, all corrections cancel in the mean, and it is plain SGD.
        # And corrections, which nothing pulls back, make longer steps grow without bound: at .005, with momentum .9, MNIST
        # of 20 unlike clients diverges after ten rounds.
        settings={
            "images": PLAIN_MEAN | SGD_FROM_REST | {"learning_rate": 0.002},
            "nodes": PLAIN_MEAN | SGD_FROM_REST | {"local_epochs": 5, "learning_rate": 0.3},
            "graphs": PLAIN_MEAN | SGD_FROM_REST | {"local_epochs": 5, "learning_rate": 0.001},
        },
        keys={"scaffold": Keys},
        server=server,
        client=ScaffoldClient,
    ),
}
