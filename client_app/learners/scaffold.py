"""SCAFFOLD's local work (Karimireddy et al., ICML 2020): steps along gradients that control variates correct."""

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from curvfed.strategies.base.deviations import is_buffer
from curvfed.strategies.base.learner import Arrays, Learner, Local, copies, copy_in, host, part
from curvfed.strategies.base.training import Pull, Trained
from curvfed.strategies.normalised import gradient_weight
from curvfed.strategies.scaffold import VARIATE
from curvfed.strategies.wire.arrays import check_arrays

KEPT = "own-variate/"
"""What the names of the client's own variate begin with."""


class Scaffold(Learner):
    """y ← y − η (g(y) − cᵢ + c) from y = x, then cᵢ⁺ = cᵢ − c + (x − y)/(η‖a‖₁): Algorithm 1, option II.

    The paper's steps are plain SGD, of which ‖a‖₁ = K, their number. Heavy-ball momentum makes it
    x − y = η Σ aₖ (gₖ − cᵢ + c), where the gradient of step k goes into all later steps too; ‖a‖₁ = Σ aₖ
    (`curvfed.strategies.normalised.gradient_weight`) is what keeps cᵢ⁺ a mean of the client's gradients, Σ aₖ gₖ/‖a‖₁.
    Divided by K alone it would be up to 1/(1 − ρ) times too long, and so would the correction. What `weight-decay` adds
    counts as gradient; where `clip-norm` shortens a step, cᵢ⁺ is of the shortened one. η is the round's, after the
    schedule.

    Running statistics have no gradient, and no variate. cᵢ starts at 0 and stays where it is in a round without training;
    Δcᵢ = cᵢ⁺ − cᵢ is sent beside y.

    Parameters
    ----------
    local : Local
    """

    def __init__(self, local: Local) -> None:
        super().__init__(local)
        self._names = [name for name in local.shared if not is_buffer(name)]
        self._own, self._common, self._change = (
            {name: torch.zeros_like(local.tensors[name].detach()) for name in self._names} for _ in range(3)
        )

    def kept(self) -> dict[str, Tensor]:
        """cᵢ."""
        return {f"{KEPT}{name}": tensor for name, tensor in self._own.items()}

    def receive(self, arrays: Arrays) -> None:
        """x and c."""
        check_arrays(arrays, self.share())
        copy_in({name: arrays[name] for name in self.local.shared}, self.local.tensors)
        copy_in(part(arrays, VARIATE), self._common)
        for change in self._change.values():
            change.zero_()

    def train(self) -> Trained:
        """The round's steps, and the variate that they leave."""
        local, config = self.local, self.local.config
        starts = copies(local.tensors[name] for name in self._names)
        trained = super().train()
        length = local.optimizer.learning_rate * float(gradient_weight(trained.steps, config.momentum))
        if length > 0:  # a schedule may end at no length at all, which tells of no gradient
            for name, start in zip(self._names, starts, strict=True):
                change = self._change[name]
                torch.sub(start, local.tensors[name].detach(), out=change)
                change.div_(length).sub_(self._common[name])
                self._own[name].add_(change)
        return trained

    def pulls(self) -> list[Pull]:
        """The correction c − cᵢ, beside what others ask for."""
        trained = {name: self.local.trained[name] for name in self._names if name in self.local.trained}
        corrections = {name: self._common[name] - self._own[name] for name in trained}
        return [*super().pulls(), Correction(trained, corrections)]

    def share(self) -> dict[str, NDArray[Any]]:
        """y and Δcᵢ."""
        return super().share() | {f"{VARIATE}{name}": host(change) for name, change in self._change.items()}


class Correction:
    """What is added to the gradients, the same in every step.

    Parameters
    ----------
    parameters : mapping of str to Parameter
    corrections : mapping of str to Tensor
        By the same names.
    """

    def __init__(self, parameters: Mapping[str, nn.Parameter], corrections: Mapping[str, Tensor]) -> None:
        self._pairs = [(parameter, corrections[name]) for name, parameter in parameters.items()]

    def __call__(self) -> None:
        """Add it; to a parameter without a gradient too, whose gradient is 0."""
        for parameter, correction in self._pairs:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.add_(correction)


LEARNER = Scaffold
