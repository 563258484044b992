"""FedGNN (Wu et al., 2021; Nature Communications, 2022): updates are clipped and noised before they leave a client."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from curvfed.strategies.base.aggregation import Aggregation, Average
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.learner import Learner, Local
from curvfed.strategies.base.method import Method
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.training import Trained


class Keys(Table):
    """Keys of FedGNN."""

    clip: Rate = Field(
        default=1.0,
        gt=0,
        description="delta: an entry of what a client sends is at most this times the learning-rate from what it was sent, "
        "before noise is added. 1 is the length of a step of Adam. The paper has .1, of gradients, which brings such a "
        "step to a tenth",
    )
    noise: Rate = Field(
        default=2.0,
        ge=0,
        description="lambda, scale of the Laplace noise added to each entry, in the same measure; 0 is none. A single "
        "entry in one round is epsilon-private at epsilon = 2 delta/lambda, here 1, as in the paper; a whole model, over "
        "all rounds, is not protected: the summary's epsilon_of_run is its figure",
    )


class FedGnnServer(Average):
    """FedAvg's average, which tells how well a client is hidden.

    Local differential privacy: a message is ε-private if no data of the client make it more than e^ε times as likely as
    any others do. For one entry, clipped at δ, with Laplace noise of scale λ, ε is 2δ/λ: the paper's bound (Section 3.5).
    For all P entries of a message it is 2Pδ/λ, for each of them may be at the other end of its range, and what R rounds
    tell adds up to 2PRδ/λ. For a network that is so large a number that it promises nothing of the client as a whole.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from.
    clip, noise : float
        δ and λ, in units of the learning rate or of anything else; 0 is no noise.
    rounds : int
        R, at most.
    """

    def __init__(self, arrays: Arrays, clip: float, noise: float, rounds: int) -> None:
        super().__init__(arrays)
        self._clip, self._noise, self._rounds = clip, noise, rounds

    def figures(self) -> dict[str, float]:
        """ε of one entry in one round, and of all entries in all rounds; none without noise, which bounds nothing."""
        if self._noise == 0:
            return {}
        epsilon = 2 * self._clip / self._noise
        entries = sum(array.size for array in self.sent_to(0).values())
        return {"epsilon_per_weight": epsilon, "epsilon_of_run": epsilon * entries * self._rounds}


class FedGnnClient(Learner):
    """θ_k = θ − η (clip(g, δ) + Laplace(0, λ)) leaves, entry by entry, where g = (θ − θ')/η and θ' is trained from θ.

    Eq. 1 of "FedGNN: Federated Graph Neural Network for Privacy-Preserving Recommendation", whose clients send the gradient
    g of one step of SGD to a server that takes the step η along the average. δ is `fedgnn.clip`, λ `fedgnn.noise`, η the
    round's learning rate. The paper has one step of SGD; after more of them, or another optimiser's, g is what η would
    have had to multiply: an entry's first step of Adam is 1 in this measure. At λ = 0 an entry within δ leaves as it is, to
    the last bit.

    The client's own scores are of θ', which has no noise. A client without examples sends back what it got.

    Two parts of the paper have no counterpart in classification. Pseudo-interacted items hide which rows of a table of
    items a gradient touches: there is no such table. The graph is not expanded by users who know the same item: no two
    clients have a node in common.

    Parameters
    ----------
    local : Local
    """

    keys: Keys

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._received: Arrays = {}
        self._hidden: dict[str, NDArray[Any]] | None = None

    def receive(self, arrays: Arrays) -> None:
        """Take in θ."""
        super().receive(arrays)
        self._received, self._hidden = arrays, None

    def train(self) -> Trained:
        """FedAvg's training, and what of it may leave: noise is drawn once, for of several draws the mean tells more."""
        trained = super().train()
        self._hidden = {name: self._hide(name, array) for name, array in super().share().items()}
        return trained

    def share(self) -> dict[str, NDArray[Any]]:
        """θ_k."""
        return super().share() if self._hidden is None else self._hidden

    def _hide(self, name: str, trained: NDArray[Any]) -> NDArray[Any]:
        keys, rate = self.keys, self.local.optimizer.learning_rate
        start = self._received[name].astype(np.float64)
        reach = rate * keys.clip
        hidden = np.clip(trained.astype(np.float64), start - reach, start + reach)
        if keys.noise:
            hidden = hidden + rate * keys.noise * self.local.noise.laplace(hidden.shape)
        found: NDArray[Any] = np.asarray(hidden, trained.dtype)
        return found


def server(arrays: Arrays, keys: Keys, run: RunKeys, clients: int) -> Aggregation:
    """The server's half of a run."""
    return FedGnnServer(arrays, keys.clip, keys.noise, run.num_rounds)


METHODS = {
    "fedgnn": Method(
        "fedavg of updates that are clipped and noised before they leave a client (Wu et al., 2021)",
        space="flat",
        aggregation="noisy-average",
        keys={"fedgnn": Keys},
        server=server,
        client=FedGnnClient,
    ),
}
