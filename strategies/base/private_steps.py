"""DP-SGD (Abadi et al., 2016, Algorithm 1): steps on clipped gradients of single examples, with
noise."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.training import GradientTerm, Loss, Stepper
from curvfed.tasks.task import Batch, IndependentExamples


class Noise:
    """Noise from the operating system's generator, or after a call of `seed` from a seeded one.

    A simulation seeds it, so that equal runs give equal bits. A real client never does, because the
    server knows the run's seed. A secret seed would not help either: where a weight did not change,
    the server sees the bare noise, and the state of a simulation's generator can be computed from
    enough of its output.
    """

    def __init__(self) -> None:
        self._seeded: np.random.Generator | None = None

    def seed(self, entropy: Sequence[int]) -> None:
        """Draw from a generator with this seed from now on."""
        self._seeded = np.random.default_rng(list(entropy))

    def laplace(self, shape: tuple[int, ...]) -> Floats:
        """Independent numbers with density exp(-|x|)/2 by the inverse distribution function; at
        most 37 in absolute value.

        They have the weakness of all Laplace noise in floating point: the last digits of a sum
        reveal something about the value that the noise was added to (Mironov, CCS 2012).
        """
        bits = self._bits(int(np.prod(shape, dtype=np.int64)))
        sizes = -np.log(_uniform(bits))  # another bit gives the sign
        return np.where(bits & np.uint64(1), -sizes, sizes).reshape(shape)

    def uniform(self, num: int) -> Floats:
        """Independent numbers (num,), uniform in (0, 1], on a grid of 2^-53."""
        return _uniform(self._bits(num))

    def gaussian(self, num: int) -> Floats:
        """Independent standard normal numbers (num,) by Box and Muller (1958); at most 8.6 in
        absolute value, which a number exceeds with a probability of 1e-17."""
        lengths = np.sqrt(-2 * np.log(self.uniform(num - num // 2)))
        angles = 2 * np.pi * self.uniform(num - num // 2)
        return np.concatenate([lengths * np.cos(angles), lengths * np.sin(angles)])[:num]

    def _bits(self, num: int) -> NDArray[np.uint64]:
        if self._seeded is None:
            return np.frombuffer(secrets.token_bytes(8 * num), "<u8")
        return np.frombuffer(self._seeded.bytes(8 * num), "<u8")


def _uniform(bits: NDArray[np.uint64]) -> Floats:
    """Numbers in (0, 1] from the upper 53 bits."""
    return np.asarray(((bits >> np.uint64(11)) + np.uint64(1)) * 2.0**-53)


MAX_NUMBERS = 2**23
"""Numbers in the gradients that are in memory at a time: 32 MB."""

MAX_GRAPHS = 16
"""Number of graphs in memory at a time, which all get as many rows as the largest."""


@dataclass(frozen=True)
class PrivateSteps:
    """Steps whose result hides each training example.

    An example is in a step with probability `rate`, independently of all others. Whoever knows
    which examples are in a step, or the noise, can undo the protection, so both are drawn from
    the operating system's generator, never by the run's seed, which the server knows.

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
        """This number of steps; the arguments are those of `curvfed.strategies.base.training.train`
        except that terms must not depend on the data.

        A step divides by the expected number of examples. Without an example it adds noise alone.
        """
        model.train()
        gradients = ExampleGradients(model, loss, getattr(task, "dense_inputs", None))
        for _ in range(steps):
            is_chosen = torch.from_numpy(self.source.uniform(task.num_examples) <= self.rate)
            batch = task.batch_of(is_chosen.nonzero().squeeze(1))
            sums = clipped_sum(gradients, batch, self.clip)
            for name, parameter in gradients.parameters.items():
                noisy = self._noisy(sums[name]) / (self.rate * task.num_examples)
                parameter.grad = noisy.to(parameter.dtype)
            for term in terms:
                term()
            if clip_norm:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
            optimizer.step()

    def _noisy(self, total: Tensor) -> Tensor:
        noise = torch.from_numpy(self.source.gaussian(total.numel())).to(total.device)
        return total.double() + self.noise * self.clip * noise.reshape(total.shape)


def clipped_sum(gradients: "ExampleGradients", batch: Batch, clip: float) -> dict[str, Tensor]:
    """The sum over the batch of the examples' gradients, each shortened to the norm `clip` over
    all parameters.

    A gradient that is not finite counts as 0: one example must not decide whether the sum is
    finite.
    """
    sums = {name: torch.zeros_like(value) for name, value in gradients.parameters.items()}
    chunk = gradients.chunk
    for inputs, labels in zip(batch.inputs.split(chunk), batch.labels.split(chunk), strict=True):
        rows = gradients.rows(Batch(inputs, labels))
        if not rows:
            continue
        norms = torch.stack([row.square().sum(dim=1) for row in rows.values()]).sum(dim=0).sqrt()
        is_finite = norms.isfinite()
        factors = clip / norms[is_finite].clamp(min=clip)
        for name, row in rows.items():
            sums[name] += (factors @ row[is_finite]).reshape(sums[name].shape)
    return sums


class ExampleGradients:
    """The gradients of single examples of any model by `torch.func`.

    Parameters
    ----------
    model : Module
        Without layers that combine examples, such as batch normalisation.
    loss : callable
        A mean over the examples of a batch.
    dense_inputs : callable, optional
        From a batch's inputs to tensors with a row for each example; a named tuple of them, if the
        model takes one for a single example, as whole graphs are.

    Attributes
    ----------
    parameters : dict of str to Parameter
        The parameters with a gradient.
    chunk : int
        Number of examples whose gradients are in memory at a time.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        dense_inputs: Callable[[Tensor], tuple[Tensor, ...]] | None = None,
    ) -> None:
        self._dense_inputs = dense_inputs
        whole = _LossOfExample(model, loss)
        self.parameters = {
            name: parameter
            for name, parameter in whole.named_parameters()
            if parameter.requires_grad
        }
        numbers = sum(value.numel() for value in self.parameters.values())
        self.chunk = max(1, MAX_NUMBERS // numbers)
        if dense_inputs is not None:
            self.chunk = min(self.chunk, MAX_GRAPHS)

        def example_loss(values: dict[str, Tensor], inputs: Any, label: Tensor) -> Tensor:
            return functional_call(whole, values, (inputs, label))

        self._gradients: Callable[..., dict[str, Tensor]] = vmap(
            grad(example_loss), in_dims=(None, 0, 0), randomness="different"
        )

    def rows(self, batch: Batch) -> dict[str, Tensor]:
        """The examples' gradients (b, numbers of the parameter) by parameter; none for an empty
        batch."""
        if not len(batch.labels):
            return {}
        values = {name: parameter.detach() for name, parameter in self.parameters.items()}
        inputs = batch.inputs
        if self._dense_inputs is not None:
            inputs = self._dense_inputs(inputs)
        gradients = self._gradients(values, inputs, batch.labels)
        return {name: gradient.reshape(len(gradient), -1) for name, gradient in gradients.items()}


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
