"""Adam and AdamW as torch computes them; their state is a plain dictionary by parameter name."""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor, nn
from torch.optim.adam import adam

from curvfed.strategies.base.optimizers.named_optimizer import NamedOptimizer

BETA1 = 0.9
BETA2 = 0.999
EPSILON = 1e-8
_PARTS = ("exp_avg", "exp_avg_sq", "step")


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
        Whether weights are decayed beside the step, as in AdamW, and not by an L2 penalty in the
        gradient.
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
        self._state: dict[str, dict[str, Tensor]] = {
            name: {
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
                "step": torch.zeros((), device=parameter.device),
            }
            for name, parameter in self._parameters.items()
        }

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients; parameters without one are not changed."""
        for names, decay in self._groups:
            moved = [
                self._as_stored(name) for name in names if self._parameters[name].grad is not None
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

    def _as_stored(self, name: str) -> tuple[Tensor, ...]:
        """Parameter, gradient, moments and step count; of a matrix stored (in, out) transposed.

        The CPU's fused kernel is right only for contiguous tensors. Convolutions have their
        channels last only on a GPU, whose kernel takes any strides, the same for all four.
        """
        parameter = self._parameters[name]
        state = self._state[name]
        assert parameter.grad is not None
        tensors: tuple[Tensor, ...] = (
            parameter,
            parameter.grad,
            state["exp_avg"],
            state["exp_avg_sq"],
        )
        if parameter.dim() == 2 and not parameter.is_contiguous():
            tensors = tuple(tensor.t().contiguous() for tensor in tensors)
        return (*tensors, state["step"])

    def state(self) -> dict[str, Tensor]:
        """Moments and step counts as "part/name"; the tensors in use, not copies."""
        return {
            f"{moment}/{name}": state[moment]
            for name, state in self._state.items()
            for moment in _PARTS
        }
