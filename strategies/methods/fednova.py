"""FedNova (Wang et al., NeurIPS 2020): updates divided by what the clients' local steps weigh."""

import numpy as np

from curvfed.strategies.base.aggregation import Aggregation, Average, Replies
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.deviations import weighted_step
from curvfed.strategies.base.keys import Table
from curvfed.strategies.base.method import IMAGES, Method
from curvfed.strategies.base.optimizers.sgd import gradient_weight
from curvfed.strategies.base.run_keys import RunKeys


class FedNovaServer(Average):
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
        self._arrays = weighted_step(self._arrays, list(replies.values()), weights)

    def weights(self) -> dict[int, float]:
        """τ_eff pₖ/‖aₖ‖₁, what the deviations were multiplied by in the last round."""
        return self._weights


def server(arrays: Arrays, keys: Table, run: RunKeys, clients: int) -> Aggregation:
    """The server's half of a run."""
    return FedNovaServer(arrays, run.momentum if run.optimizer == "sgd" else 0.0)


METHODS = {
    "fednova": Method(
        "fedavg of updates divided by their numbers of local steps (Wang et al., 2020)",
        space="flat",
        aggregation="fednova",
        tasks=IMAGES,
        server=server,
    ),
}
