"""The point of least norm in a convex hull, from the Gram matrix of its corners.

With weights w on K vectors Δ₁ … Δ_K and G_ij = Δᵢ·Δⱼ, the squared norm of Σ wₖΔₖ is wᵀGw. MGDA and
HyperFed's consistent aggregation minimise it over the simplex (HyperFed, Eq. 10, solved there by
Frank–Wolfe, Eq. 11); FedMGDA+ (Hu et al., 2020) keeps the weights near a prior, the clients' shares
of the data.

Everything here is NumPy in float64: the server's arrays are NumPy, and K, the number of clients, is
small.
"""

from bisect import bisect_left

import numpy as np
from numpy.typing import ArrayLike

from curvfed.geometry.arrays import Booleans, Floats
from curvfed.geometry.one_thread import one_thread

_EPS = float(np.finfo(np.float64).eps)
_GAP = 1e-12  # relative duality gap at which the search ends
# relative to 1 on the diagonal: keeps rounding out of the null space of a singular Gram matrix
_RIDGE = 1e-9
_STEPS = 50  # maximum steps per vector; 3 to 30 steps in total are usual


def min_norm_point(
    gram: ArrayLike, prior: ArrayLike | None = None, radius: float | None = None
) -> Floats:
    """Weights of the point of least norm in the convex hull of K vectors, or in the part of it near
    a prior.

    argmin wᵀGw over Σ wₖ = 1, wₖ ≥ 0 and |wₖ − priorₖ| ≤ radius/K.

    Parameters
    ----------
    gram : array (K, K)
        Inner products of the vectors: symmetric and positive semi-definite, both up to rounding in
        float32. It may be singular: zero, equal and linearly dependent vectors are allowed. Its
        scale does not matter.
    prior : array (K,), optional
        A point of the simplex, uniform if None. The search starts from it and thus finds a solution
        near it: equal vectors with equal priors get equal weights up to 1e-6, and if all vectors
        are zero the result is the prior.
    radius : float, optional
        0 returns the prior; None, or at least K, sets no bound.

    Returns
    -------
    array (K,), float64
        No weight is negative, and weights on the bound 0 are exactly 0; the sum and the other
        bounds hold up to rounding. The relative duality gap is ≤ 1e-11, or the gap is the rounding
        error of G: 1e-15·max G_kk, and up to 1e-13·max G_kk if G is singular to rounding. The
        search ends at a value below eps·(Σ wₖ√G_kk)², which G cannot tell from 0.

    Raises
    ------
    ValueError
        If the Gram matrix is not square, has entries that are not finite, is not symmetric or has
        an entry larger than its diagonal allows; if the prior has the wrong length, is not finite
        or not on the simplex (sum within 1e-6 of 1); or if the radius is negative or NaN.

    Notes
    -----
    A primal active-set method. A Cholesky factor gives the minimiser over a face. A path to it that
    leaves the bounds is projected back on them, so many weights reach their bounds in one step.
    Once a face is minimised, a weight is released if the value falls from its bound inwards. The
    value falls in every step. Weights are measured in units of the vectors' lengths, which may
    differ by many orders of magnitude.

    Time on one core: 1 to 10 ms for K = 100, 0.05 to 0.3 s for K = 1000. For condition numbers of
    1e12 and more, or bounded weights of vectors with lengths that differ by 1e8, the worst times
    were 0.1 s and 20 s.

    Examples
    --------
    >>> min_norm_point([[1.0, 0.0], [0.0, 1.0]])
    array([0.5, 0.5])
    """
    matrix, start, lower, upper = _checked(gram, prior, radius)
    longest = matrix.diagonal().max()
    if longest == 0:
        return start
    search = _ActiveSet(matrix / longest, lower, upper)
    with one_thread():
        return search.minimise(start)


def frank_wolfe_point(
    gram: ArrayLike,
    prior: ArrayLike | None = None,
    radius: float | None = None,
    steps: int = 250,
) -> Floats:
    """Weights near those of `min_norm_point`, by a number of Frank–Wolfe steps from the prior.

    HyperFed's Eq. 11: each step goes from w towards the admissible corner v with the least vᵀGw,
    without bounds the toughest client alone, and as far as wᵀGw falls, at most to v. As in the
    authors' code, and unlike in the paper's text, the virtual client of Eq. 11 is Σ wₖΔₖ over all
    clients.

    Parameters
    ----------
    gram, prior, radius
        As in `min_norm_point`.
    steps : int
        Maximum number of steps, ≥ 0. The gap falls like 1/steps.

    Returns
    -------
    array (K,), float64
        Admissible weights with at most the prior's value.

    Raises
    ------
    ValueError
        As `min_norm_point`.

    Examples
    --------
    >>> frank_wolfe_point([[1.0, 0.0], [0.0, 4.0]], steps=1)
    array([0.8, 0.2])
    """
    matrix, weights, lower, upper = _checked(gram, prior, radius)
    for _ in range(steps):
        gradient = matrix @ weights
        move = _corner(gradient, lower, upper) - weights
        fall = -float(move @ gradient)
        square = float(move @ matrix @ move)
        if fall <= 0 or square <= 0:
            break
        weights = weights + min(fall / square, 1.0) * move
    return weights


