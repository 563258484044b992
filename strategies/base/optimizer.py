"""Optimisers as torch computes them: SGD with momentum, Adam and AdamW. Parameters have names, and
the state is a plain dictionary of tensors."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from curvfed.geometry.arrays import Floats
from curvfed.geometry.frames import Chart
from curvfed.strategies.base.statistics import add_prefix
from curvfed.strategies.base.tensors import copy_tensors


class NamedOptimizer(ABC):
    """An optimiser with a state that is stored and loaded by name.

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
        copy_tensors(tensors, self.state())


class SGD(NamedOptimizer):
    """SGD with heavy-ball momentum, by torch's functional form; `Adam` says why `torch.optim` is
    not used.

    In flat space the exponential map is addition, so this is also Riemannian SGD there; for rows in
    curved space it is so within `curvfed.strategies.base.optimizer.Riemannian`.

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
        moved = {name: p for name, p in self._parameters.items() if p.grad is not None}
        gradients = [p.grad for p in moved.values() if p.grad is not None]
        buffers = [self._buffers.get(name) for name in moved]
        sgd(
            list(moved.values()),
            gradients,
            buffers,
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
        return add_prefix("momentum/", self._buffers)


def gradient_weight(steps: ArrayLike, momentum: float) -> Floats:
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


BETA1 = 0.9
BETA2 = 0.999
EPSILON = 1e-8


class Adam(NamedOptimizer):
    """Kingma & Ba (2015), and AdamW (Loshchilov & Hutter, 2019), by torch's own functional form and
    its fused kernel.

    `torch.optim.Adam` gives the same bits, but its constructor imports torch's compiler, which
    takes seconds in every process that a real node starts for a message.

    Parameters
    ----------
    parameters : mapping of str to Parameter
        The parameters to train.
    learning_rate, weight_decay : float
    undecayed : collection of str
        Names of parameters without weight decay.
    decoupled : bool
        Whether weights are decayed apart from the step, as in AdamW, and not by an L2 penalty in
        the gradient.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        learning_rate: float,
        weight_decay: float,
        undecayed: Collection[str],
        decoupled: bool = False,
    ) -> None:
        super().__init__(parameters, learning_rate)
        self._decoupled = decoupled
        decayed = [name for name in parameters if weight_decay and name not in undecayed]
        undecayed_names = [name for name in parameters if name not in decayed]
        self._groups = [
            (names, decay)
            for names, decay in ((decayed, weight_decay), (undecayed_names, 0.0))
            if names
        ]

    def reset(self) -> None:
        """Set all moments and step counts to zero."""
        self._state: dict[str, dict[str, Tensor]] = {}
        for name, parameter in self._parameters.items():
            step = torch.zeros((), device=parameter.device)
            means = torch.zeros_like(_as_stored(parameter))
            squares = torch.zeros_like(means)
            self._state[name] = {"mean": means, "square": squares, "step": step}

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients; parameters without one are not changed."""
        for names, decay in self._groups:
            moved = [
                self._tensors(name) for name in names if self._parameters[name].grad is not None
            ]
            parameters, gradients, means, squares, steps = (
                map(list, zip(*moved, strict=True)) if moved else [[]] * 5
            )
            adam(
                parameters,
                gradients,
                means,
                squares,
                [],
                steps,
                fused=True,
                amsgrad=False,
                beta1=BETA1,
                beta2=BETA2,
                lr=self.learning_rate,
                weight_decay=decay,
                eps=EPSILON,
                maximize=False,
                decoupled_weight_decay=self._decoupled,
            )

    def _tensors(self, name: str) -> tuple[Tensor, ...]:
        """Parameter, gradient, moments and step count, as the parameter is stored.

        The CPU's fused kernel is right only for contiguous tensors. Convolutions have their
        channels last only on a GPU; its kernel takes any strides, the same for all four.
        """
        parameter = self._parameters[name]
        gradient = parameter.grad
        assert gradient is not None
        stored = _as_stored(parameter)
        if stored is not parameter:
            gradient = gradient.t().contiguous()
        return stored, gradient, *self._state[name].values()

    def state(self) -> dict[str, Tensor]:
        """Moments and step counts as "part/name"; the tensors in use, not copies. Moments of a
        matrix stored (in, out) have this shape: no file of them needs a transposed copy."""
        return {
            f"{moment}/{name}": tensor
            for name, state in self._state.items()
            for moment, tensor in state.items()
        }


def _as_stored(parameter: Tensor) -> Tensor:
    """The parameter; a matrix (out, in) that is stored (in, out) is transposed."""
    is_stored_by_input = parameter.dim() == 2 and not parameter.is_contiguous()
    return parameter.t() if is_stored_by_input else parameter


class Riemannian(NamedOptimizer):
    """Steps along geodesics for parameters with a chart, and flat steps for all others.

    The flat optimiser computes the step of a curved parameter as the change of zeros, from the
    gradient in the frames. Weight decay then does not affect the parameter.

    Parameters
    ----------
    parameters : mapping of str to Parameter
    charts : mapping of str to Chart
        The coordinates of the curved parameters among them.
    make : callable
        Makes the flat optimiser of parameters by name.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        charts: Mapping[str, Chart],
        make: Callable[[Mapping[str, nn.Parameter]], NamedOptimizer],
    ) -> None:
        self._charts = charts
        self._steps = {name: nn.Parameter(torch.zeros_like(parameters[name])) for name in charts}
        self._flat = make({**parameters, **self._steps})
        super().__init__(parameters, self._flat.learning_rate)

    def reset(self) -> None:
        """Set all moments to zero."""
        self._flat.reset()

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients; parameters without one are not changed."""
        self._flat.learning_rate = self.learning_rate
        for name, chart in self._charts.items():
            rows = self._parameters[name]
            self._steps[name].grad = None
            if rows.grad is not None:
                self._steps[name].grad = chart.gradient(rows, rows.grad)
        self._flat.step()
        for name, chart in self._charts.items():
            rows = self._parameters[name]
            if rows.grad is not None:
                rows.copy_(chart.move(rows, self._steps[name]))
                self._steps[name].zero_()

    def state(self) -> dict[str, Tensor]:
        """The state of the flat optimiser."""
        return self._flat.state()
