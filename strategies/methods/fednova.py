"""FedNova (Wang et al., NeurIPS 2020): updates are divided by the weight of the client's local steps."""

import numpy as np

from curvfed.strategies.base.aggregation import Average, Replies
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.deviations import weighted_step
from curvfed.strategies.base.method import IMAGES, Method
from curvfed.strategies.base.optimizers.sgd import gradient_weight


class FedNovaServer(Average):
    """θ + τ_eff Σ pₖ dₖ with dₖ = Δₖ/‖aₖ‖₁, the deviation per gradient, and τ_eff = Σ pₖ‖aₖ‖₁.

    Plain averaging converges to the optimum of an objective in which client k has the weight pₖ‖aₖ‖₁, not its share pₖ of
    the examples. Dividing by ‖aₖ‖₁ corrects this, and τ_eff keeps the length of the step. ‖aₖ‖₁ is the total weight of the
    gradients of the client's τₖ steps in its deviation (`gradient_weight`). If all clients take equally many steps, the
    result is the average. Weight decay and proximal terms, which change aₖ a little, are ignored.

    Clients without steps or without examples are left out. Running statistics are averaged by examples.

    Parameters
    ----------
    arrays : dict of str to array
        The initial shared parameters.
    momentum : float
        ρ of the clients' SGD, in [0, 1), which starts without momentum in every round; 0 for plain SGD.
    """

    def __init__(self, arrays: Arrays, momentum: float) -> None:
        super().__init__(arrays)
        self._momentum = momentum
        self._weights: dict[int, float] = {}

    def aggregate(self, replies: Replies) -> None:
        """Add the weighted sum of the normalised deviations."""
        steps = np.array([update.steps for update in replies.values()], np.float64)
        active = steps > 0
        examples = np.array([update.examples for update in replies.values()], np.float64) * active
        shares = examples / max(examples.sum(), 1)
        lengths = gradient_weight(steps, self._momentum)
        weights = np.divide(shares * (shares @ lengths), lengths, out=np.zeros_like(lengths), where=active)
        self._weights = dict(zip(replies, weights.tolist(), strict=True))
        self._arrays = weighted_step(self._arrays, list(replies.values()), weights)

    def weights(self) -> dict[int, float]:
        """τ_eff pₖ/‖aₖ‖₁, the factors of the deviations in the last round."""
        return self._weights


METHODS = {
    "fednova": Method(
        "fedavg of updates divided by their numbers of local steps (Wang et al., 2020)",
        space="flat",
        aggregation="fednova",
        tasks=IMAGES,
        server=lambda arrays, keys, run, clients: FedNovaServer(
            arrays, run.momentum if run.optimizer == "sgd" else 0.0
        ),
    ),
}
