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
        The arguments, tensors and numbers, -> the value, and after it the tensors that the backward
        pass needs.
    backward : callable
        The gradient of the value, the arguments, what `forward` returned, and which arguments need
        a gradient -> a gradient or None for each argument.
    formula : callable or None
        The value in torch's own operations, with right first and second derivatives. How exact it
        is to the last digits does not matter: where a backward pass is asked for a graph, the
        values of its gradients stay those of `backward` to the bit, and their derivatives are those
        of the gradient of the formula. Without ``create_graph=True`` it is not computed. None says
        that autograd finds right derivatives of `backward` itself.

    Returns
    -------
    callable
        Works under ``torch.compile`` and under ``torch.func``, too, but for forward mode (``jvp``,
        ``jacfwd``, ``hessian``), which torch refuses: take ``jacrev(jacrev(f))``.
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
        """Keeps what the backward pass needs apart from its value: the quickest way, which
        torch.func does not know."""

        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Tensor:
            output = forward(*inputs)
            _save(ctx, inputs, output)
            return output[0]

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Gradients:
            return gradients(gradient, *_saved(ctx), ctx.needs_input_grad)

    class Transformed(torch.autograd.Function):
        """Gives what the backward pass needs as further outputs without gradients."""

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
    """Whether a transform of torch.func is at work; torch's own autograd functions ask this way."""
    return torch._C._are_functorch_transforms_active()


def _no_gradient(inputs: tuple[Any, ...]) -> bool:
    """Whether no derivative is asked for; in a level of `forward_ad` one is, which torch then
    refuses."""
    if torch.autograd.forward_ad._current_level >= 0:
        return False
    return not (
        torch.is_grad_enabled()
        and any(isinstance(value, Tensor) and value.requires_grad for value in inputs)
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.numbers = [None if isinstance(value, Tensor) else value for value in inputs]
    ctx.save_for_backward(*(value for value in inputs if isinstance(value, Tensor)), *output)


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
    """The gradients with the derivatives of those of the formula."""
    numbers = [number for number, value in enumerate(first_gradients) if value is not None]

    def partial_formula(*arguments: Tensor) -> Tensor:
        values = list(inputs)
        for number, argument in zip(numbers, arguments, strict=True):
            values[number] = argument
        return formula(*values)

    if under_torch_func():
        exact = torch.func.vjp(partial_formula, *(inputs[number] for number in numbers))[1](
            gradient
        )
    else:  # without torch.func, whose first use takes seconds
        # One tensor may occur twice among the inputs.
        aliases = [inputs[number].view_as(inputs[number]) for number in numbers]
        exact = torch.autograd.grad(partial_formula(*aliases), aliases, gradient, create_graph=True)
    slopes = iter(exact)
    return tuple(
        None if value is None else _with_slope(value, next(slopes)) for value in first_gradients
    )


def _with_slope(value: Tensor, exact: Tensor) -> Tensor:
    """The first value with the derivatives of the second."""
    return value.detach() + (exact - exact.detach())
