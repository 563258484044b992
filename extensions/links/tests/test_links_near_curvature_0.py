"""Curvature 0 of embeddings is the limit of the curvatures below it."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from curvature_limits import SIZES, a_round, orders, shaken, values
from torch import Tensor, nn

from curvfed.extensions.links.models import LinkModelSpec, chart_of
from curvfed.extensions.links.relations import OPERATORS
from curvfed.extensions.links.row_means import mean_rows, mean_terms


def embedding(
    kind: str, score: str, bias: bool, curvature: float, relations: str = "none"
) -> tuple[nn.Module, Callable[[], Tensor]]:
    spec = LinkModelSpec(kind, 5, 2, 4, curvature, score, bias, relations)
    model = shaken(spec.build(0))
    heads = torch.tensor([0, 1, 2])
    tails = torch.tensor([[1, 2, 3], [0, 2, 4], [4, 3, 0]])
    numbers = torch.tensor([0, 1, 0])
    return model, lambda: model(heads, numbers, tails)


CASES = {
    "normal coordinates": partial(embedding, "normal", "distance", False),
    "normal coordinates, squares and biases": partial(embedding, "normal", "squared", True),
    "hyperboloid": partial(embedding, "hyperboloid", "distance", True),
    "hyperboloid, squares": partial(embedding, "hyperboloid", "squared", False),
} | {
    f"{relations} of {kind} coordinates": partial(
        embedding, kind, "squared", True, relations=relations
    )
    for relations in OPERATORS
    for kind in ("normal", "hyperboloid")
}


@pytest.mark.parametrize("name", CASES)
def test_outputs_gradients_and_steps_tend_to_those_at_0_in_first_order(name):
    make = CASES[name]
    flat = a_round(make, 0.0)
    errors = [float((a_round(make, -size) - flat).norm() / flat.norm()) for size in SIZES]
    assert errors[-1] < 1e-5
    assert all(0.9 < order < 1.1 for order in orders(errors)[1:]), errors


@pytest.mark.parametrize("average", ["centroid", "tangent", "flat"])
@pytest.mark.parametrize("kind", ["normal", "hyperboloid"])
def test_means_of_rows_tend_to_those_of_their_coordinates(kind, average):
    old = values(6, 3)
    ends = [old + values(6, 3, seed=seed) for seed in (1, 2)]
    shares = (0.25, 0.75)

    def mean(curvature: float) -> Tensor:
        chart = chart_of(kind, curvature)
        terms = [mean_terms(average, chart, old, end) for end in ends]
        total = sum(share * term for share, term in zip(shares, terms, strict=True))
        return mean_rows(average, chart, old, total)

    flat = sum(share * end for share, end in zip(shares, ends, strict=True))
    torch.testing.assert_close(mean(0.0), flat)
    errors = [float((mean(-size) - flat).norm()) for size in SIZES]
    assert errors[-1] < 1e-4
    if average != "flat":
        assert all(0.9 < order < 1.1 for order in orders(errors)[1:]), errors
