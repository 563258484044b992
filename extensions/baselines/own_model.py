"""A client's second model, of its own, and the moments of its optimiser."""

import copy

from torch import Tensor, nn

from curvfed.strategies.base.learner import Learner, Local
from curvfed.strategies.base.optimizer import NamedOptimizer
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.statistics import Arrays, add_prefix, named_state, select_prefix
from curvfed.strategies.base.tensors import load_arrays

OWN = "own/"
"""Prefix of the names of the personal model's tensors in the local state."""


class OwnModel(Learner):
    """A learner that keeps a second, personal model and scores it. It starts as a copy of the
    shared model.

    Parameters
    ----------
    local : Local
    """

    own_model = True

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self.own = copy.deepcopy(local.model)
        self.own_state = named_state(self.own)
        self.own_trained = {name: p for name, p in self.own.named_parameters() if p.requires_grad}

    def local_state(self) -> dict[str, Tensor]:
        """Parameters and running statistics of the personal model."""
        return add_prefix(OWN, self.own_state)

    @property
    def scored(self) -> nn.Module:
        """The personal model."""
        return self.own

    @staticmethod
    def restored(model: nn.Module, state: Arrays) -> nn.Module:
        """The model with the stored parameters of the personal model."""
        load_arrays(select_prefix(state, OWN), named_state(model))
        return model


def kept_moments(optimizer: NamedOptimizer, config: RunKeys) -> dict[str, Tensor]:
    """The moments of a learner's second optimiser for `Learner.local_state`, if the run keeps
    moments.

    Examples
    --------
    >>> from curvfed.strategies.base.learner import fresh_optimizer
    >>> config = RunKeys(optimizer="sgd", learning_rate=0.1, optimizer_state="kept")
    >>> list(kept_moments(fresh_optimizer(nn.Linear(2, 1, bias=False), config), config))
    ['moments/momentum/weight']
    """
    if config.optimizer_state != "kept":
        return {}
    return add_prefix("moments/", optimizer.state())
