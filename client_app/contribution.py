"""A client's contribution to a phase, before it is sent in the open or masked. Under a budget of
differential privacy nothing leaves a node without its cost in the ledger."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
from torch import nn

from curvfed.client_app.client import Client
from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.messages import TRAIN, Request

SECONDS = "seconds"
"""The figure of a contribution that differs each time that it is computed."""


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

    def digest_for(self, weight: int) -> str:
        """The digest of the contribution with this weight, without the time that it took: the same
        if it is computed anew."""
        figures = {name: value for name, value in self.figures.items() if name != SECONDS}
        values = [self.digest, weight, sorted(figures.items())]
        return sha256(json.dumps(values).encode()).hexdigest()

    def without_change(self) -> "Contribution":
        """The contribution of a client that did not train: the parameters as received, and zeros in
        place of other arrays."""
        # An open run imports nothing of secure sums.
        from curvfed.strategies.config.secure_phases import parameters

        received = parameters(self.received or {})
        arrays = {
            name: received[name] if name in received else np.zeros_like(array)
            for name, array in self.arrays.items()
        }
        return replace(self, arrays=arrays, figures={})


Work = Callable[[Client, Request], Contribution]
"""The work of a client in a phase."""


def check_contribution(client: Client, phase: str, contribution: Contribution) -> None:
    """Refuse a contribution that is not paid for; see `check_paid`. A client without training
    examples returns the parameters that it received, at no cost."""
    if phase == TRAIN and not client.task.num_examples and not contribution.figures:
        return
    check_paid(client, phase, contribution.digest)


def check_paid(client: Client, phase: str, reply: str) -> None:
    """Refuse a reply whose cost is not in the ledger of a node with a budget.

    Parameters
    ----------
    reply : str
        The digest that the line names: of the contribution, or of the session of a sum.

    Raises
    ------
    ConfigError
    """
    if client.ledger is None or not client.has_budget:
        return
    with client.ledger.locked():
        paid = [
            cost["reply"] == reply and cost.get("phase", phase) == phase
            for cost in client.ledger.memory.costs
            if cost["run"] == client.run
        ]
    if not any(paid):
        raise ConfigError(
            f"{phase}: the run's guard has written no cost of this reply into the node's ledger, so"
            " the reply stays: [privacy] max-epsilon in its policy",
            key="unpaid-reply",
        )
