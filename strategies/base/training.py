"""Local training: the loop over batches, terms that are added to the gradients, and which
parameters are frozen."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from curvfed.strategies.base.optimizer import SGD, Adam, NamedOptimizer, Riemannian
from curvfed.strategies.base.run_keys import RunKeys
from curvfed.strategies.base.tensors import clones
from curvfed.tasks.draws import seed_draws
from curvfed.tasks.errors import SafeError
from curvfed.tasks.task import Batch, IndependentExamples, Task

Loss = Callable[[nn.Module, Batch], Tensor]
"""Function of a model and a batch that returns the loss, of shape ()."""

GradientTerm = Callable[[], None]
"""Adds a term to the gradients of a step, after the backward pass and before the optimiser's
step.
"""


class TrainingError(SafeError, RuntimeError):
    """Local training that failed; the text holds no data and may be sent.

    Examples
    --------
    >>> raise TrainingError("the loss is nan in local epoch 1 of 5")
    Traceback (most recent call last):
    curvfed.strategies.base.training.TrainingError: the loss is nan in local epoch 1 of 5
    """

    area = "training"


class Trained(NamedTuple):
    """Result of local training: the mean loss of the last pass, and the number of steps.

    Examples
    --------
    >>> Trained(loss=0.5, steps=4).steps
    4
    """

    loss: float
    steps: int


class Stepper(Protocol):
    """The part of an optimiser that the training loop uses.

    Examples
    --------
    >>> weights = [nn.Parameter(torch.ones(2))]
    >>> optimizer: Stepper = torch.optim.SGD(weights, lr=0.5)  # torch's optimisers have both
    >>> weights[0].sum().backward()
    >>> optimizer.step()
    >>> weights[0].tolist()
    [0.5, 0.5]
    """

    def zero_grad(self) -> None:
        """Drop the gradients."""

    def step(self) -> None:
        """One step along the gradients; parameters without a gradient are not changed."""


class Steps(Protocol):
    """Steps that train a model in place of those of `train`."""

    def train(
        self,
        model: nn.Module,
        task: IndependentExamples,
        optimizer: Stepper,
        steps: int,
        terms: Sequence[GradientTerm],
        clip_norm: float,
        loss: Loss,
    ) -> None:
        """This number of steps; the other arguments are those of `train`, except that terms must
        not depend on the data."""


class Proximal:
    """The gradient of coefficient · Σ ‖parameter - anchor‖².

    Parameters
    ----------
    parameters : iterable of Parameter
    coefficient : float
    anchors : iterable of Tensor, optional
        By default the parameters' values at construction.

    Examples
    --------
    >>> weight = nn.Parameter(torch.ones(2))
    >>> term = Proximal([weight], 0.5, anchors=[torch.zeros(2)])
    >>> weight.grad = torch.zeros(2)
    >>> term()
    >>> weight.grad
    tensor([1., 1.])
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        coefficient: float,
        anchors: Iterable[Tensor] | None = None,
    ) -> None:
        self._parameters = list(parameters)
        self._coefficient = coefficient
        self._anchors = clones(self._parameters) if anchors is None else list(anchors)

    def __call__(self) -> None:
        """Add the gradient; a parameter without a gradient is skipped."""
        for parameter, anchor in zip(self._parameters, self._anchors, strict=True):
            if parameter.grad is not None:
                parameter.grad.add_(parameter.detach() - anchor, alpha=2 * self._coefficient)


class Correction:
    """A constant that is added to the gradients in every step.

    Parameters
    ----------
    parameters : mapping of str to Parameter
    corrections : mapping of str to Tensor
        By the same names.

    Examples
    --------
    >>> weight = nn.Parameter(torch.zeros(2))
    >>> Correction({"w": weight}, {"w": torch.tensor([0.5, -0.5])})()
    >>> weight.grad
    tensor([ 0.5000, -0.5000])
    """

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], corrections: Mapping[str, Tensor]
    ) -> None:
        self._pairs = [(parameter, corrections[name]) for name, parameter in parameters.items()]

    def __call__(self) -> None:
        """Add the correction; the gradient of a parameter without one counts as 0."""
        for parameter, correction in self._pairs:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.add_(correction)


def make_optimizer(parameters: Mapping[str, nn.Parameter], config: RunKeys) -> NamedOptimizer:
    """The optimiser of a configuration with its defaults resolved.

    Adam never decays the parameters that set the curvature, nor masks, which have a term of their
    own.

    Examples
    --------
    >>> config = RunKeys(optimizer="adamw", learning_rate=0.01)
    >>> type(make_optimizer({"w": nn.Parameter(torch.ones(2))}, config)).__name__
    'Adam'
    """
    charts = {
        name: chart
        for name, parameter in parameters.items()
        if (chart := getattr(parameter, "chart", None)) and not chart.has_flat_steps
    }
    if charts:
        return Riemannian(parameters, charts, lambda flat: _flat_optimizer(flat, config))
    return _flat_optimizer(parameters, config)


