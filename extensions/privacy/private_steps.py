"""DP-SGD (Abadi et al., 2016, Algorithm 1): steps on clipped gradients of single examples, with
noise."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from curvfed.strategies.base.noise import Noise
from curvfed.strategies.base.training import GradientTerm, Loss, Stepper, seed_dropout
from curvfed.tasks.task import Batch, IndependentExamples

MAX_NUMBERS = 2**23
"""Numbers in the gradients that are in memory at a time: 32 MB."""

BLOCK = 2**18
"""Numbers of them in float64 at a time: 2 MB."""

RESERVED = 33_500_000
"""Bytes that are allocated and freed once: glibc then keeps freed memory for the next step."""

MAX_EXAMPLES = 256
"""Maximum number of examples in one computation of gradients."""


@dataclass(frozen=True)
class PrivateSteps:
    """Steps with a result that hides each training example.

    An example is in a step with probability `rate`, independently of all others. Whoever knows
    which examples are in a step, its dropout or its noise can undo the protection, so all are drawn
    from the operating system's generator, never by the run's seed, which the server knows.

    Attributes
    ----------
    rate : float
    clip : float
        Maximum norm of an example's gradient; longer ones are shortened to it.
    noise : float
        Standard deviation of the noise that is added to a sum of gradients, over `clip`.
    source : Noise
        Without a seed, except in tests.
    """

    rate: float
    clip: float
    noise: float
    source: Noise = field(default_factory=Noise)

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
        """See `curvfed.strategies.base.training.Steps`.

        A step divides by the expected number of examples. Without an example it adds noise alone.
        """
        model.train()
        torch.empty(RESERVED, dtype=torch.uint8)
        gradients = ExampleGradients(model, loss)
        expected = self.rate * task.num_examples
        size = gradients.batch_size(task.num_examples, self.rate)
        for _ in range(steps):
            is_chosen = torch.from_numpy(self.source.uniform(task.num_examples) <= self.rate)
            seed_dropout(self.source.number(), gradients.device)
            batches = task.batches_of(is_chosen.nonzero().squeeze(1), size)
            sums = clipped_sum(gradients, batches, self.clip)
            for name, parameter in gradients.parameters.items():
                noisy = self._noisy(sums[name]) / expected
                parameter.grad = noisy.to(parameter.dtype)
            for term in terms:
                term()
            if clip_norm:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()

    def _noisy(self, total: Tensor) -> Tensor:
        noise = torch.from_numpy(self.source.gaussian(total.numel())).to(total.device)
        return total + self.noise * self.clip * noise.reshape(total.shape)


def clipped_sum(
    gradients: "ExampleGradients", batches: Iterable[Batch], clip: float
) -> dict[str, Tensor]:
    """The sum over the batches of the examples' gradients, in float64, each shortened to the norm
    `clip` over all parameters.

    Norms, factors and sums are in float64: squares of float32 neither overflow nor vanish there, so
    no parameters make a gradient count for more than `clip` (1 + 1e-12). A gradient that is not
    finite counts as 0: an example must not decide whether the sum is finite.
    """
    sums = {
        name: torch.zeros(value.shape, dtype=torch.float64, device=value.device)
        for name, value in gradients.parameters.items()
    }
    memory = torch.empty(BLOCK, dtype=torch.float64, device=gradients.device)
    for batch in batches:
        rows = gradients.rows(batch)
        norms = _norms(rows.values(), memory)
        is_finite = norms.isfinite()
        is_all_finite = bool(is_finite.all())
        factors = torch.where(is_finite, clip / norms.clamp(min=clip), 0.0)
        for name, row in rows.items():
            parts = sums[name].view(-1).split(_width(row))
            for part, block in zip(parts, _blocks(row, memory), strict=True):
                if not is_all_finite:
                    block[~is_finite] = 0.0
                part += factors @ block
    return sums


def _norms(rows: Iterable[Tensor], memory: Tensor) -> Tensor:
    """The norms of the examples' gradients over all parameters."""
    lengths = [
        torch.linalg.vector_norm(block, dim=1) for row in rows for block in _blocks(row, memory)
    ]
    return torch.linalg.vector_norm(torch.stack(lengths), dim=0)


def _blocks(rows: Tensor, memory: Tensor) -> Iterator[Tensor]:
    """Columns of rows in float64, as many at a time as memory holds. It stays in the processor's
    cache: to convert all at once takes as long as the gradients."""
    for block in rows.split(_width(rows), dim=1):
        yield memory[: block.numel()].view(block.shape).copy_(block)


def _width(rows: Tensor) -> int:
    return max(1, BLOCK // len(rows))


class ExampleGradients:
    """The gradients of single examples of any model by `torch.func`.

    Parameters
    ----------
    model : Module
        Without layers that combine examples, such as batch normalisation.
    loss : callable
        A mean over the examples of a batch.

    Attributes
    ----------
    parameters : dict of str to Parameter
        The parameters with a gradient.
    device : torch.device
        Of the parameters.
    """

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        whole = _LossOfExample(model, loss)
        self.parameters = {
            name: parameter
            for name, parameter in whole.named_parameters()
            if parameter.requires_grad
        }
        self.device = next(iter(self.parameters.values())).device

        def example_loss(values: dict[str, Tensor], inputs: Any, label: Tensor) -> Tensor:
            return functional_call(whole, values, (inputs, label))

        self._gradients: Callable[..., dict[str, Tensor]] = vmap(
            grad(example_loss), in_dims=(None, 0, 0), randomness="different"
        )

    def batch_size(self, number: int, rate: float) -> int:
        """The number of examples to compute together in steps on a share `rate` of a number of
        examples: such that a step rarely has to fill up more than one batch."""
        expected = number * rate
        usual = max(1.0, expected + 2 * math.sqrt(expected * (1 - rate)))
        numbers = sum(value.numel() for value in self.parameters.values())
        most = max(1, min(MAX_NUMBERS // numbers, MAX_EXAMPLES))
        return math.ceil(usual / math.ceil(usual / most))

    def rows(self, batch: Batch) -> dict[str, Tensor]:
        """The examples' gradients (b, numbers of the parameter) by parameter, in float64.

        Parameters
        ----------
        batch : Batch
            Of one example or more. With `rows`, which are the first ones, the inputs have further
            rows; their gradients are left out.
        """
        values = {name: parameter.detach() for name, parameter in self.parameters.items()}
        inputs = batch.inputs
        first = inputs[0] if isinstance(inputs, tuple) else inputs
        number = len(batch.labels)
        filling = batch.labels.new_zeros(len(first) - number)
        gradients = self._gradients(values, inputs, torch.cat([batch.labels, filling]))
        return {name: value[:number].reshape(number, -1) for name, value in gradients.items()}


class _LossOfExample(nn.Module):
    """A loss as a module, so that `functional_call` sets the parameters of whatever the loss
    uses of the model."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, inputs: Any, label: Tensor) -> Tensor:
        """The loss of one example: its inputs, and its label ()."""
        argument = inputs if isinstance(inputs, tuple) else inputs[None]
        return self._loss(self.model, Batch(argument, label[None]))
