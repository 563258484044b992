"""Boosts and rotations are values of FlatLand's Lorentz layer (its Appendices B.3 and D.5): its
matrix is the space rows of theirs, and they keep the interval of two points."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from curvfed.geometry import lorentz
from curvfed.tasks.graphs.lorentz_layers import lorentz_linear

SEEDS = st.integers(0, 2**32 - 1)
CURVATURES = st.floats(-4, -0.05)


def boost(velocity):
    """Eq. 7."""
    gamma = (1 - velocity @ velocity).rsqrt()
    turn = torch.eye(len(velocity), dtype=velocity.dtype)
    turn += gamma.square() / (1 + gamma) * velocity.outer(velocity)
    matrix = torch.empty(len(velocity) + 1, len(velocity) + 1, dtype=velocity.dtype)
    matrix[0, 0] = gamma
    matrix[0, 1:] = matrix[1:, 0] = -gamma * velocity
    matrix[1:, 1:] = turn
    return matrix


def rotation(generator, dim):
    """Eq. 8."""
    turn, _ = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))
    if torch.det(turn) < 0:
        turn[:, 0] *= -1
    return torch.block_diag(torch.ones(1, 1, dtype=torch.float64), turn)


def transformation(kind, seed):
    generator = torch.Generator().manual_seed(seed)
    velocity = torch.randn(3, generator=generator, dtype=torch.float64)
    velocity = 0.9 * velocity / (1 + velocity.norm())
    parts = {"boost": boost(velocity), "rotation": rotation(generator, 3)}
    parts["both"] = parts["boost"] @ parts["rotation"]
    return parts[kind]


def layer(space, matrix, curvature):
    """The layer with the space rows of a matrix on (time, space) as its own."""
    # Its time coordinate is √|c| times that of the hyperboloid.
    column = matrix[1:, 0] / (-curvature) ** 0.5
    bias = torch.zeros(len(column), dtype=space.dtype)
    moved = lorentz_linear(space, matrix[1:, 1:], bias, column, curvature)
    return lorentz.lift(moved, curvature)


def interval(x, y):
    apart = x - y
    return lorentz.inner(apart, apart)


@pytest.mark.parametrize("kind", ["boost", "rotation", "both"])
@given(seed=SEEDS, curvature=CURVATURES)
def test_the_layer_reaches_every_lorentz_transformation(kind, seed, curvature):
    generator = torch.Generator().manual_seed(seed + 1)
    space = torch.randn(6, 3, generator=generator, dtype=torch.float64)
    points = lorentz.lift(space, curvature)
    matrix = transformation(kind, seed)
    moved = layer(space, matrix, curvature)
    torch.testing.assert_close(moved, points @ matrix.T, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(
        interval(moved[:3], moved[3:]), interval(points[:3], points[3:]), rtol=1e-8, atol=1e-8
    )


@given(seed=SEEDS, curvature=CURVATURES)
def test_a_change_of_the_shared_part_stays_on_the_manifold_and_changes_intervals(seed, curvature):
    """Averaging replaces the space-like matrix alone: a point stays a point, but only a matrix that
    is a transformation with the client's own column keeps the interval."""
    generator = torch.Generator().manual_seed(seed)
    space = torch.randn(2, 3, generator=generator, dtype=torch.float64)
    first = transformation("both", seed)
    second = transformation("both", seed + 2)
    mixed = first.clone()
    mixed[1:, 1:] = (first[1:, 1:] + second[1:, 1:]) / 2
    moved = layer(space, mixed, curvature)
    expected = torch.full((2,), 1 / curvature, dtype=torch.float64)
    torch.testing.assert_close(lorentz.inner(moved, moved), expected, rtol=1e-7, atol=1e-7)
    points = lorentz.lift(space, curvature)
    assert (interval(moved[:1], moved[1:]) - interval(points[:1], points[1:])).abs() > 1e-9
