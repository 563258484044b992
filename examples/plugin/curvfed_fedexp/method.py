"""FedExP (Jhunjhunwala, Wang and Joshi: "FedExP: Speeding up Federated Averaging via
Extrapolation", ICLR 2023)."""

import numpy as np
from pydantic import Field

from curvfed.strategies.base.aggregation import Average, Replies, split_average
from curvfed.strategies.base.figure import ROUND, Figure
from curvfed.strategies.base.figures import register
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import GRAPHS, IMAGES, Method
from curvfed.strategies.base.statistics import Arrays, is_buffer

PREVIOUS = "fedexp/previous/"
"""What the names of the last but one iterate begin with, in the state."""


class Keys(Table):
    """Keys of FedExP: the table `fedexp` of the run configuration."""

    epsilon: Rate = Field(default=1e-3, gt=0)
    """what is added to the squared norm of the mean update"""


class FedExp(Average):
    """The average, with a step of the server's that goes as far beyond it as the clients' updates
    disagree.

    Of the updates Δ_k = w − w_k of M clients with weights p_k, which are 1/M in the paper:

        w ← w − η_g Δ̄,  Δ̄ = Σ p_k Δ_k,  η_g = max(1, Σ p_k ‖Δ_k‖² / (2 (‖Δ̄‖² + ε)))

    The last iterates swing around the optimum, so the paper scores the mean of the last two. Here
    that is the global model: what the server scores on test data of its own, and what predictions
    of images are made by. Clients start from the last iterate, and their own scores are of that.
    Running statistics of batch normalisation are no direction to go in: they are averaged.
    """

    keys: Keys

    def begin(self, arrays: Arrays) -> None:
        """Start with equal iterates."""
        super().begin(arrays)
        self._previous = dict(arrays)
        self.round_figures = {"extrapolation": 1.0}

    def aggregate(self, replies: Replies) -> None:
        """Average, and go on by η_g, which has a column of its own in `rounds.csv`."""
        start = self._arrays
        averaged = split_average(start, list(replies.values()))
        trained = [name for name in start if not is_buffer(name)]
        total = sum(update.weight for update in replies.values())
        squares = sum(
            update.weight / total * _square(start, update.arrays, trained)
            for update in replies.values()
            if update.weight
        )
        extrapolation = max(
            1.0, squares / (2 * (_square(start, averaged, trained) + self.keys.epsilon))
        )
        self.round_figures = {"extrapolation": extrapolation}
        for name in trained:
            step = start[name].astype(np.float64) - averaged[name]
            averaged[name] = (start[name] - extrapolation * step).astype(start[name].dtype)
        self._previous, self._arrays = start, averaged

    def global_model(self) -> Arrays:
        """The mean of the last two iterates."""
        mean = {
            name: ((array + self._previous[name]) / 2).astype(array.dtype)
            for name, array in self._arrays.items()
        }
        return mean | {name: array for name, array in self._arrays.items() if is_buffer(name)}

    def state(self) -> Arrays:
        """Both iterates."""
        return super().state() | {PREVIOUS + name: array for name, array in self._previous.items()}

    def load(self, state: Arrays) -> None:
        """Go on from both."""
        super().load(
            {name: array for name, array in state.items() if not name.startswith(PREVIOUS)}
        )
        self._previous = {name: state[PREVIOUS + name] for name in self._arrays}


def _square(start: Arrays, end: Arrays, names: list[str]) -> float:
    """‖start − end‖² over the arrays of these names."""
    return float(sum(np.square(start[name].astype(np.float64) - end[name]).sum() for name in names))


register(Figure("extrapolation", "server's step η_g", (ROUND,)))

FEDEXP = Method(
    "fedavg whose server goes on beyond the average where the clients' updates disagree"
    " (Jhunjhunwala et al., 2023)",
    space="flat",
    tasks=(*GRAPHS, *IMAGES),
    settings={task: {"weights": "uniform"} for task in (*GRAPHS, *IMAGES)},
    keys={"fedexp": Keys},
    server=FedExp,
)
