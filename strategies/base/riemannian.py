"""Riemannian Adam and SGD: a flat optimiser in the orthonormal frames of curved rows."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from curvfed.geometry.frames import Hyperboloid
from curvfed.strategies.base.optimizer import NamedOptimizer


class Riemannian(NamedOptimizer):
    """Steps along geodesics for parameters with a chart, and flat steps for all others.

    The flat optimiser computes the step of a curved parameter as the change of zeros, from the
    gradient in the frames. Weight decay then has no effect on the parameter.

    Parameters
    ----------
    parameters : mapping of str to Parameter
    charts : mapping of str to Hyperboloid
        The coordinates of the curved parameters among them.
    make : callable
        Makes the flat optimiser of parameters by name.
    """

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        charts: Mapping[str, Hyperboloid],
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
