"""Clipped sums of the gradients of single examples from the inputs of layers and the gradients of
their outputs (Goodfellow, 2015; Bu et al., 2023), at less than twice the cost of a plain step.

The gradient of an example for a layer's weight is a product of the layer's input and its output's
gradient. Its norm often needs no product at all, and the clipped sum is one product of whole
batches.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from curvfed.strategies.base.training import Loss
from curvfed.tasks.heads import LinearHead
from curvfed.tasks.task import Batch

CHUNK = 64
"""Number of examples whose layers' inputs are in memory at a time."""

Sums = Callable[[Tensor], dict[str, Tensor]]
"""From a factor for each example (b,) to the weighted sums of a layer's gradients, by name."""


def is_known(module: nn.Module) -> bool:
    """Whether the layer's gradients have formulas here."""
    if isinstance(module, nn.Conv2d):
        is_plain = module.groups == 1 and module.padding_mode == "zeros"
        return is_plain and not isinstance(module.padding, str)
    return isinstance(module, nn.Linear | LinearHead | nn.GroupNorm)


def trained_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The modules with trained parameters of their own, by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if any(parameter.requires_grad for parameter in module.parameters(recurse=False))
    }


class LayerGradients:
    """The gradients of single examples, layer by layer.

    Parameters
    ----------
    model : Module
        Whose `trained_layers` are known, each called once in a forward pass.
    loss : callable
        A mean over the examples of a batch.

    Attributes
    ----------
    parameters : dict of str to Parameter
        The parameters with a gradient.
    """

    chunk = CHUNK

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        self._model = model
        self._loss = loss
        self._layers = trained_layers(model)
        self.parameters: dict[str, nn.Parameter] = {}
        for layer, module in self._layers.items():
            for name, parameter in module.named_parameters(recurse=False):
                if parameter.requires_grad:
                    self.parameters[f"{layer}.{name}"] = parameter

    def squares_and_sums(self, batch: Batch) -> tuple[Tensor, Sums]:
        """The squared norms (b,) of the examples' gradients over all parameters, and what adds
        them up."""
        if not len(batch.labels):
            return torch.zeros(0, device=batch.labels.device), lambda factors: {}
        inputs: dict[str, Tensor] = {}
        edges: dict[str, Any] = {}

        def note(layer: str) -> Callable[[nn.Module, Any, Tensor], None]:
            def hook(module: nn.Module, arguments: Any, output: Tensor) -> None:
                inputs[layer] = arguments[0].detach()
                # A later operation may change the output in place, but not this edge.
                edges[layer] = get_gradient_edge(output)

            return hook

        hooks = [
            module.register_forward_hook(note(layer)) for layer, module in self._layers.items()
        ]
        try:
            total = self._loss(self._model, batch) * len(batch.labels)
        finally:
            for hook in hooks:
                hook.remove()
        outputs = torch.autograd.grad(total, list(edges.values()))
        squares = torch.zeros(len(batch.labels), dtype=total.dtype, device=total.device)
        sums: dict[str, Sums] = {}
        for layer, gradient in zip(edges, outputs, strict=True):
            square, sums[layer] = _layer(self._layers[layer], inputs[layer], gradient)
            squares += square

        def add_up(factors: Tensor) -> dict[str, Tensor]:
            totals = {}
            for layer, of_layer in sums.items():
                for name, value in of_layer(factors).items():
                    totals[f"{layer}.{name}"] = value
            return {name: totals[name] for name in self.parameters if name in totals}

        return squares, add_up


def _layer(module: nn.Module, inputs: Tensor, gradient: Tensor) -> tuple[Tensor, Sums]:
    """The squared norms of a layer's gradients, and what adds them up.

    Parameters
    ----------
    inputs : Tensor, (b, …)
    gradient : Tensor, (b, …)
        Of each example's loss, for the layer's output.
    """
    if isinstance(module, nn.GroupNorm):
        return _group_norm(module, inputs, gradient)
    shape = module.get_parameter("weight").shape
    if isinstance(module, nn.Conv2d):
        padding: Any = module.padding
        columns = F.unfold(inputs, module.kernel_size, module.dilation, padding, module.stride)
        gradient = gradient.flatten(2)
    else:
        columns = inputs[..., None]
        gradient = gradient[..., None]
    squares, weighted = _products(columns, gradient)
    biases = gradient.sum(dim=2)
    has_bias = module.bias is not None
    if has_bias:
        squares = squares + biases.square().sum(dim=1)

    def add_up(factors: Tensor) -> dict[str, Tensor]:
        sums = {"weight": weighted(factors).reshape(shape)}
        return sums | {"bias": factors @ biases} if has_bias else sums

    return squares, add_up


def _products(columns: Tensor, gradient: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The squared norms of gradient · columnsᵀ for each example, and what adds the products up;
    without the products themselves where that is cheaper.

    Parameters
    ----------
    columns : Tensor, (b, k, t)
    gradient : Tensor, (b, o, t)
    """
    (num_inputs, places), num_outputs = columns.shape[1:], gradient.shape[1]
    if places * (num_inputs + num_outputs) >= num_inputs * num_outputs:
        products = gradient @ columns.transpose(1, 2)
        return products.square().sum(dim=(1, 2)), lambda factors: torch.tensordot(
            factors, products, dims=1
        )
    grams = columns.transpose(1, 2) @ columns
    squares = (grams * (gradient.transpose(1, 2) @ gradient)).sum(dim=(1, 2))

    def weighted(factors: Tensor) -> Tensor:
        scaled = (gradient * factors[:, None, None]).transpose(0, 1).flatten(1)
        return scaled @ columns.transpose(1, 2).flatten(0, 1)

    return squares, weighted


def _group_norm(module: nn.GroupNorm, inputs: Tensor, gradient: Tensor) -> tuple[Tensor, Sums]:
    normed = F.group_norm(inputs, module.num_groups, eps=module.eps)
    weights = (gradient * normed).flatten(2).sum(dim=2)
    biases = gradient.flatten(2).sum(dim=2)
    squares = weights.square().sum(dim=1) + biases.square().sum(dim=1)
    return squares, lambda factors: {"weight": factors @ weights, "bias": factors @ biases}
