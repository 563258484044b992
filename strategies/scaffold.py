"""SCAFFOLD's server (Karimireddy et al., ICML 2020): a step to the clients' mean, and the mean of their variates."""

from dataclasses import replace

import numpy as np

from curvfed.strategies.base.aggregation import Average, Replies
from curvfed.strategies.base.average import Arrays, check_names, split_average
from curvfed.strategies.base.deviations import is_buffer, moved

VARIATE = "variate/"
"""What the names of control variates begin with: c on the way down, Δcᵢ on the way up."""


class Scaffold(Average):
    """x ← x + η_g Σ pᵢ (yᵢ − x) and c ← c + (|S|/N) Σ pᵢ Δcᵢ over the clients S that reply and have examples.

    Algorithm 1, where pᵢ = 1/|S|, which is this method's choice of `weights`: c is then the mean of all cᵢ, whoever took
    part. By examples pᵢ is a client's share of them. N counts all clients, those without examples too, whose variates are
    0. Running statistics are averaged.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from.
    learning_rate : float
        η_g.
    clients : int
        N.
    """

    def __init__(self, arrays: Arrays, learning_rate: float, clients: int) -> None:
        super().__init__(arrays)
        self._variate = {name: np.zeros_like(array) for name, array in arrays.items() if not is_buffer(name)}
        self._learning_rate, self._clients = learning_rate, clients
        self._sent = self.state()

    def sent_to(self, partition: int) -> Arrays:
        """x and c, for everybody. Replies have arrays of the same names and shapes: y and Δcᵢ."""
        return self._sent

    def global_model(self) -> Arrays:
        """x alone."""
        return self._arrays

    def aggregate(self, replies: Replies) -> None:
        """A step of both."""
        for update in replies.values():
            check_names(update.arrays, self._sent)
        updates = [update for update in replies.values() if update.examples]
        if not updates:
            return
        examples = np.array([update.examples for update in updates], np.float64)
        models = [replace(one, arrays={name: one.arrays[name] for name in self._arrays}) for one in updates]
        self._arrays = moved(self._arrays, models, self._learning_rate * examples / examples.sum())
        changes = [replace(one, arrays={name: one.arrays[VARIATE + name] for name in self._variate}) for one in updates]
        mean, share = split_average(self._variate, changes), len(updates) / self._clients
        for name, variate in self._variate.items():
            total = variate + np.multiply(mean[name], share, dtype=np.float64)
            self._variate[name] = total.astype(variate.dtype)
        self._sent = self.state()

    def state(self) -> Arrays:
        """x under the parameters' names, and c under "variate/name"."""
        return self._arrays | {VARIATE + name: variate for name, variate in self._variate.items()}

    def load(self, state: Arrays) -> None:
        """Go on from stored parameters and variates."""
        self._arrays = {name: array for name, array in state.items() if not name.startswith(VARIATE)}
        self._variate = {name.removeprefix(VARIATE): a for name, a in state.items() if name.startswith(VARIATE)}
        self._sent = self.state()
