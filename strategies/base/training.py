"""The local loop: optimiser, proximal term, sparsity, what is frozen."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from curvfed.strategies.base.optimizers.adam import Adam
from curvfed.strategies.base.optimizers.sgd import SGD
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.tasks.task import Batch, Task

Loss = Callable[[nn.Module, Batch], Tensor]
"""Of a model and a batch: what a step lowers, of shape ()."""

GradientTerm = Callable[[], None]
"""Adds to the gradients of a step, between its backward pass and the optimiser."""


class TrainingError(RuntimeError):
    """Local training that came to nothing; the text is safe to send."""


class Trained(NamedTuple):
    """What came of local training: the loss over the last pass, and the number of steps."""

    loss: float
    steps: int


class Steps(Protocol):
    """What the local loop asks of an optimiser."""

    def zero_grad(self) -> None:
        """Drop the gradients."""

    def step(self) -> None:
        """One step along the gradients; parameters without one stay."""


class Optimizer(Steps, Protocol):
    """What a client asks of its optimiser besides, whose state is a plain dictionary by name."""

    learning_rate: float

    def reset(self) -> None:
        """Forget all moments."""

    def state(self) -> dict[str, Tensor]:
        """Every tensor that the next step depends on, by name."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Inverse of `state`; KeyError or ValueError where it is another model's."""


class Proximal:
    """The gradient of coefficient · Σ ‖parameter - anchor‖².

    Parameters
    ----------
    parameters : iterable of Parameter
    coefficient : float
    anchors : iterable of Tensor, optional
        Where each parameter is drawn to; where it is now, if left out.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], coefficient: float, anchors: Iterable[Tensor] | None = None
    ) -> None:
        self._parameters, self._coefficient = list(parameters), coefficient
        self._anchors = [p.detach().clone() for p in self._parameters] if anchors is None else list(anchors)

    def __call__(self) -> None:
        """Add it; to a parameter without a gradient nothing."""
        for parameter, anchor in zip(self._parameters, self._anchors, strict=True):
            if parameter.grad is not None:
                parameter.grad.add_(parameter.detach() - anchor, alpha=2 * self._coefficient)


class Sparsity:
    """The gradient of coefficient · Σ ‖parameter‖₁, which is taken to be 0 where an entry is 0.

    Parameters
    ----------
    parameters : iterable of Parameter
    coefficient : float
    """

    def __init__(self, parameters: Iterable[nn.Parameter], coefficient: float) -> None:
        self._parameters, self._coefficient = list(parameters), coefficient

    def __call__(self) -> None:
        """Add it; to a parameter without a gradient nothing."""
        for parameter in self._parameters:
            if parameter.grad is not None:
                parameter.grad.add_(parameter.detach().sign(), alpha=self._coefficient)


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


def make_optimizer(parameters: Mapping[str, nn.Parameter], config: RunKeys) -> Optimizer:
    """The optimiser of a settled configuration; what sets the curvature is never decayed, nor masks, which have their own
    pull."""
    if config.optimizer == "sgd":
        return SGD(parameters, config.learning_rate, config.momentum, config.weight_decay)
    undecayed = [name for name in parameters if name == "k" or name.startswith("estimator.") or name.endswith(".mask")]
    return Adam(parameters, config.learning_rate, config.weight_decay, undecayed=undecayed)


def seed_dropout(seed: int, device: torch.device) -> None:
    """Seed the generator that dropout and batches are drawn from; `torch.manual_seed` also records a stack trace, a
    millisecond each."""
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@contextlib.contextmanager
def training_only(parameters: Mapping[str, nn.Parameter], names: Iterable[str]) -> Iterator[None]:
    """Freeze all parameters but those of these names, which are trained even where they are fixed otherwise."""
    before = {name: parameter.requires_grad for name, parameter in parameters.items()}
    chosen = set(names)
    try:
        for name, parameter in parameters.items():
            parameter.requires_grad_(name in chosen)
        yield
    finally:
        for name, parameter in parameters.items():
            parameter.requires_grad_(before[name])


def train(
    model: nn.Module,
    task: Task,
    optimizer: Steps,
    epochs: int,
    pulls: Sequence[GradientTerm] = (),
    clip_norm: float = 0.0,
    loss: Loss | None = None,
    repeats: int = 1,
) -> float:
    """Local epochs on a loss and what pulls besides.

    Parameters
    ----------
    clip_norm : float
        Length that a step's whole gradient is shortened to where it is longer; 0 for never.
    loss : callable, optional
        The task's own, if left out.
    repeats : int
        Steps on a batch before the next one.

    Returns
    -------
    float
        The loss, mean over the steps of the last epoch.

    Raises
    ------
    TrainingError
        If the loss is not finite.
    """
    model.train()
    objective = loss or task.loss
    values: list[float] = []
    for epoch in range(epochs):
        losses: list[Tensor] = []
        for batch in (batch for batch in task.batches(model) for _ in range(repeats)):
            value = objective(model, batch)
            losses.append(value.detach())
            optimizer.zero_grad()
            value.backward()
            for pull in pulls:
                pull()
            if clip_norm:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()
        values = torch.stack(losses).tolist()  # once per pass: a GPU waits for every number that is looked at
        check_finite(values, epoch, epochs)
    return math.fsum(values) / len(values)


def check_finite(losses: Iterable[float], epoch: int, epochs: int) -> None:
    """Refuse losses that are none.

    Raises
    ------
    TrainingError
    """
    bad = next((value for value in losses if not math.isfinite(value)), None)
    if bad is not None:
        raise TrainingError(f"the loss is {bad} in local epoch {epoch + 1} of {epochs}")
