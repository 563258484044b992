"""Part of the way to the average (pFedMe, T. Dinh, Tran & Nguyen, NeurIPS 2020)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.base.aggregation import Average, Replies
from curvfed.strategies.base.average import Arrays, split_average
from curvfed.strategies.base.deviations import is_buffer

Array = NDArray[Any]


class Interpolated(Average):
    """w ← (1 − β) w + β w̄, w̄ the average of the replies: the last line of Algorithm 1.

    β = 1 is the average, to the bit. Beyond 1 it goes past it, which the paper allows. Running statistics are averaged:
    past it a variance could be below 0. A round in which nobody has examples changes nothing.

    Parameters
    ----------
    arrays : dict of str to array
        The shared parameters that all start from.
    beta : float
        β > 0.
    """

    def __init__(self, arrays: Arrays, beta: float) -> None:
        super().__init__(arrays)
        self._beta = beta

    def aggregate(self, replies: Replies) -> None:
        """Average, and go β of the way."""
        averaged = split_average(self._arrays, list(replies.values()))
        if self._beta != 1:
            averaged |= {
                name: _between(start, averaged[name], self._beta)
                for name, start in self._arrays.items()
                if not is_buffer(name)
            }
        self._arrays = averaged


def _between(start: Array, end: Array, share: float) -> Array:
    found: Array = ((1 - share) * start.astype(np.float64) + share * end.astype(np.float64)).astype(start.dtype)
    return found
