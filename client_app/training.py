"""The local loop: optimiser, proximal term, sparsity, what is frozen."""

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from client_app.adam import Adam
from client_app.sgd import SGD
from strategies.config import RunConfig
from tasks.task import Task


class TrainingError(RuntimeError):
    """Local training that came to nothing; the text is safe to send."""


class Trained(NamedTuple):
    """What came of local training: the loss over the last pass, and the number of steps."""

    loss: float
    steps: int


class Optimizer(Protocol):
    """What the local loop asks of an optimiser, whose state is a plain dictionary by name."""

    learning_rate: float

    def reset(self) -> None:
        """Forget all moments."""

    def zero_grad(self) -> None:
        """Drop the gradients."""

    def step(self) -> None:
        """One step along the gradients; parameters without one stay."""

    def state(self) -> dict[str, Tensor]:
        """Every tensor that the next step depends on, by name."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Inverse of `state`; KeyError or ValueError where it is another model's."""


@dataclass(frozen=True)
class Regulariser:
    """What a step goes by beside the loss: proximal · ‖shared - received‖² + sparsity · ‖masks‖₁, and clipping.

    Attributes
    ----------
    proximal, sparsity : float
    clip_norm : float
        Length that a step's whole gradient is shortened to where it is longer; 0 for never.
    shared : tuple of Parameter
        As received. At the first step the proximal term and its gradient are 0.
    masks : tuple of Parameter
    """

    proximal: float = 0.0
    shared: tuple[nn.Parameter, ...] = ()
    sparsity: float = 0.0
    masks: tuple[nn.Parameter, ...] = ()
    clip_norm: float = 0.0


def make_optimizer(parameters: Mapping[str, nn.Parameter], config: RunConfig) -> Optimizer:
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


def pull_to_zero(parameters: Iterable[nn.Parameter], coefficient: float) -> None:
    """Add the gradient of coefficient · Σ ‖parameter‖₁, which is taken to be 0 where an entry is 0."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.add_(parameter.detach().sign(), alpha=coefficient)


def train(
    model: nn.Module, task: Task, optimizer: Optimizer, epochs: int, regulariser: Regulariser = Regulariser()
) -> float:
    """Local epochs on the task's loss and the regulariser.

    Returns
    -------
    float
        Loss of the task, mean over the steps of the last epoch.

    Raises
    ------
    TrainingError
        If the loss is not finite.
    """
    model.train()
    proximal = regulariser.proximal
    pulled = [parameter for parameter in regulariser.shared if parameter.requires_grad]
    if not proximal or epochs * task.num_steps == 1:
        pulled = []
    anchors = [parameter.detach().clone() for parameter in pulled]
    moved = False
    values: list[float] = []
    for epoch in range(epochs):
        losses: list[Tensor] = []
        for loss in task.losses(model):
            losses.append(loss.detach())
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            if regulariser.sparsity:
                pull_to_zero(regulariser.masks, regulariser.sparsity)
            if moved:
                for parameter, anchor in zip(pulled, anchors, strict=True):
                    if parameter.grad is not None:
                        parameter.grad.add_(parameter.detach() - anchor, alpha=2 * proximal)
            if regulariser.clip_norm:
                torch.nn.utils.clip_grad_norm_(model.parameters(), regulariser.clip_norm)
            optimizer.step()
            moved = True
        values = torch.stack(losses).tolist()  # once per pass: a GPU waits for every number that is looked at
        bad = next((value for value in values if not math.isfinite(value)), None)
        if bad is not None:
            raise TrainingError(f"the loss is {bad} in local epoch {epoch + 1} of {epochs}")
    return math.fsum(values) / len(values)
