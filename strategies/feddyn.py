"""FedDyn's server (Acar et al., ICLR 2021): the clients' mean, and the sum of what all have ever drifted by."""

import numpy as np

from curvfed.strategies.base.aggregation import Average, Replies
from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.deviations import is_buffer, moved

DRIFT = "drift/"
"""What the names of h begin with in the state."""


class FedDyn(Average):
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
        mean = moved(start, updates, examples / max(examples.sum(), 1))
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
