"""SGD with momentum as torch computes it; its state is a plain dictionary by parameter name."""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.optim.sgd import sgd

from curvfed.strategies.base.optimizers.named_optimizer import NamedOptimizer


class SGD(NamedOptimizer):
    """SGD with heavy-ball momentum, by torch's functional form; `Adam` says why `torch.optim` is
    not used.

    The parameters of a network lie in flat space, where the exponential map is addition, so this is
    also Riemannian SGD.

    Parameters
    ----------
    parameters : mapping of str to Parameter
        The parameters to train.
    learning_rate, momentum, weight_decay : float
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        learning_rate: float,
        momentum: float,
        weight_decay: float,
    ) -> None:
        self._momentum = momentum
        self._weight_decay = weight_decay
        super().__init__(parameters, learning_rate)

    def reset(self) -> None:
        """Set the momentum to zero, which gives torch's first step: momentum · 0 + gradient."""
        self._buffers: dict[str, Tensor] = {}
        if self._momentum:
            self._buffers = {
                name: torch.zeros_like(parameter) for name, parameter in self._parameters.items()
            }

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients; parameters without one are not changed."""
        moved = [name for name, parameter in self._parameters.items() if parameter.grad is not None]
        sgd(
            [self._parameters[name] for name in moved],
            [gradient for name in moved if (gradient := self._parameters[name].grad) is not None],
            [self._buffers.get(name) for name in moved],
            foreach=True,
            weight_decay=self._weight_decay,
            momentum=self._momentum,
            lr=self.learning_rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )

    def state(self) -> dict[str, Tensor]:
        """Momentum as "momentum/name"; the tensors in use, not copies."""
        return {f"momentum/{name}": buffer for name, buffer in self._buffers.items()}


def gradient_weight(steps: ArrayLike, momentum: float) -> NDArray[np.float64]:
    """‖a‖₁ of SGD with momentum ρ from rest, the total weight of τ steps' gradients: [τ − ρ(1 −
    ρ^τ)/(1 − ρ)]/(1 − ρ).

    The gradient of step i enters every later step with a power of ρ, so its weight is aᵢ = (1 −
    ρ^(τ−i+1))/(1 − ρ) (Wang et al., Section 3.1). This is the sum of the aᵢ.

    Parameters
    ----------
    steps : array of numbers ≥ 0
        τ, the number of steps.
    momentum : float
        In [0, 1).

    Returns
    -------
    array, float64
        With the shape of `steps`. Relative error ≤ 8·eps/(1 − ρ)².
    """
    counts = np.asarray(steps, np.float64)
    complement = 1 - momentum
    return (counts - momentum * (1 - momentum**counts) / complement) / complement
