"""A client's contribution to a phase, before it is sent in the open or masked."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from torch import nn

from curvfed.client_app.client import Client
from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.wire.messages import Request


@dataclass(frozen=True, eq=False)
class Contribution(Statistics):
    """A client's contribution to a phase, with the inputs of its computation.

    Attributes
    ----------
    received : dict of str to array, optional
        The parameters that it was computed from; None for sums only over the data.
    bound : float
        Bound on the contribution of an example to an entry; 0 for `secure.clip`.
    scored : Module, optional
        The model of the scores, for the confusion matrix after the last round.
    variances : array, optional
        Variances of the noise on differentially private sums; see `Vectors`.
    """

    received: Arrays | None = None
    bound: float = 0.0
    scored: nn.Module | None = None
    variances: Floats | None = None

    @property
    def digest(self) -> str:
        """The digest of names and values, in hexadecimal."""
        digest = sha256()
        for name in sorted(self.arrays):
            digest.update(name.encode() + np.ascontiguousarray(self.arrays[name]).tobytes())
        return digest.hexdigest()


Work = Callable[[Client, Request], Contribution]
"""The work of a client in a phase."""
