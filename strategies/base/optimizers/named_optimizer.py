"""The base of the optimisers: parameters by name, and a state that is a plain dictionary of
tensors."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor, nn


def copy_into(targets: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Copy values by name into the target tensors.

    Raises
    ------
    KeyError
        If a tensor is missing.
    ValueError
        If a tensor has another shape.
    """
    for key, target in targets.items():
        if tensors[key].shape != target.shape:
            raise ValueError(
                f"{key} has shape {list(tensors[key].shape)}, expected {list(target.shape)}"
            )
        target.copy_(tensors[key])


class NamedOptimizer(ABC):
    """An optimiser whose state is stored and loaded by name.

    Parameters
    ----------
    parameters : mapping of str to Parameter
        The parameters to train.
    learning_rate : float
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], learning_rate: float) -> None:
        self._parameters = dict(parameters)
        self.learning_rate = learning_rate
        self.reset()

    @abstractmethod
    def reset(self) -> None:
        """Set all moments to zero."""

    @abstractmethod
    def step(self) -> None:
        """One step along the gradients; parameters without a gradient are not changed."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Every tensor that the next step depends on, as "part/name"; the tensors in use, not
        copies."""

    def zero_grad(self) -> None:
        """Drop the gradients."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Inverse of `state`; values are copied.

        Raises
        ------
        KeyError
            If a parameter's state is missing.
        ValueError
            If one has another shape.
        """
        copy_into(self.state(), tensors)
