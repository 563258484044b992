"""Prototypes against closed forms, known optimal arrangements and the bounds of coding theory."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import kstest
from tiers import examples, only

from curvfed.geometry import prototypes
from curvfed.geometry.prototypes import orthonormal, uniform

EPS = torch.finfo(torch.float64).eps


def cosines(points: torch.Tensor) -> torch.Tensor:
    """The cosines of all pairs, one each."""
    num = len(points)
    return (points @ points.T)[tuple(torch.triu_indices(num, num, offset=1))]


def rankin(num: int, dim: int) -> float:
    """No `num` unit vectors have a smaller largest cosine (Rankin, 1955)."""
    return -1 / (num - 1) if num <= dim + 1 else 0.0


def levenshtein(num: int, dim: int) -> float:
    """Levenshtein's third bound, above Rankin's for 2·dim < num ≤ dim(dim + 3)/2."""
    largest = (math.sqrt(dim + 3) - 1) / (dim + 2)
    return brentq(
        lambda s: dim * (1 - s) * (2 + (dim + 1) * s) / (1 - dim * s * s) - num,
        0,
        largest,
        xtol=1e-14,
    )


@pytest.mark.parametrize(
    ("num", "dim"), [(2, 1), (2, 2), (3, 2), (2, 7), (4, 3), (5, 7), (11, 10), (100, 512)]
)
def test_up_to_one_more_than_the_dimension_are_a_regular_simplex(num, dim):
    expected = torch.full((num * (num - 1) // 2,), -1 / (num - 1), dtype=torch.float64)
    torch.testing.assert_close(cosines(uniform(num, dim, 0)), expected, atol=20 * EPS, rtol=0)


@pytest.mark.parametrize("num", [4, 5, 7, 12, 100])
def test_in_the_plane_they_are_a_regular_polygon(num):
    points = uniform(num, 2, 3)
    angles = torch.atan2(points[:, 1], points[:, 0]).sort().values
    steps = torch.cat([angles.diff(), angles[:1] + 2 * math.pi - angles[-1:]])
    torch.testing.assert_close(
        steps, torch.full_like(steps, 2 * math.pi / num), atol=20 * EPS, rtol=0
    )
    assert float(cosines(points).max()) == pytest.approx(math.cos(2 * math.pi / num), abs=20 * EPS)


@pytest.mark.parametrize(("num", "dim"), [(5, 3), (6, 3), (7, 5), (10, 5), (40, 20), (1000, 512)])
def test_up_to_twice_the_dimension_they_are_axes_and_opposites(num, dim):
    products = cosines(uniform(num, dim, 1))
    assert float(torch.minimum(products.abs(), (products + 1).abs()).max()) < 20 * EPS
    assert int((products < -0.5).sum()) == num - dim


@pytest.mark.parametrize(
    ("num", "dim", "cosine"),
    [
        (8, 3, (math.sqrt(8) - 1) / 7),  # square antiprism
        (9, 3, 1 / 3),  # Schütte and van der Waerden, 1951, for these two
        (12, 3, 1 / math.sqrt(5)),  # icosahedron
        (10, 4, 1 / 6),  # Petersen's code; Bachoc and Vallentin, 2009
        (16, 5, 1 / 5),  # Levenshtein's sharp codes, as the following
        (27, 6, 1 / 4),
        (56, 7, 1 / 3),
    ],
)
def test_reaches_the_proven_optimum(num, dim, cosine):
    assert float(cosines(uniform(num, dim, 0)).max()) == pytest.approx(cosine, abs=1e-6)


@examples(25)
@given(num=st.integers(2, 16), dim=st.integers(2, 5), seed=st.integers(0, 3))
def test_unit_vectors_between_the_bounds_and_the_best_of_random_draws(num, dim, seed):
    points = uniform(num, dim, seed)
    assert points.shape == (num, dim)
    assert points.dtype == torch.float64
    assert float((points.norm(dim=1) - 1).abs().max()) < 8 * EPS
    largest = float(cosines(points).max())
    assert largest >= rankin(num, dim) - 20 * EPS
    if 2 * dim < num <= dim * (dim + 3) / 2:
        assert largest >= levenshtein(num, dim) - 1e-12
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randn(300, num, dim, generator=generator, dtype=torch.float64)
    draws = draws / draws.norm(dim=2, keepdim=True)
    best = (draws @ draws.mT - 2 * torch.eye(num, dtype=torch.float64)).amax(dim=(1, 2)).min()
    assert largest <= float(best) + 20 * EPS


@pytest.mark.parametrize(("num", "worst"), only([(100, 0.156), (200, 0.235)], (100, 0.156).__eq__))
def test_many_classes_in_twenty_dimensions(num, worst):
    assert levenshtein(num, 20) < float(cosines(uniform(num, 20, 0)).max()) <= worst


@pytest.mark.parametrize(("num", "dim"), [(1, 4), (4, 3), (7, 2), (6, 3), (9, 3)])
def test_a_seed_decides_everything_and_another_turns_them(num, dim):
    first = uniform(num, dim, 0)
    prototypes._uniform.cache_clear()
    assert torch.equal(uniform(num, dim, 0), first)
    turned = uniform(num, dim, 1)
    assert float((turned - first).abs().max()) > 1e-3
    if num > 1:
        assert float(cosines(turned).max()) == pytest.approx(float(cosines(first).max()), abs=1e-6)


@pytest.mark.parametrize("make", [uniform, orthonormal])
@pytest.mark.parametrize(("num", "dim"), [(0, 3), (-1, 3), (3, 0), (3, -2)])
def test_numbers_that_are_not_positive(make, num, dim):
    with pytest.raises(ValueError, match=rf"{num} vectors in {dim} dimensions; both must be ≥ 1"):
        make(num, dim, 0)


@given(dim=st.integers(1, 40), data=st.data())
def test_orthonormal_rows(dim, data):
    num, seed = data.draw(st.integers(1, dim)), data.draw(st.integers(-3, 2**40))
    rows = orthonormal(num, dim, seed)
    assert rows.shape == (num, dim)
    assert rows.dtype == torch.float64
    assert float((rows @ rows.T - torch.eye(num, dtype=torch.float64)).abs().max()) < 20 * EPS
    assert torch.equal(rows, orthonormal(num, dim, seed))


def test_orthonormal_rows_have_no_preferred_direction():
    """In three dimensions coordinates of a uniform direction are uniform (Archimedes)."""
    rows = torch.stack([orthonormal(3, 3, seed) for seed in range(1500)])
    for i in range(3):
        for j in range(3):
            assert kstest(rows[:, i, j].numpy(), "uniform", args=(-1, 2)).pvalue > 1e-3
    # as many reflections as rotations
    assert abs(float(torch.linalg.det(rows).mean())) < 5 / math.sqrt(1500)
