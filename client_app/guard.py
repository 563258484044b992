"""A guard's work at a client, see `curvfed.strategies.base.guard`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from curvfed.client_app.data import Data
from curvfed.client_app.node import Node
from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.figures import BEFORE
from curvfed.strategies.base.guard import Guard
from curvfed.strategies.base.noise import Noise
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.base.training import Steps
from curvfed.strategies.config.run_config import RunConfig
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.messages import Header, Request
from curvfed.strategies.wire.store import Store
from curvfed.tasks import plugins

if TYPE_CHECKING:
    from curvfed.client_app.node.ledger import Ledger
    from curvfed.strategies.secure_sum import Session
    from curvfed.strategies.secure_sum.fixed_point import FixedPoint, Residues

Hide = Callable[["Residues", "FixedPoint", "Session"], "Residues"]
"""Adds a client's share of the noise to its residues."""


@dataclass(eq=False)
class ClientGuard:
    """The guard of a run at a client. This one hides nothing.

    Attributes
    ----------
    config : RunConfig
        With its defaults resolved.
    run : str
        Name of the run.
    node : Node
    data : ClientGraph, ClientImages or ClientPoints
    ledger : Ledger or None
        None in a simulation: its replies leave nobody.
    replies : Store
        The place of a real node's last replies, if the guard must be able to repeat them.
    source : Noise
        Unseeded on a real node.
    """

    config: RunConfig
    run: str
    node: Node
    data: Data
    ledger: "Ledger | None"
    replies: Store
    source: Noise

    def __post_init__(self) -> None:
        """Refuse a client that the guard cannot hide. Raises ConfigError."""

    def check(self) -> None:
        """Refuse a run that would cost more than the node's policy leaves. Raises ConfigError."""

    def steps(self, model: nn.Module) -> Steps | None:
        """The steps that train the model in place of the usual ones.

        Raises
        ------
        ConfigError
            If the model cannot be trained by them.
        """
        return None

    def train(self, client: Any, request: Request) -> Any:
        """The contribution of a round of the `Client`, if the guard replaces its usual work; else
        None. If the guard hides examples by training, it records the cost here: the line's `reply`
        is the digest of the contribution."""
        return None

    def update_vector(self, contribution: Statistics, received: Arrays, limit: float) -> Floats:
        """A client's vector in a secure sum of updates: the weighted change of the shared
        parameters, zeros without training examples, with the figures of the round.

        Parameters
        ----------
        contribution : Statistics
        received : dict of str to array
        limit : float
            Maximum norm of the change.
        """
        # An open run imports nothing of secure sums.
        from curvfed.strategies.config.secure_phases import (
            client_vector,
            weighted_update,
            whole_counts,
        )

        weight = contribution.weight
        arrays = contribution.arrays
        values = np.zeros(sum(array.size for array in arrays.values()))
        norm = 0.0
        if weight:
            if self.config.weights == "examples":
                arrays = whole_counts(arrays, weight)
            else:
                weight = 1
            values, norm = weighted_update(arrays, received, weight, limit)
        # Scores before training are left out: an evaluation of the same parameters sums them,
        # perhaps over other clients.
        figures = {
            name: value for name, value in contribution.figures.items() if not name.endswith(BEFORE)
        }
        figures["clipped"] = float(norm > limit)
        return client_vector(values, weight, figures, limit)

    def hide(
        self, header: Header, arrays: Arrays, variances: Floats | None, bound: float
    ) -> Hide | None:
        """The noise on the values of a masked vector; None without.

        Parameters
        ----------
        header : Header
            Of the phase.
        arrays : dict of str to array
            The contribution that the vector is computed from.
        variances : array, optional
            Those of the noise, if the method has stated them.
        bound : float
            Bound on an entry of the vector.
        """
        return None

    def pay(self, session: "Session") -> None:
        """Record the cost of a vector with noise, before it leaves; once. The line's `reply` is the
        digest of the session in hexadecimal.

        Raises
        ------
        ConfigError
            If the run has had all its sums, or the policy's budget is spent.
        """


def client_half(guard: Guard, has_budget: bool) -> type[ClientGuard]:
    """The class of a guard's half at a client.

    Parameters
    ----------
    guard : Guard
    has_budget : bool
        Whether the node's policy has a budget of differential privacy.

    Raises
    ------
    DataError
        If its import fails.
    ConfigError
        If the node has a budget, and the half does not compute costs.
    """
    half: type[ClientGuard] = plugins.imported(guard.client_half)
    absent = [
        name for name in ("check", "pay") if getattr(half, name) is getattr(ClientGuard, name)
    ]
    if has_budget and absent:
        raise ConfigError(
            f"this node has a budget, [privacy] max-epsilon in its policy: {guard.client_half} has"
            f" no {' and no '.join(absent)} of its own, and so would not keep to it",
            key="unpaid-guard",
        )
    return half