class _ActiveSet:
    """Minimises wᵀGw over Σ w = 1, lower ≤ w ≤ upper, G scaled to a largest diagonal entry of 1."""

    def __init__(self, gram: Floats, lower: Floats, upper: Floats) -> None:
        from scipy import linalg

        self.linalg = linalg
        self.lower = lower
        self.upper = upper
        # Lengths below 1e-10 of the largest count as 1e-10, because a zero vector lacks a length to
        # serve as a unit.
        self.length = np.maximum(np.sqrt(gram.diagonal()), 1e-10)
        self.cosines = gram / self.length / self.length[:, None]
        self.ease = self.length**-2  # how far a weight gives way, see `_project`
        self.ridge = _RIDGE

    def minimise(self, weights: Floats) -> Floats:
        gradient = self._gradient(weights)
        free = self.lower < self.upper
        stalls = 0
        for _ in range(_STEPS * weights.size):
            if self._optimal(weights, gradient):
                break
            move = self._direction(gradient, free)
            bound = np.where(move < 0, self.lower, self.upper)
            reach = np.divide(
                bound - weights, move, out=np.full_like(move, np.inf), where=move != 0
            )
            first = float(reach.min())
            accepted = self._search(weights, gradient, free, move, reach)
            if accepted is not None:
                weights, gradient = accepted
                free = free & (self.lower < weights) & (weights < self.upper)
                stalls = 0
            elif first < 1:
                # Weights on a bound, or so near that the step to it vanishes in rounding, block the
                # move: hold them.
                free = free & (reach > first)
            else:
                stalls += 1
            if first >= 1:  # the face has been minimised
                released = self._released(weights, gradient, free)
                if stalls > weights.size or (accepted is None and not released.any()):
                    break
                free = free | released
        return weights

    def _gradient(self, weights: Floats) -> Floats:
        """Gw, half the gradient of the value."""
        return self.length * (self.cosines @ (self.length * weights))

    def _optimal(self, weights: Floats, gradient: Floats) -> bool:
        value = weights @ gradient
        size = weights @ self.length
        apart = weights - _corner(gradient, self.lower, self.upper)
        rounding = 4 * _EPS * size * (np.abs(apart) @ self.length)
        return bool(apart @ gradient <= max(_GAP * value, rounding) or value <= _EPS * size**2)

    def _direction(self, gradient: Floats, free: Booleans) -> Floats:
        """Step from the weights to the minimiser over Σ w = 1 with all but the free weights
        held.
        """
        move = np.zeros(free.size)
        index = np.flatnonzero(free)
        if index.size < 2:
            return move
        length = self.length[index]
        normal = 1 / length
        normal /= np.linalg.norm(normal)
        # Along Σ w = const the term normal·normalᵀ is 0; it makes the matrix regular where the
        # vectors are affinely independent, 0 in their affine hull or not.
        matrix = self.cosines[np.ix_(index, index)] + np.outer(normal, normal)
        target = np.stack([-gradient[index] / length, normal], axis=1)
        while True:
            try:
                factor = self.linalg.cho_factor(
                    matrix + self.ridge * np.eye(index.size), check_finite=False
                )
                break
            except np.linalg.LinAlgError:  # rounding left the Gram matrix a negative eigenvalue
                self.ridge *= 10
        solution = np.zeros_like(target)
        for _ in range(3):  # refinement removes the ridge's effect, except in the null space
            solution += self.linalg.cho_solve(
                factor, target - matrix @ solution, check_finite=False
            )
        descent, across = solution.T
        move[index] = (descent - across * (normal @ descent) / (normal @ across)) / length
        return move

    def _search(
        self, weights: Floats, gradient: Floats, free: Booleans, move: Floats, reach: Floats
    ) -> tuple[Floats, Floats] | None:
        """The best of a few points on the path projected on the bounds, with its gradient; None if
        all are worse."""
        first = float(reach.min())
        if first == np.inf:  # nothing moves
            return None
        # Gradients are compared without their common level, because the weights sum to 1 only up to
        # rounding.
        level = self._level(gradient, free)
        lower = np.where(free, self.lower, weights)
        upper = np.where(free, self.upper, weights)
        best = 0.0
        accepted = None
        for step in [1.0] if first >= 1 else [1.0, 0.5, 0.25, 0.125, first]:
            point = self._project(weights + step * move, lower, upper)
            ahead = self._gradient(point)
            # pᵀGp − wᵀGw as a product, because the values may agree in all digits.
            change = float((point - weights) @ ((ahead - level) + (gradient - level)))
            moved_length = np.abs(point - weights) @ self.length
            rounding = _EPS * float(moved_length * (weights @ self.length))
            if change < min(best, -rounding):
                best = change
                accepted = (point, ahead)
        return accepted

    def _level(self, gradient: Floats, free: Booleans) -> float:
        """The gradient's common value on a face that has been minimised, the multiplier of Σ w
        = 1.
        """
        return float(np.average(gradient[free], weights=self.ease[free]))

    def _released(self, weights: Floats, gradient: Floats, free: Booleans) -> Booleans:
        """The held weights that lower the value if they move inwards from their bound."""
        fixed = ~free & (self.lower < self.upper)
        low = fixed & (weights - self.lower <= self.upper - weights)
        high = fixed & ~low
        if free.any():
            level = self._level(gradient, free)
        elif low.any() and high.any():
            level = (gradient[low].min() + gradient[high].max()) / 2
        else:
            return np.zeros_like(free)
        slope = np.where(low, level - gradient, np.where(high, gradient - level, 0)) / self.length
        rounding = 4 * _EPS * (weights @ self.length)
        return slope > rounding

    def _project(self, point: Floats, lower: Floats, upper: Floats) -> Floats:
        """argmin Σ G_kk (xₖ − pointₖ)² over lower ≤ x ≤ upper, Σ x = 1, that is x = clip(point −
        t·ease)."""
        ease = self.ease

        def clipped(t: float) -> Floats:
            return np.clip(point - t * ease, lower, upper)

        crossings = np.concatenate([(point - upper) / ease, (point - lower) / ease])
        knots: list[float] = np.sort(crossings).tolist()
        first_feasible = bisect_left(knots, True, key=lambda t: bool(clipped(t).sum() <= 1))
        last = min(first_feasible, len(knots) - 1)
        # Between these two the sum falls from above 1 to at most 1, on a straight line, as do all
        # entries.
        above = clipped(knots[max(last - 1, 0)])
        below = clipped(knots[last])
        fall = above.sum() - below.sum()
        share = (1 - below.sum()) / fall if fall > 0 else 0.0
        return np.clip(below + share * (above - below), lower, upper)