def _flat_optimizer(parameters: Mapping[str, nn.Parameter], config: RunKeys) -> NamedOptimizer:
    if config.optimizer == "sgd":
        return SGD(parameters, config.learning_rate, config.momentum, config.weight_decay)
    undecayed = [
        name
        for name in parameters
        if name in ("k", "head.k") or name.startswith("estimator.") or name.endswith(".mask")
    ]
    decoupled = config.optimizer == "adamw"
    return Adam(
        parameters,
        config.learning_rate,
        config.weight_decay,
        undecayed=undecayed,
        decoupled=decoupled,
    )


def seed_dropout(seed: int, device: torch.device) -> None:
    """Seed the generator that dropout and batches draw from.

    `torch.manual_seed` is not used because it also records a stack trace, which takes a
    millisecond.

    Examples
    --------
    >>> seed_dropout(7, torch.device("cpu"))
    >>> first = torch.rand(3)
    >>> seed_dropout(7, torch.device("cpu"))
    >>> bool((torch.rand(3) == first).all())
    True
    """
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(seed)
    else:
        seed_draws(seed)


@contextlib.contextmanager
def training_only(parameters: Mapping[str, nn.Parameter], names: Iterable[str]) -> Iterator[None]:
    """Train only the parameters with these names within the block, even those that are otherwise
    frozen.

    Examples
    --------
    >>> parameters = dict(nn.Linear(2, 1).named_parameters())
    >>> with training_only(parameters, ["bias"]):
    ...     [name for name, weight in parameters.items() if weight.requires_grad]
    ['bias']
    >>> [name for name, weight in parameters.items() if weight.requires_grad]
    ['weight', 'bias']
    """
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
    optimizer: Stepper,
    epochs: int,
    terms: Sequence[GradientTerm] = (),
    clip_norm: float = 0.0,
    loss: Loss | None = None,
    repeats: int = 1,
) -> float:
    """Local epochs on a loss, with further terms added to its gradients.

    Parameters
    ----------
    terms : sequence of callable
        Each adds a term to the gradients of every step.
    clip_norm : float
        Maximum norm of a step's gradient, over all parameters; 0 for no limit.
    loss : callable, optional
        By default the task's own.
    repeats : int
        Number of steps on each batch.

    Returns
    -------
    float
        The mean loss over the steps of the last epoch.

    Raises
    ------
    TrainingError
        If the loss is not finite.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> x = torch.arange(8.0).reshape(4, 2)
    >>> batch = Batch(x, x.sum(dim=1))
    >>> def squares(model, batch):
    ...     return (model(batch.inputs)[:, 0] - batch.labels).square().mean()
    >>> task = SimpleNamespace(batches=lambda model: [batch], loss=squares)
    >>> model = nn.Linear(2, 1, bias=False)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    >>> train(model, task, optimizer, epochs=200) < 0.01
    True
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
            for term in terms:
                term()
            if clip_norm:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()
        # once per pass: reading a value makes the CPU wait for the GPU
        values = torch.stack(losses).tolist()
        check_finite(values, epoch, epochs)
    return math.fsum(values) / len(values)


def check_finite(losses: Iterable[float], epoch: int, epochs: int) -> None:
    """Refuse losses that are not finite.

    Raises
    ------
    TrainingError

    Examples
    --------
    >>> check_finite([0.7, float("inf")], epoch=1, epochs=5)
    Traceback (most recent call last):
    curvfed.strategies.base.training.TrainingError: the loss is inf in local epoch 2 of 5
    """
    bad = next((value for value in losses if not math.isfinite(value)), None)
    if bad is not None:
        raise TrainingError(
            f"the loss is {bad} in local epoch {epoch + 1} of {epochs}", key="not-finite"
        )


def learning_rate(config: RunKeys, round_number: int) -> float:
    """The clients' learning rate in a round, 1, 2, …; `config` has its defaults resolved.

    Cosine is SphereFed's schedule (Section 5.1; Loshchilov & Hutter, 2017, Eq. 5 without restarts):
    the first round has the whole rate, and the one after the last would have 0. Steps is its
    Appendix A.3. Inverse (Robbins & Monro, 1951) leaves half of the rate after decay-every rounds.

    Examples
    --------
    >>> config = RunKeys(learning_rate=0.1, schedule="inverse", decay_every=10, burn_in=1)
    >>> [learning_rate(config, number) for number in (1, 11)]
    [0.01, 0.05]
    """
    done = round_number - 1
    rate = config.learning_rate / 10 if done < config.burn_in else config.learning_rate
    if config.schedule == "cosine":
        return rate * (1 + math.cos(math.pi * done / config.num_rounds)) / 2
    if config.schedule == "steps":
        return rate * config.decay ** (done // config.decay_every)
    if config.schedule == "inverse":
        return rate / (1 + done / config.decay_every)
    return rate
