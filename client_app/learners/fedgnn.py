"""FedGNN's local work (Wu et al., 2021; Nature Communications, 2022): what leaves is clipped, and noise is added to it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.base.learner import Arrays, Learner, Local
from curvfed.strategies.base.training import Trained


class FedGNN(Learner):
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
        keys, rate = self.local.config.fedgnn, self.local.optimizer.learning_rate
        start = self._received[name].astype(np.float64)
        reach = rate * keys.clip
        hidden = np.clip(trained.astype(np.float64), start - reach, start + reach)
        if keys.noise:
            hidden = hidden + rate * keys.noise * self.local.noise.laplace(hidden.shape)
        found: NDArray[Any] = np.asarray(hidden, trained.dtype)
        return found


LEARNER = FedGNN
