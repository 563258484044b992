"""FedGNN (Wu et al., 2021; Nature Communications, 2022): updates are clipped and get noise before
they leave a client."""

import numpy as np
from pydantic import Field

from curvfed.geometry.arrays import Array
from curvfed.strategies.base.aggregation import Average
from curvfed.strategies.base.figure import Figure
from curvfed.strategies.base.figures import register
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local
from curvfed.strategies.base.method import Method
from curvfed.strategies.base.statistics import Arrays
from curvfed.strategies.base.training import Trained


class Keys(Table):
    """Keys of FedGNN."""

    clip: Rate = Field(default=1.0, gt=0)
    """delta: maximum change of an entry before noise is added, in units of the learning-rate. 1 is
    the length of a step of Adam. The paper clips gradients to .1, which shortens such a step to a
    tenth"""
    noise: Rate = Field(default=2.0, ge=0)
    """lambda, scale of the Laplace noise on each entry, in the same unit; 0: no noise. A single
    entry in one round is epsilon-private with epsilon = 2 delta/lambda, here 1, as in the paper; a
    whole model over all rounds is not protected: see epsilon_of_run in the summary"""


class FedGnnServer(Average):
    """FedAvg's average, which reports how well the clients' data are protected.

    Local differential privacy: a message is ε-private if no data of the client make it more than
    e^ε times as likely as any other data. For one entry, clipped at δ, with Laplace noise of scale
    λ, ε is 2δ/λ: the paper's bound (Section 3.5). For all P entries of a message it is 2Pδ/λ,
    because each may be at the other end of its range; for R rounds it is 2PRδ/λ. For a network this
    number is so large that it guarantees nothing for the client as a whole.
    """

    name = "noisy-average"
    summed_clients = "own"
    keys: Keys

    def begin(self, arrays: Arrays) -> None:
        """Report ε of one entry in one round, and of all entries in all rounds; without noise, ε is
        unbounded."""
        super().begin(arrays)
        if self.keys.noise == 0:
            return
        epsilon = 2 * self.keys.clip / self.keys.noise
        entries = sum(array.size for array in arrays.values())
        of_run = epsilon * entries * self.config.num_rounds
        self.figures = {"epsilon_per_weight": epsilon, "epsilon_of_run": of_run}


class FedGnnClient(Learner):
    """The client sends θ_k = θ − η (clip(g, δ) + Laplace(0, λ)), where g = (θ − θ')/η and θ' is
    trained from θ.

    Eq. 1 of "FedGNN: Federated Graph Neural Network for Privacy-Preserving Recommendation": clients
    send the gradient g of one step of SGD to a server that takes the step η along the average. δ is
    `fedgnn.clip`, λ `fedgnn.noise`, η the round's learning rate. The paper has one step of SGD.
    After more steps, or with another optimiser, g is the gradient that would have led to θ' in one
    step of SGD: a first step of Adam is 1 in this unit. At λ = 0 an entry within δ is sent
    unchanged, to the last bit.

    The client's scores are those of θ', without noise. A client without examples sends back the
    arrays that it received.

    Two parts of the paper do not apply to classification. Pseudo-interacted items hide which rows
    of a table of items a gradient changes; here such a table does not exist. The graph is not
    extended by users who know the same item, because no two clients have a node in common.
    """

    keys: Keys

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._received = self._sent = super().share()

    def receive(self, arrays: Arrays) -> None:
        """Load θ."""
        super().receive(arrays)
        self._received = self._sent = arrays

    def train(self) -> Trained:
        """FedAvg's training. Noise is drawn once, because the mean of several draws would reveal
        more."""
        trained = super().train()
        self._sent = {name: self._hide(name, array) for name, array in super().share().items()}
        return trained

    def share(self) -> Arrays:
        """θ_k."""
        return self._sent

    def _hide(self, name: str, trained: Array) -> Array:
        keys = self.keys
        rate = self.local.optimizer.learning_rate
        start = self._received[name].astype(np.float64)
        reach = rate * keys.clip
        hidden = np.clip(trained.astype(np.float64), start - reach, start + reach)
        if keys.noise:
            hidden = hidden + rate * keys.noise * self.local.noise.laplace(hidden.shape)
        return np.asarray(hidden, trained.dtype)


register(
    Figure("epsilon_per_weight", "ε of differential privacy, one parameter in one round"),
    Figure("epsilon_of_run", "ε of differential privacy, all parameters in all rounds"),
)

METHODS = {
    "fedgnn": Method(
        "fedavg of updates that each client clips and noises before it sends them (Wu et al.,"
        " 2021)",
        space="flat",
        keys={"fedgnn": Keys},
        server=FedGnnServer,
        client=FedGnnClient,
    ),
}
