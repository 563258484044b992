"""A model of the client's own beside the shared one: what the learners have in common that keep one."""

import copy

from torch import Tensor, nn

from curvfed.strategies.base.average import Arrays
from curvfed.strategies.base.learner import Learner, Local, load_arrays, select_prefix
from curvfed.strategies.base.model_state import named_state

OWN = "own/"
"""What the names of its tensors begin with, beside those of the shared model."""


class OwnModel(Learner):
    """A learner that keeps a second model, at first a copy of the shared one, and whose scores are those of the second.

    Parameters
    ----------
    local : Local
    """

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self.own = copy.deepcopy(local.model)
        self.own_state = named_state(self.own)

    def local_state(self) -> dict[str, Tensor]:
        """All that the own model computes with."""
        return {f"{OWN}{name}": tensor for name, tensor in self.own_state.items()}

    @property
    def scored(self) -> nn.Module:
        """The own model."""
        return self.own

    @staticmethod
    def restored(model: nn.Module, kept: Arrays) -> nn.Module:
        """The model with what was kept in the place of all its own."""
        load_arrays(select_prefix(kept, OWN), named_state(model))
        return model
