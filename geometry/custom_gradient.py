"""Functions with handwritten gradients that support second derivatives, transforms and
compilation."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Gradients = tuple[Tensor | None, ...]
Forward = Callable[..., tuple[Tensor, ...]]
Backward = Callable[[Tensor, tuple[Any, ...], tuple[Tensor, ...], tuple[bool, ...]], Gradients]


def custom_gradient(
    forward: Forward, backward: Backward, formula: Callable[..., Tensor] | None
) -> Callable[..., Tensor]:
    """A function with the given forward and backward passes.

    Parameters
    ----------
    forward : callable
        Maps the arguments, tensors and numbers, to the value, followed by the tensors that the
        backward pass needs.
    backward : callable
        Maps the gradient of the value, the arguments, the output of `forward`, and flags for the
        arguments that need a gradient, to a gradient or None for each argument.
    formula : callable or None
        The value in torch's own operations, with correct first and second derivatives. Its last
        digits do not matter: with ``create_graph=True`` the gradients stay those of `backward` to
        the bit, and their derivatives are those of the gradient of the formula. Otherwise it is not
        computed. None means that autograd differentiates `backward` itself correctly.

    Returns
    -------
    callable
        Also works under ``torch.compile`` and ``torch.func``, except in forward mode (``jvp``,
        ``jacfwd``, ``hessian``), which torch refuses: use ``jacrev(jacrev(f))``.
    """

    def gradients(
        gradient: Tensor,
        inputs: tuple[Any, ...],
        output: tuple[Tensor, ...],
        needs: tuple[bool, ...],
    ) -> Gradients:
        first_gradients = backward(gradient, inputs, output, needs)
        if formula is None or not torch.is_grad_enabled() or torch.compiler.is_compiling():
            return first_gradients
        return _twice(first_gradients, formula, inputs, gradient)

    class Eager(torch.autograd.Function):
        """Saves the tensors for the backward pass in the context: the fastest way, which torch.func
        does not support."""

        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Tensor:
            output = forward(*inputs)
            _save(ctx, inputs, output)
            return output[0]

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Gradients:
            return gradients(gradient, *_saved(ctx), ctx.needs_input_grad)

    class Transformed(torch.autograd.Function):
        """Returns the tensors for the backward pass as further outputs without gradients."""

        generate_vmap_rule = True

        @staticmethod
        def forward(*inputs: Any) -> tuple[Tensor, ...]:
            return tuple(forward(*inputs))

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
            ctx.mark_non_differentiable(*output[1:])
            _save(ctx, inputs, output)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> Gradients:
            return gradients(gradient, *_saved(ctx), ctx.needs_input_grad)

    def function(*inputs: Any) -> Tensor:
        if under_torch_func() or torch.compiler.is_compiling():
            value: Tensor = Transformed.apply(*inputs)[0]
        # torch's autograd functions take longer than the work on a hundred points
        elif _no_gradient(inputs):
            value = forward(*inputs)[0]
        else:
            value = Eager.apply(*inputs)
        return value

    return function


def under_torch_func() -> bool:
    """Whether a transform of torch.func is active; torch's own autograd functions test it this
    way."""
    return torch._C._are_functorch_transforms_active()


def _no_gradient(inputs: tuple[Any, ...]) -> bool:
    """Whether no derivative is required. Within `forward_ad` one is, and torch refuses it."""
    if torch.autograd.forward_ad._current_level >= 0:
        return False
    if not torch.is_grad_enabled():
        return True
    return not any(isinstance(value, Tensor) and value.requires_grad for value in inputs)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.numbers = [None if isinstance(value, Tensor) else value for value in inputs]
    tensors = [value for value in inputs if isinstance(value, Tensor)]
    ctx.save_for_backward(*tensors, *output)


def _saved(ctx: Any) -> tuple[tuple[Any, ...], tuple[Tensor, ...]]:
    tensors = iter(ctx.saved_tensors)
    inputs = tuple(next(tensors) if number is None else number for number in ctx.numbers)
    return inputs, tuple(tensors)


def _twice(
    first_gradients: Gradients,
    formula: Callable[..., Tensor],
    inputs: tuple[Any, ...],
    gradient: Tensor,
) -> Gradients:
    """The gradients; their derivatives are those of the formula's gradients."""
    numbers = [number for number, value in enumerate(first_gradients) if value is not None]

    def partial_formula(*arguments: Tensor) -> Tensor:
        values = list(inputs)
        for number, argument in zip(numbers, arguments, strict=True):
            values[number] = argument
        return formula(*values)

    if under_torch_func():
        variables = [inputs[number] for number in numbers]
        pull_back = torch.func.vjp(partial_formula, *variables)[1]
        exact = pull_back(gradient)
    else:  # without torch.func: its first use takes seconds
        # One tensor may occur twice among the inputs.
        aliases = [inputs[number].view_as(inputs[number]) for number in numbers]
        value = partial_formula(*aliases)
        exact = torch.autograd.grad(value, aliases, gradient, create_graph=True)
    slopes = iter(exact)
    return tuple(
        None if first is None else _with_slope(first, next(slopes)) for first in first_gradients
    )


def _with_slope(value: Tensor, exact: Tensor) -> Tensor:
    """The first value with the derivatives of the second."""
    return value.detach() + (exact - exact.detach())
