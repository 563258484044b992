"""DP-SGD (Abadi et al., 2016, Algorithm 1): steps on clipped gradients of single examples, with
noise."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from curvfed.strategies.base.noise import Noise
from curvfed.strategies.base.training import GradientTerm, Loss, Stepper
from curvfed.tasks.task import Batch, Task

MAX_NUMBERS = {"cpu": 2**23, "cuda": 2**28}
"""Numbers in the gradients that are in memory at a time, by kind of device: 32 MB, which a
processor's cache half holds, and 1 GB."""


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
        task: Task,
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
        gradients = ExampleGradients(model, loss)
        for _ in range(steps):
            is_chosen = torch.from_numpy(self.source.uniform(task.num_examples) <= self.rate)
            batch = task.batch_of(is_chosen.nonzero().squeeze(1))
            sums = gradients.clipped_sum(batch, self.clip)
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


class ExampleGradients:
    """The gradients of single examples by `torch.func`.

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
    """

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        whole = _LossOfExample(model, loss)
        self.parameters = {
            name: parameter
            for name, parameter in whole.named_parameters()
            if parameter.requires_grad
        }

        def example_loss(values: dict[str, Tensor], inputs: Tensor, label: Tensor) -> Tensor:
            value: Tensor = functional_call(whole, values, (inputs, label))
            return value

        self._gradients: Callable[..., dict[str, Tensor]] = vmap(
            grad(example_loss), in_dims=(None, 0, 0), randomness="different"
        )

    def clipped_sum(self, batch: Batch, clip: float) -> dict[str, Tensor]:
        """The sum over the batch of the gradients, each shortened to the norm `clip` over all
        parameters.

        A gradient that is not finite counts as 0: one example must not decide whether the sum is
        finite.
        """
        sums = {name: torch.zeros_like(value) for name, value in self.parameters.items()}
        if not len(batch.labels):
            return sums
        values = {name: parameter.detach() for name, parameter in self.parameters.items()}
        numbers = sum(value.numel() for value in values.values())
        chunk = max(1, MAX_NUMBERS[batch.labels.device.type] // numbers)
        for inputs, labels in zip(
            batch.inputs.split(chunk), batch.labels.split(chunk), strict=True
        ):
            gradients = self._gradients(values, inputs, labels)
            factors = _factors(gradients, clip)
            for name, gradient in gradients.items():
                sums[name] += torch.tensordot(factors, gradient, dims=1)
        return sums


class _LossOfExample(nn.Module):
    """A loss as a module, so that `functional_call` sets the parameters of whatever the loss
    uses of the model."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        super().__init__()
        self.model = model
        self._loss = loss

    def forward(self, inputs: Tensor, label: Tensor) -> Tensor:
        """The loss of one example: its inputs, and its label ()."""
        return self._loss(self.model, Batch(inputs[None], label[None]))


def _factors(gradients: dict[str, Tensor], clip: float) -> Tensor:
    """What each example's gradient is multiplied by; gradients that are not finite become 0."""
    squares = [gradient.flatten(1).square().sum(dim=1) for gradient in gradients.values()]
    norms = torch.stack(squares).sum(dim=0).sqrt()
    if not norms.isfinite().all():
        is_bad = ~norms.isfinite()
        for gradient in gradients.values():
            gradient[is_bad] = 0
        norms = norms.where(~is_bad, 0)
    return clip / norms.clamp(min=clip)
