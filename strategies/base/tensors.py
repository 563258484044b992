"""Copies of tensors, and into them."""

from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

from curvfed.geometry.arrays import Array


@torch.no_grad()
def load_arrays(arrays: Mapping[str, Array], tensors: Mapping[str, Tensor]) -> None:
    """Copy arrays into the tensors of the same names.

    Examples
    --------
    >>> model = torch.nn.Linear(2, 1)
    >>> load_arrays({"bias": np.array([3.0], dtype=np.float32)}, dict(model.named_parameters()))
    >>> model.bias.item()
    3.0
    """
    for name, array in arrays.items():
        tensor = tensors[name].detach()
        if tensor.device.type == "cpu":
            np.copyto(tensor.numpy(), array)
        else:
            tensor.copy_(torch.tensor(array))


@torch.no_grad()
def copy_tensors(tensors: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> None:
    """Copy tensors into the targets of the same names; there may be fewer targets than tensors.

    Raises
    ------
    KeyError
        If a tensor is missing.
    ValueError
        If a tensor has another shape.

    Examples
    --------
    >>> here = {"w": torch.zeros(2)}
    >>> copy_tensors({"w": torch.ones(2), "b": torch.ones(1)}, here)
    >>> here["w"]
    tensor([1., 1.])
    """
    for name, target in targets.items():
        if tensors[name].shape != target.shape:
            raise ValueError(
                f"{name} has shape {list(tensors[name].shape)}, expected {list(target.shape)}"
            )
        target.copy_(tensors[name])


def clones(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Copies of the tensors' current values.

    Examples
    --------
    >>> before = torch.zeros(2)
    >>> (kept,) = clones([before])
    >>> _ = before.add_(1)
    >>> kept
    tensor([0., 0.])
    """
    return [tensor.detach().clone() for tensor in tensors]
