"""Personal masks on the weights of a flat network, whichever it is (FED-PUB)."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MaskedLinear(nn.Module):
    """A linear map x -> x (W ∘ μ)ᵀ + b with a mask μ of W's shape (Baek et al., ICML 2023).

    In training all of μ counts and learns. In evaluation the entries below the threshold count as 0, which the paper
    leaves open and the authors' code does. The parameters are `weight` (W), `bias` and `mask` (μ), and the first two keep
    the names that they have without a mask; who reads `layer.weight` is given W ∘ μ, and so need not know of masks.

    Parameters
    ----------
    linear : Linear
        What is masked; its parameters are taken over. The mask starts at 1.
    threshold : float
        In [0, 1].
    """

    def __init__(self, linear: nn.Linear, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold
        # `register_parameter` refuses names that the class has; W must be called what it is called without a mask.
        self._parameters["weight"] = cast(nn.Parameter, linear.weight)
        self.bias = linear.bias
        self.mask = nn.Parameter(torch.ones_like(linear.weight))

    @property
    def weight(self) -> Tensor:
        """The masked weight W ∘ μ, (out, in)."""
        weight = cast(nn.Parameter, self._parameters["weight"])
        return weight * (self.mask if self.training else self.mask.where(self.mask.abs() >= self.threshold, 0))

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return F.linear(x, self.weight, self.bias)


def add_masks(model: nn.Module, threshold: float) -> nn.Module:
    """Put a mask of ones on every linear map of a network, in place: at first it computes what it did."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, MaskedLinear(child, threshold))
    return model
