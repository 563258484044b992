"""Gromov's δ: how far distances are from those of a tree."""

import numpy as np
from numpy.typing import ArrayLike


def hyperbolicity(distances: ArrayLike, samples: int, seed: int = 0) -> tuple[float, float]:
    """Gromov's δ by the condition on four points: half the difference of the two largest of the
    three sums of opposite distances; 0 in a tree.

    Parameters
    ----------
    distances : array-like, (n, n)
    samples : int
        Number of quadruples, drawn uniformly.
    seed : int

    Returns
    -------
    mean, largest : float
        Over the quadruples; the largest is a lower bound on that of all.

    Examples
    --------
    >>> path = [[0, 1, 2, 3], [1, 0, 1, 2], [2, 1, 0, 1], [3, 2, 1, 0]]
    >>> hyperbolicity(path, samples=10)
    (0.0, 0.0)
    """
    matrix = np.asarray(distances, np.float64)
    a, b, c, d = np.random.default_rng(seed).integers(len(matrix), size=(4, samples))
    first = matrix[a, b] + matrix[c, d]
    second = matrix[a, c] + matrix[b, d]
    third = matrix[a, d] + matrix[b, c]
    sums = np.stack([first, second, third])
    sums.sort(axis=0)
    deltas = (sums[2] - sums[1]) / 2
    return float(deltas.mean()), float(deltas.max())
