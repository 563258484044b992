"""The average of models that were hidden by noise at the clients (FedGNN, Wu et al., 2021), and what the noise is worth."""

from curvfed.strategies.base.aggregation import Average
from curvfed.strategies.base.average import Arrays


class NoisyAverage(Average):
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
