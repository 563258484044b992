"""FedDyn (Acar et al., ICLR 2021): FedAvg with a penalty that remembers where a client's models went."""

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from curvfed.strategies.base.aggregation import Aggregation, Average, Replies
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.deviations import is_buffer, weighted_step
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local, clones
from curvfed.strategies.base.method import IMAGES, PLAIN_MEAN, Method
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.training import GradientTerm, Proximal, Trained


class Keys(Table):
    """Keys of FedDyn."""

    alpha: Rate = Field(
        default=0.1,
        ge=0,
        description="alpha of the linear and the quadratic term in the local objective; at 0 clients train as fedavg's, "
        "while the server still adds up what they drifted by. .1 is HyperFed's choice (Appendix B); the authors use "
        ".001 to .1",
    )


DRIFT = "drift/"
"""What the names of h begin with in the state."""


class FedDynServer(Average):
    """h ← h + (|P|/N) Σ pₖ (θₖ − θᵗ⁻¹) and θᵗ = Σ pₖ θₖ + h over the clients P that reply and have examples.

    With pₖ = 1/|P|, this method's choice of `weights`, h is the mean of the N clients' drifts lₖ, and −α h the paper's h:
    so Algorithm 1 reads in its authors' code. By examples pₖ is a client's share of them. N counts all clients: those
    without examples too, which never drift. Running statistics are averaged.

    Nothing here depends on α. As α → 0 clients train as FedAvg's, but the server does not become FedAvg's: with all taking
    part and d the mean of θₖ − θᵗ⁻¹ it goes θᵗ = θᵗ⁻¹ + dᵗ + (d¹ + … + dᵗ), a step of FedAvg and one of server momentum
    that never fades. Near an optimum where d = −a θ, 0 < a < 1, the model spirals in by √(1 − a) a round, where FedAvg
    goes straight there by 1 − a.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from.
    clients : int
        N.
    """

    def __init__(self, arrays: Arrays, clients: int) -> None:
        super().__init__(arrays)
        self._drift = {name: np.zeros_like(array) for name, array in arrays.items() if not is_buffer(name)}
        self._clients = clients

    def aggregate(self, replies: Replies) -> None:
        """Add to the drift, and go by it."""
        updates = list(replies.values())
        examples = np.array([update.examples for update in updates], np.float64)
        taking = np.count_nonzero(examples)
        # In float64, or the mean's rounding would add up in the drift.
        start = {name: array.astype(np.float64) for name, array in self._arrays.items()}
        mean = weighted_step(start, updates, examples / max(examples.sum(), 1))
        if not taking:
            return
        for name, drift in self._drift.items():
            total = drift + taking / self._clients * (mean[name] - start[name])
            mean[name] += total
            self._drift[name] = total.astype(drift.dtype)
        self._arrays = {name: mean[name].astype(array.dtype) for name, array in self._arrays.items()}

    def state(self) -> Arrays:
        """θ under the parameters' names, and h under "drift/name"."""
        return self._arrays | {DRIFT + name: drift for name, drift in self._drift.items()}

    def load(self, state: Arrays) -> None:
        """Go on from a stored model and drift."""
        self._arrays = {name: array for name, array in state.items() if not name.startswith(DRIFT)}
        self._drift = {name.removeprefix(DRIFT): array for name, array in state.items() if name.startswith(DRIFT)}


DRIFT = "drift/"
"""What the names of the client's drift begin with."""


class FedDynClient(Learner):
    """Steps along ∇f(θ) + α (lₖ + θ − θᵗ⁻¹), θᵗ⁻¹ as received; then lₖ ← lₖ + θₖ − θᵗ⁻¹.

    This is how the authors' code writes Algorithm 1. There a client keeps ∇Lₖ, at first 0, lowers
    f(θ) − ⟨∇Lₖ, θ⟩ + α/2 ‖θ − θᵗ⁻¹‖² and sets ∇Lₖ ← ∇Lₖ − α (θₖ − θᵗ⁻¹); so ∇Lₖ = −α lₖ, and lₖ, the sum of all that the
    client has ever drifted by, is what stays defined at α = 0, where the client trains as FedAvg's.

    The paper lowers the loss to its minimum and the code by epochs of plain SGD; here it is done by the run's optimiser.
    The code also divides α by the client's share of the examples, times the number of clients, which a client cannot know;
    the paper has one α, and so has this. lₖ is of the trained parameters that are shared; a round without training leaves
    it as it is.

    Parameters
    ----------
    local : Local
    """

    keys: Keys

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._drift = {name: torch.zeros_like(local.trained[name].detach()) for name in self.shared_and_trained}

    def local_state(self) -> dict[str, Tensor]:
        """lₖ."""
        return {f"{DRIFT}{name}": tensor for name, tensor in self._drift.items()}

    def train(self) -> Trained:
        """The round's steps, and the drift that they add."""
        parameters = [self.local.trained[name] for name in self._drift]
        starts = clones(parameters)
        trained = super().train()
        for drift, parameter, start in zip(self._drift.values(), parameters, starts, strict=True):
            drift.add_(parameter.detach() - start)
        return trained

    def gradient_terms(self) -> list[GradientTerm]:
        """The linear and the quadratic term, as one pull to θᵗ⁻¹ − lₖ, beside what others ask for."""
        alpha = self.keys.alpha
        if not alpha:
            return super().gradient_terms()
        parameters = [self.local.trained[name] for name in self._drift]
        anchors = [p.detach() - drift for p, drift in zip(parameters, self._drift.values(), strict=True)]
        return [*super().gradient_terms(), Proximal(parameters, alpha / 2, anchors)]


def server(arrays: Arrays, keys: Keys, run: RunKeys, clients: int) -> Aggregation:
    """The server's half of a run."""
    return FedDynServer(arrays, clients)


METHODS = {
    "feddyn": Method(
        "fedavg with a penalty that remembers where a client's models went (Acar et al., 2021)",
        space="flat",
        aggregation="feddyn",
        tasks=IMAGES,
        # The clipping is the authors' code's: without it, unlike clients let the drift grow until nothing is left.
        settings={"images": PLAIN_MEAN | {"clip_norm": 10.0}},
        keys={"feddyn": Keys},
        server=server,
        client=FedDynClient,
    ),
}
