"""Normalised averaging (FedNova, Wang et al., NeurIPS 2020): clients that take more steps do not pull harder."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from curvfed.strategies.base.aggregation import Average, Replies
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.deviations import moved


class FedNova(Average):
    """θ + τ_eff Σ pₖ dₖ with dₖ = Δₖ/‖aₖ‖₁, the deviation per gradient, and τ_eff = Σ pₖ‖aₖ‖₁.

    Plain averaging goes towards the optimum of an objective in which client k weighs pₖ‖aₖ‖₁, not its share pₖ of the
    examples; dividing by ‖aₖ‖₁ puts that right, and τ_eff keeps the length of the step. ‖aₖ‖₁ is what the gradients of
    the client's own τₖ steps weigh in its deviation (`gradient_weight`). Where all take as many steps it is the average.
    Weight decay and proximal terms, which change aₖ a little, do not enter.

    A client that took no step, or has no examples, is left out. Buffers are averaged by examples.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from.
    momentum : float
        ρ of the clients' SGD, in [0, 1), which starts from rest in every round; 0 for plain SGD.
    """

    def __init__(self, arrays: Arrays, momentum: float) -> None:
        super().__init__(arrays)
        self._momentum = momentum
        self._weights: dict[int, float] = {}

    def aggregate(self, replies: Replies) -> None:
        """Go by the weighted sum of the normalised deviations."""
        steps = np.array([update.steps for update in replies.values()], np.float64)
        taking = steps > 0
        examples = np.array([update.examples for update in replies.values()], np.float64) * taking
        shares = examples / max(examples.sum(), 1)
        pulls = gradient_weight(steps, self._momentum)
        weights = np.divide(shares * (shares @ pulls), pulls, out=np.zeros_like(pulls), where=taking)
        self._weights = dict(zip(replies, weights.tolist(), strict=True))
        self._arrays = moved(self._arrays, list(replies.values()), weights)

    def weights(self) -> dict[int, float]:
        """τ_eff pₖ/‖aₖ‖₁, what the deviations were multiplied by in the last round."""
        return self._weights


def gradient_weight(steps: ArrayLike, momentum: float) -> NDArray[np.float64]:
    """‖a‖₁ of SGD with momentum ρ from rest: how many gradients' worth τ steps go, [τ − ρ(1 − ρ^τ)/(1 − ρ)]/(1 − ρ).

    The gradient of step i goes into every later step with a power of ρ, so that it weighs aᵢ = (1 − ρ^(τ−i+1))/(1 − ρ)
    (Wang et al., Section 3.1); this is their sum.

    Parameters
    ----------
    steps : array of numbers ≥ 0
        τ.
    momentum : float
        In [0, 1).

    Returns
    -------
    array, float64
        As `steps`. Relative error ≤ 8·eps/(1 − ρ)².
    """
    counts, rest = np.asarray(steps, np.float64), 1 - momentum
    weight: NDArray[np.float64] = (counts - momentum * (1 - momentum**counts) / rest) / rest
    return weight
