"""FedDyn (Acar et al., ICLR 2021): FedAvg with a penalty that accumulates the client's past
drift.
"""

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from curvfed.strategies.base.aggregation import Average, Replies
from curvfed.strategies.base.deviations import weighted_step
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local
from curvfed.strategies.base.method import IMAGES, PLAIN_MEAN, Method
from curvfed.strategies.base.statistics import Arrays, add_prefix, is_buffer, split_prefix
from curvfed.strategies.base.tensors import clones
from curvfed.strategies.base.training import GradientTerm, Proximal, Trained


class Keys(Table):
    """Keys of FedDyn."""

    alpha: Rate = Field(default=0.1, ge=0)
    """alpha of the linear and the quadratic term in the local objective; at 0 clients train as in
    fedavg, but the server still adds up their drift. .1 is HyperFed's choice (Appendix B); the
    authors use .001 to .1"""


DRIFT = "drift/"
"""Prefix of the names of h in the server's state, and of lₖ in the client's."""


class FedDynServer(Average):
    """h ← h + (|P|/N) Σ pₖ (θₖ − θᵗ⁻¹) and θᵗ = Σ pₖ θₖ + h over the clients P that reply and have
    examples.

    With pₖ = 1/|P|, this method's choice of `weights`, h is the mean of the N clients' drifts lₖ,
    and −α h is the paper's h: this is Algorithm 1 as in its authors' code. With `weights =
    "examples"` pₖ is a client's share of the examples. N counts all clients, including those
    without examples, which never drift. Running statistics are averaged.

    The server does not depend on α. As α → 0 the clients train as in FedAvg, but the server does
    not become FedAvg's: if all clients take part and d is the mean of θₖ − θᵗ⁻¹, then θᵗ = θᵗ⁻¹ +
    dᵗ + (d¹ + … + dᵗ), a step of FedAvg plus server momentum that never decays. Near an optimum
    where d = −a θ, 0 < a < 1, the model spirals towards it by a factor of √(1 − a) per round, where
    FedAvg approaches it directly by 1 − a.
    """

    summed_clients = "any"

    def begin(self, arrays: Arrays) -> None:
        """Start without drift."""
        super().begin(arrays)
        self._drift = {
            name: np.zeros_like(array) for name, array in arrays.items() if not is_buffer(name)
        }

    def aggregate(self, replies: Replies) -> None:
        """Update the drift, and add it to the average."""
        updates = list(replies.values())
        examples = np.array([update.weight for update in updates], np.float64)
        active = sum(update.clients for update in updates if update.weight)
        # In float64, because rounding errors of the mean would accumulate in the drift.
        start = {name: array.astype(np.float64) for name, array in self._arrays.items()}
        mean = weighted_step(start, updates, examples / max(examples.sum(), 1))
        if not active:
            return
        for name, drift in self._drift.items():
            total = drift + active / len(self.clients) * (mean[name] - start[name])
            mean[name] += total
            self._drift[name] = total.astype(drift.dtype)
        self._arrays = {
            name: mean[name].astype(array.dtype) for name, array in self._arrays.items()
        }

    def state(self) -> Arrays:
        """θ by parameter name, and h as "drift/name"."""
        return self._arrays | add_prefix(DRIFT, self._drift)

    def load(self, state: Arrays) -> None:
        """Continue from a stored model and drift."""
        self._arrays, self._drift = split_prefix(state, DRIFT)


class FedDynClient(Learner):
    """Steps along ∇f(θ) + α (lₖ + θ − θᵗ⁻¹), θᵗ⁻¹ as received; then lₖ ← lₖ + θₖ − θᵗ⁻¹.

    This is Algorithm 1 as in the authors' code. There a client keeps ∇Lₖ, initially 0, minimises
    f(θ) − ⟨∇Lₖ, θ⟩ + α/2 ‖θ − θᵗ⁻¹‖² and sets ∇Lₖ ← ∇Lₖ − α (θₖ − θᵗ⁻¹). So ∇Lₖ = −α lₖ, where lₖ
    is the sum of the client's drifts so far; unlike ∇Lₖ it is also defined at α = 0, where the
    client trains as in FedAvg.

    The paper minimises the loss exactly, the code by epochs of plain SGD, and this implementation
    by the run's optimiser. The code also divides α by the client's share of the examples times the
    number of clients, which a client cannot know; here α is the same for all, as in the paper. lₖ
    covers the shared parameters that are trained; a round without training does not change it.

    Parameters
    ----------
    local : Local
    """

    keys: Keys
    hides_records = True

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._drift = {
            name: torch.zeros_like(local.trained[name].detach())
            for name in local.shared_and_trained
        }

    def local_state(self) -> dict[str, Tensor]:
        """lₖ."""
        return add_prefix(DRIFT, self._drift)

    def train(self) -> Trained:
        """The round's steps; adds their drift to lₖ."""
        parameters = [self.local.trained[name] for name in self._drift]
        starts = clones(parameters)
        trained = super().train()
        for drift, parameter, start in zip(self._drift.values(), parameters, starts, strict=True):
            drift.add_(parameter.detach() - start)
        return trained

    def gradient_terms(self) -> list[GradientTerm]:
        """The linear and the quadratic term, as one proximal term with the anchor θᵗ⁻¹ − lₖ, after
        the row's own terms."""
        alpha = self.keys.alpha
        if not alpha:
            return super().gradient_terms()
        parameters = [self.local.trained[name] for name in self._drift]
        anchors = [
            p.detach() - drift for p, drift in zip(parameters, self._drift.values(), strict=True)
        ]
        return [*super().gradient_terms(), Proximal(parameters, alpha / 2, anchors)]


METHODS = {
    "feddyn": Method(
        "fedavg with a penalty that accumulates a client's drift (Acar et al., 2021)",
        space="flat",
        tasks=IMAGES,
        # Gradients are clipped as in the authors' code: without it, dissimilar clients make the
        # drift diverge.
        settings={"images": PLAIN_MEAN | {"clip_norm": 10.0}},
        keys={"feddyn": Keys},
        tuned={"images": {"feddyn.alpha": (0.001, 0.01)}},
        server=FedDynServer,
        client=FedDynClient,
    ),
}
