"""What the optimisers have in common: parameters by name, and a state that is a plain dictionary of tensors."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor, nn


def copy_into(mine: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Copy values by name into the tensors in use.

    Raises
    ------
    KeyError
        If one is absent.
    ValueError
        If one has another shape.
    """
    for key, tensor in mine.items():
        if tensors[key].shape != tensor.shape:
            raise ValueError(f"{key} is {list(tensors[key].shape)}, awaited was {list(tensor.shape)}")
        tensor.copy_(tensors[key])


class NamedState(ABC):
    """An optimiser whose state is stored and loaded by name.

    Parameters
    ----------
    parameters : mapping of str to Parameter
        What is trained.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self._parameters = dict(parameters)

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Every tensor that the next step depends on, as "part/name"; they are those in use."""

    def zero_grad(self) -> None:
        """Drop the gradients."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Inverse of `state`; values are copied.

        Raises
        ------
        KeyError
            If a parameter's state is absent.
        ValueError
            If one has another shape.
        """
        copy_into(self.state(), tensors)
