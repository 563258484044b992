"""Rows of tables by their numbers, and squared distances of rows, with gradients that need few
passes over the data: a step scores thousands of links between a few hundred entities."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csc_array
from torch import Tensor

from curvfed.geometry.custom_gradient import Gradients, custom_gradient, under_torch_func

Tensors = tuple[Tensor, ...]

MANY = 2000
"""Rows from which on SciPy adds them faster than torch, which adds them one by one."""


def row_sums(rows: Tensor, numbers: Tensor, size: int) -> Tensor:
    """Sums (size, d) of rows (..., d) by their numbers (...), each below `size`, to the bit those
    of torch's embedding: both add the rows in their order.

    Examples
    --------
    >>> row_sums(torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([2, 0, 2]), 3).tolist()
    [[2.0], [0.0], [5.0]]
    """
    is_plain = rows.device.type == "cpu" and rows.dtype in (torch.float32, torch.float64)
    is_plain = is_plain and not under_torch_func() and not torch.compiler.is_compiling()
    if not is_plain or numbers.numel() < MANY:
        return torch.ops.aten.embedding_dense_backward(rows, numbers, size, -1, False)
    summands = rows.detach().reshape(-1, rows.shape[-1]).numpy()
    number = len(summands)
    ones = np.ones(number, summands.dtype)
    choice = csc_array((ones, numbers.flatten().numpy(), np.arange(number + 1)), (size, number))
    return torch.from_numpy(choice @ summands)


def _chosen_formula(table: Tensor, numbers: Tensor) -> Tensor:
    return F.embedding(numbers, table)


def _chosen_forward(table: Tensor, numbers: Tensor) -> tuple[Tensor]:
    return (F.embedding(numbers, table),)


def _chosen_backward(
    gradient: Tensor, inputs: Tensors, output: Tensors, needs: tuple[bool, ...]
) -> Gradients:
    table, numbers = inputs
    return row_sums(gradient, numbers, len(table)), None


chosen_rows = custom_gradient(_chosen_forward, _chosen_backward, _chosen_formula)
"""Rows (..., d) of a table (n, d) by their numbers (...), int64."""


def _squared_formula(rows: Tensor, targets: Tensor) -> Tensor:
    return (rows - targets).square().sum(-1)


def _squared_forward(rows: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    difference = rows - targets
    return difference.square().sum(-1), difference


def _squared_backward(
    gradient: Tensor,
    inputs: Tensors,
    output: Tensors,
    needs: tuple[bool, ...],
) -> Gradients:
    rows, targets = inputs
    slope = _slope(gradient, output[1])
    by_rows = slope.sum_to_size(rows.shape) if needs[0] else None
    by_targets = slope.sum_to_size(targets.shape).neg() if needs[1] else None
    return by_rows, by_targets


def _slope(gradient: Tensor, difference: Tensor) -> Tensor:
    """The gradient of a difference (..., d) from that of its squared length (...)."""
    return (2 * gradient).unsqueeze(-1) * difference


_squared_with_gradient = custom_gradient(_squared_forward, _squared_backward, _squared_formula)


def squared_distance(rows: Tensor, targets: Tensor) -> Tensor:
    """|x − y|² of rows that broadcast, (..., d) -> (...).

    Examples
    --------
    >>> squared_distance(torch.tensor([[3.0, 4.0]]), torch.zeros(2, 2)).tolist()
    [25.0, 25.0]
    """
    if torch.is_grad_enabled():
        return _squared_with_gradient(rows, targets)
    return (rows - targets).square_().sum(-1)


def _pairs(table: Tensor, heads: Tensor, tails: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (n, 1, d) of heads and (n, m, d) of tails."""
    return F.embedding(heads, table).unsqueeze(1), F.embedding(tails, table)


def _pair_sums(by_heads: Tensor, by_tails: Tensor, numbers: Sequence[Tensor], size: int) -> Tensor:
    """The gradient of a table from those of `_pairs`."""
    heads, tails = numbers
    return row_sums(by_heads, heads, size) + row_sums(by_tails, tails, size)


def _squared_by_number_formula(points: Tensor, heads: Tensor, tails: Tensor) -> Tensor:
    return _squared_formula(*_pairs(points, heads, tails))


def _squared_by_number_forward(
    points: Tensor, heads: Tensor, tails: Tensor
) -> tuple[Tensor, Tensor]:
    return _squared_forward(*_pairs(points, heads, tails))


def _squared_by_number_backward(
    gradient: Tensor,
    inputs: Tensors,
    output: Tensors,
    needs: tuple[bool, ...],
) -> Gradients:
    points, *numbers = inputs
    slope = _slope(gradient, output[1])
    by_heads = slope.sum(1)
    return _pair_sums(by_heads, slope.neg_(), numbers, len(points)), None, None


squared_distance_by_number = custom_gradient(
    _squared_by_number_forward, _squared_by_number_backward, _squared_by_number_formula
)
"""|x − y|² (n, m) of points (N, d) by the numbers of heads (n,) and tails (n, m)."""


def _quotients_formula(points: Tensor, stretches: Tensor, heads: Tensor, tails: Tensor) -> Tensor:
    head_stretches, tail_stretches = _pairs(stretches, heads, tails)
    square = _squared_by_number_formula(points, heads, tails)
    return square * (head_stretches * tail_stretches).squeeze(-1)


def _quotients_forward(points: Tensor, stretches: Tensor, heads: Tensor, tails: Tensor) -> Tensors:
    square, difference = _squared_by_number_forward(points, heads, tails)
    pairs = _pairs(stretches, heads, tails)
    head_stretches, tail_stretches = (values.squeeze(-1) for values in pairs)
    factors = head_stretches * tail_stretches
    return square * factors, difference, square, factors, head_stretches, tail_stretches


def _quotients_backward(
    gradient: Tensor,
    inputs: Tensors,
    output: Tensors,
    needs: tuple[bool, ...],
) -> Gradients:
    points, stretches, *numbers = inputs
    _, difference, square, factors, head_stretches, tail_stretches = output
    squared_output = (square, difference)
    squared_inputs = (points, *numbers)
    by_points, *_ = _squared_by_number_backward(
        gradient * factors, squared_inputs, squared_output, needs
    )
    by_factors = gradient * square
    by_heads = (by_factors * tail_stretches).sum(1, keepdim=True)
    by_tails = (by_factors * head_stretches).unsqueeze(-1)
    by_stretches = _pair_sums(by_heads, by_tails, numbers, len(stretches))
    return by_points, by_stretches, None, None


quotients_by_number = custom_gradient(_quotients_forward, _quotients_backward, _quotients_formula)
"""|x − y|²/((1 − |x|²)(1 − |y|²)) (n, m) of points (N, d) of the unit ball with their stretches
1/(1 − |x|²) (N, 1) by the numbers of heads (n,) and tails (n, m)."""
