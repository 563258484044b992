"""FedDyn's local work (Acar et al., ICLR 2021): a local loss with two terms that change from round to round."""

import torch
from torch import Tensor

from curvfed.strategies.base.learner import Learner, Local, copies
from curvfed.strategies.base.training import Proximal, Pull, Trained

DRIFT = "drift/"
"""What the names of the client's drift begin with."""


class FedDyn(Learner):
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

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._drift = {name: torch.zeros_like(local.trained[name].detach()) for name in self.shared_and_trained}

    def kept(self) -> dict[str, Tensor]:
        """lₖ."""
        return {f"{DRIFT}{name}": tensor for name, tensor in self._drift.items()}

    def train(self) -> Trained:
        """The round's steps, and the drift that they add."""
        parameters = [self.local.trained[name] for name in self._drift]
        starts = copies(parameters)
        trained = super().train()
        for drift, parameter, start in zip(self._drift.values(), parameters, starts, strict=True):
            drift.add_(parameter.detach() - start)
        return trained

    def pulls(self) -> list[Pull]:
        """The linear and the quadratic term, as one pull to θᵗ⁻¹ − lₖ, beside what others ask for."""
        alpha = self.local.config.feddyn.alpha
        if not alpha:
            return super().pulls()
        parameters = [self.local.trained[name] for name in self._drift]
        anchors = [p.detach() - drift for p, drift in zip(parameters, self._drift.values(), strict=True)]
        return [*super().pulls(), Proximal(parameters, alpha / 2, anchors)]


LEARNER = FedDyn