def _corner(gradient: Floats, lower: Floats, upper: Floats) -> Floats:
    """argmin gradient·v over Σ v = 1, lower ≤ v ≤ upper: the sum above `lower` goes to the entries
    with the least gradient."""
    order = np.argsort(gradient, kind="stable")
    room = (upper - lower)[order]
    corner = lower.copy()
    room_before = np.cumsum(room) - room
    corner[order] += np.clip(1 - lower.sum() - room_before, 0, room)
    return corner


def _checked(
    gram: ArrayLike, prior: ArrayLike | None, radius: float | None
) -> tuple[Floats, Floats, Floats, Floats]:
    """Gram matrix, prior and bounds of the weights, or ValueError."""
    matrix = np.asarray(gram, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ValueError(
            f"min_norm: a Gram matrix of shape {matrix.shape}; it must be (K, K) with K ≥ 1"
        )
    if not np.isfinite(matrix).all():
        raise ValueError("min_norm: the Gram matrix has entries that are not finite")
    size = matrix.shape[0]
    length = np.sqrt(np.maximum(matrix.diagonal(), 0))
    largest = np.outer(length, length)
    if (np.abs(matrix) > 1.001 * largest).any():
        raise ValueError("min_norm: no Gram matrix; |Δᵢ·Δⱼ| ≤ |Δᵢ||Δⱼ| must hold for all entries")
    if (np.abs(matrix - matrix.T) > 1e-5 * largest).any():
        raise ValueError("min_norm: the Gram matrix is not symmetric")
    if prior is None:
        start = np.full(size, 1 / size)
    else:
        start = np.array(prior, dtype=np.float64)
        if start.shape != (size,):
            raise ValueError(
                f"min_norm: a prior of shape {start.shape} for {size} vectors; it must be ({size},)"
            )
        if not ((start >= 0).all() and abs(start.sum() - 1) <= 1e-6):
            raise ValueError(
                "min_norm: the prior is not on the simplex; weights must be ≥ 0 and sum to 1"
            )
        start /= start.sum()
    if radius is None:
        return (matrix + matrix.T) / 2, start, np.zeros(size), np.ones(size)
    if not radius >= 0:
        raise ValueError(f"min_norm: radius {radius}; it must be ≥ 0, or None for no bound")
    symmetric = (matrix + matrix.T) / 2
    lowest = np.maximum(start - radius / size, 0)
    highest = np.minimum(start + radius / size, 1)
    return symmetric, start, lowest, highest
