"""What a client contributes to a phase, and the function that makes it."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from curvfed.client_app.client import Client
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.wire.messages import Request


@dataclass(frozen=True, eq=False)
class Contribution:
    """What a client contributes to a phase.

    Attributes
    ----------
    statistics : Statistics
    received : dict of str to array, optional
        The parameters that it was computed from; None for sums over the data alone.
    bound : float
        Bound on what an example adds to an entry; 0 for `secure.clip`.
    scored : Module, optional
        The model of the scores, for the confusion matrix after the last round.
    """

    statistics: Statistics
    received: Arrays | None = None
    bound: float = 0.0
    scored: nn.Module | None = None


Work = Callable[[Client, Request], Contribution]
"""What a client does in a phase."""
