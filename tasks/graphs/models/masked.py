"""Personal masks on the weights of any flat network (FED-PUB)."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MaskedLinear(nn.Module):
    """A linear map x -> x (W ∘ μ)ᵀ + b with a mask μ of W's shape (Baek et al., ICML 2023).

    Training uses and trains all of μ. In evaluation entries below the threshold count as 0, as in
    the authors' code; the paper leaves this open. The parameters are `weight` (W), `bias` and
    `mask` (μ), the first two named as without a mask. The attribute `weight` is W ∘ μ, so that code
    that multiplies by `layer.weight` works unchanged.

    Parameters
    ----------
    linear : Linear
        The map to mask; its parameters are used as they are. The mask starts at 1.
    threshold : float
        In [0, 1].
    """

    def __init__(self, linear: nn.Linear, threshold: float) -> None:
        super().__init__()
        self.threshold = threshold
        # `register_parameter` refuses the name of a property, and W must be named as without a
        # mask.
        self._parameters["weight"] = cast(nn.Parameter, linear.weight)
        self.bias = linear.bias
        self.mask = nn.Parameter(torch.ones_like(linear.weight))

    @property
    def weight(self) -> Tensor:
        """The masked weight W ∘ μ, (out, in)."""
        weight = cast(nn.Parameter, self._parameters["weight"])
        return weight * (
            self.mask if self.training else self.mask.where(self.mask.abs() >= self.threshold, 0)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        return F.linear(x, self.weight, self.bias)


def add_masks(model: nn.Module, threshold: float) -> nn.Module:
    """Put a mask of ones on every linear map of a network, in place; its output stays the same."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, nn.Linear):
                setattr(module, name, MaskedLinear(child, threshold))
    return model
