"""A client's second model, of its own."""

import copy

from torch import Tensor, nn

from curvfed.strategies.base.learner import Learner, Local
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
