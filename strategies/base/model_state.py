"""All tensors that a model computes with, by name."""

from torch import Tensor, nn

from curvfed.strategies.base.deviations import is_buffer


def named_state(model: nn.Module) -> dict[str, Tensor]:
    """A model's parameters, and the running statistics of its batch normalisation."""
    running = {name: buffer for name, buffer in model.named_buffers() if is_buffer(name)}
    return dict(model.named_parameters()) | running
