"""Points from distances: recovered up to isometry, others refused or embedded."""

import mpmath
import numpy as np
import pytest

from curvfed.extensions.cells.hydra import LONGEST, hydra


def exact(points, curvature):
    """Distances to 40 digits, as float64."""
    with mpmath.workdps(40):
        scale = mpmath.sqrt(-mpmath.mpf(curvature))
        scaled = [[mpmath.mpf(float(value)) * scale for value in row] for row in points]

        def distance(x, y):
            gap = sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
            margins = [1 - sum(a * a for a in point) for point in (x, y)]
            return float(mpmath.acosh(1 + 2 * gap / (margins[0] * margins[1])) / scale)

        return np.array([[distance(x, y) for y in scaled] for x in scaled])


@pytest.mark.parametrize(("dim", "curvature"), [(2, -1.0), (2, -0.0071), (1, -2.0), (3, -1.0)])
def test_points_are_recovered_up_to_isometry(dim, curvature):
    rng = np.random.default_rng(dim)
    directions = rng.normal(size=(30, dim))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    points = np.tanh(rng.uniform(0, 1.5, (30, 1))) * directions / np.sqrt(-curvature)
    distances = exact(points, curvature)
    embedding = hydra(distances, dim, curvature)
    assert embedding.shape == (30, dim)
    assert (-curvature * (embedding**2).sum(axis=1) < 1).all()
    # An error of eps·cosh(d) in the Gram matrix is one of its square root in the smallest
    # distances.
    scaled = np.sqrt(-curvature) * distances
    bound = 30 * np.sqrt(np.finfo(np.float64).eps) * np.cosh(scaled.max()) / np.sqrt(-curvature)
    assert np.abs(exact(embedding, curvature) - distances).max() < min(
        bound, 1e-5 / np.sqrt(-curvature)
    )


@pytest.mark.parametrize(
    ("distances", "dim", "curvature", "message"),
    [
        (np.zeros((3, 2)), 2, -1.0, r"shape \(3, 2\)"),
        (np.zeros((2, 2)), 2, -1.0, "n above dim"),
        (np.zeros((3, 3)), 0, -1.0, "dim ≥ 1"),
        (np.zeros((3, 3)), 2, 1.0, "curvature is 1.0; allowed is below 0"),
        (np.ones((3, 3)), 2, -1.0, "no distances"),
        ([[0, 1, 2], [1, 0, np.nan], [2, np.nan, 0]], 2, -1.0, "no distances"),
        ([[0, 1, 2], [3, 0, 1], [2, 1, 0]], 2, -1.0, "no distances"),
        ((LONGEST + 1) * (1 - np.eye(3)), 2, -1.0, "allowed is at most 300"),
    ],
)
def test_what_is_no_matrix_of_distances_is_refused(distances, dim, curvature, message):
    with pytest.raises(ValueError, match=message):
        hydra(distances, dim, curvature)
