"""FedNova (Wang et al., NeurIPS 2020): updates are divided by the weight of the client's local
steps."""

from dataclasses import replace

import numpy as np

from curvfed.strategies.base.aggregation import Average, Replies
from curvfed.strategies.base.deviations import weighted_step
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import IMAGES, Method
from curvfed.strategies.base.optimizer import gradient_weight
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Arrays, is_buffer
from curvfed.strategies.base.training import Trained

LENGTH = "length"
"""Name of ‖aₖ‖₁ in a client's contribution to a secure sum, where the server cannot divide each
deviation by it."""


def _momentum(config: RunKeys) -> float:
    """ρ of the clients' SGD, which starts without momentum in every round."""
    return config.momentum if config.optimizer == "sgd" else 0.0


class FedNovaServer(Average):
    """θ + τ_eff Σ pₖ dₖ with dₖ = Δₖ/‖aₖ‖₁, the deviation per gradient, and τ_eff = Σ pₖ‖aₖ‖₁.

    Plain averaging converges to the optimum of an objective that gives client k the weight pₖ‖aₖ‖₁,
    not its share pₖ of the examples. Dividing by ‖aₖ‖₁ corrects this, and τ_eff keeps the length of
    the step. ‖aₖ‖₁ is the total weight of the gradients of the client's τₖ steps in its deviation
    (`gradient_weight`). If all clients take equally many steps, the result is the average. Weight
    decay and proximal terms, which change aₖ a little, are ignored.

    Clients without steps or without examples are left out. Running statistics are averaged by
    examples.
    """

    summed_clients = "own"
    plain_sgd = True

    def aggregate(self, replies: Replies) -> None:
        """Add the weighted sum of the normalised deviations; `weights` are the factors τ_eff
        pₖ/‖aₖ‖₁ of the deviations."""
        if any(
            LENGTH in update.arrays for update in replies.values()
        ):  # of a secure sum: the mean of θ + dₖ, and τ_eff
            (update,) = replies.values()
            length = float(update.arrays[LENGTH][0])
            arrays = {name: update.arrays[name] for name in self._arrays}
            self._arrays = weighted_step(
                self._arrays, [replace(update, arrays=arrays)], np.array([length])
            )
            return
        steps = np.array([update.steps for update in replies.values()], np.float64)
        active = steps > 0
        num_examples = np.array([update.weight for update in replies.values()], np.float64)
        examples = num_examples * active
        shares = examples / max(examples.sum(), 1)
        gradient_weights = gradient_weight(steps, _momentum(self.config))
        weights = np.divide(
            shares * (shares @ gradient_weights),
            gradient_weights,
            out=np.zeros_like(gradient_weights),
            where=active,
        )
        self.weights = dict(zip(replies, weights.tolist(), strict=True))
        self._arrays = weighted_step(self._arrays, list(replies.values()), weights)

    def expected_reply(self, partition: int) -> Arrays:
        """θₖ; in a secure sum θ + dₖ, in float64 because it is multiplied by τ_eff, and ‖aₖ‖₁."""
        if not self.config.secure_sum:
            return self._arrays
        arrays = {name: array.astype(np.float64) for name, array in self._arrays.items()}
        return arrays | {LENGTH: np.zeros(1)}


class FedNovaClient(Learner):
    """FedAvg's local work; in a secure sum the client itself divides its deviation by ‖aₖ‖₁."""

    hides_records = True

    _steps = 0

    def receive(self, arrays: Arrays) -> None:
        """Load θ."""
        super().receive(arrays)
        self._received = arrays
        self._steps = 0

    def train(self) -> Trained:
        """FedAvg's training."""
        trained = super().train()
        self._steps = trained.steps
        return trained

    def share(self) -> Arrays:
        """θₖ; in a secure sum θ + dₖ, and ‖aₖ‖₁."""
        shared = super().share()
        config = self.local.config
        if not config.secure_sum:
            return shared
        length = gradient_weight(self._steps, _momentum(config))
        normed = {
            name: (
                array
                if is_buffer(name)
                else self._received[name]
                + (array - self._received[name].astype(np.float64)) / (length or 1)
            )
            for name, array in shared.items()
        }
        return normed | {LENGTH: np.array([length], np.float64)}


METHODS = {
    "fednova": Method(
        "fedavg of updates divided by their number of local steps (Wang et al., 2020)",
        space="flat",
        tasks=IMAGES,
        server=FedNovaServer,
        client=FedNovaClient,
    ),
}
