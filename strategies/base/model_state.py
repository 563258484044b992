"""All tensors that a model computes with, by name."""

import torch
from torch import Tensor, nn

from curvfed.strategies.base.deviations import is_buffer


def named_state(model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters, and the running statistics of its batch normalisation."""
    running = {name: buffer for name, buffer in model.named_buffers() if is_buffer(name)}
    return dict(model.named_parameters()) | running


def rounded_names(model: nn.Module) -> frozenset[str]:
    """Names of the parameters that `wire-precision` rounds: those that are trained, in float32."""
    return frozenset(name for name, one in model.named_parameters() if one.requires_grad and one.dtype == torch.float32)
