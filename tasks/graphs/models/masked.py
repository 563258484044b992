"""Personal masks on the weights of any flat network (FED-PUB)."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MaskedLinear(nn.Module):
    """A linear map x -> x (W ∘ μ)ᵀ + b with a mask μ of W's shape (Baek et al., ICML 2023).

    Training uses and trains all of μ. In evaluation entries below the threshold count as 0, as in
    the authors' code; the paper does not specify this. The parameters are `weight` (W), `bias` and
    `mask` (μ); the names of the first two are those without a mask. The attribute `weight` is W ∘
    μ, so that code that multiplies by `layer.weight` works unchanged.

    Parameters
    ----------
    linear : Linear
        The map to mask, whose parameters are shared. The mask starts at 1.
    threshold : float
        In [0, 1].
    """

    def __init__(self, linear: nn.Linear, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold
        # `register_parameter` refuses the name of a property, and W keeps its name without a mask.
        self._parameters["weight"] = cast(nn.Parameter, linear.weight)
        self.bias = linear.bias
        self.mask = nn.Parameter(torch.ones_like(linear.weight))

    @property
    def weight(self) -> Tensor:
        """The masked weight W ∘ μ, (out, in)."""
        weight = cast(nn.Parameter, self._parameters["weight"])
        if self.training:
            return weight * self.mask
        return weight * self.mask.where(self.mask.abs() >= self.threshold, 0)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return F.linear(x, self.weight, self.bias)


def add_masks(model: nn.Module, threshold: float) -> nn.Module:
    """Put a mask of ones on each linear map of a network, in place; its output is unchanged."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, MaskedLinear(child, threshold))
    return model
