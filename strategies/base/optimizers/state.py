"""The state of an optimiser as a plain dictionary of tensors."""

from collections.abc import Mapping

from torch import Tensor


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
