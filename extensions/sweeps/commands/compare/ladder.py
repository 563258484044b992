"""The learning rates and the weight decays that a comparison tries."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from curvfed.extensions.sweeps.commands.compare import DECAYS
from curvfed.extensions.sweeps.commands.compare.comparison import Entrant

RATE = "learning-rate"
DECAY = "weight-decay"

FIRST_RATES: tuple[int, ...] = (0, -2, -1, 1, 2)
"""The first rates of each entrant, in steps of √10 from the default."""

FARTHEST = 8
"""Steps from the default beyond which no rate is tried."""

FIRST_DECAYS: tuple[int, ...] = (0, 1, 3, 5)
"""The first decays: the default, and steps of √10 from the smallest of `DECAYS`, which is 1."""


@dataclass(frozen=True)
class Ladder:
    """The values of a number that is swept until its best is inside.

    Attributes
    ----------
    key : str
    values : mapping of int to float
        By step.
    first : tuple of int
        The steps to begin with.
    """

    key: str
    values: Mapping[int, float]
    first: tuple[int, ...]

    @classmethod
    def of_rates(cls, entrant: Entrant) -> "Ladder":
        """Steps of √10 around the default rate."""
        steps = range(-FARTHEST, FARTHEST + 1)
        values = {step: float(f"{entrant.rate * 10 ** (step / 2):.3g}") for step in steps}
        return cls(RATE, values | {0: entrant.rate}, FIRST_RATES)

    @classmethod
    def of_decays(cls, entrant: Entrant, optimizer: str) -> "Ladder":
        """The default, then steps of √10 between the smallest and the largest decay."""
        smallest, largest = DECAYS[optimizer]
        number = round(2 * math.log10(largest / smallest)) + 1
        values = {0: entrant.decay}
        for step in range(1, number + 1):
            values[step] = float(f"{smallest * 10 ** ((step - 1) / 2):.3g}")
        return cls(DECAY, values, tuple(step for step in FIRST_DECAYS if step <= number))
