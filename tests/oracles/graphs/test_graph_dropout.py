"""Dropout of graph networks against its law: independent entries, an exact mean."""

import pytest
import torch
from scipy.stats import binomtest

from curvfed.tasks.graphs.model_spec import dropout, dropout_factors

SIDE = 700


@pytest.mark.parametrize("probability", [0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_share_of_zeros_and_mean(probability: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    factors = dropout_factors(torch.empty(SIDE, SIDE, dtype=dtype), probability)
    zeros = int((factors == 0).sum())
    assert binomtest(zeros, SIDE * SIDE, probability).pvalue > 1e-4
    assert factors.dtype == dtype
    assert factors[factors != 0].unique().tolist() == pytest.approx(
        [1 / (1 - probability)], rel=2e-4
    )


def test_neighbouring_entries_are_independent() -> None:
    torch.manual_seed(1)
    dropped = (dropout_factors(torch.empty(SIDE * SIDE), 0.5) == 0).double() - 0.5
    for apart in range(1, 9):  # four entries share a random number
        assert abs(float((dropped[apart:] * dropped[:-apart]).mean())) < 4 * 0.25 / SIDE


@pytest.mark.parametrize("shape", [(), (1,), (3,), (5, 7), (0, 4)])
def test_every_shape_and_the_seed(shape: tuple[int, ...]) -> None:
    torch.manual_seed(5)
    first = dropout_factors(torch.empty(shape), 0.5)
    torch.manual_seed(5)
    assert first.shape == shape
    assert torch.equal(first, dropout_factors(torch.empty(shape), 0.5))


def test_not_in_evaluation_and_not_at_0() -> None:
    x = torch.ones(4)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x
    assert not dropout(torch.ones(1000), 1 - 1e-9, training=True).isnan().any()
