"""Aggregations that a minority of false updates moves only a little."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from curvfed.extensions.robust.rows import Robust
from curvfed.geometry.arrays import Array, Floats
from curvfed.strategies.base.aggregation import AggregationError, Average, Replies, check_names
from curvfed.strategies.base.deviations import gram, weighted_step
from curvfed.strategies.base.statistics import Arrays, Statistics, is_buffer

BOUND_ROBUST = 5.0
"""The key `update-bound` without a value for robust aggregations: medians of the lengths."""

HEAVIEST = 2
"""A client counts at most this many times the median weight, for it states its number of examples
itself."""

LONGEST = 2.0
"""Deviations count up to this many medians of their lengths."""

FARTHEST = 3.0
"""The mean of near updates is over those up to this many medians of the distances away."""

_ENTRIES = 2**20  # of a block that is sorted
_STEPS = 1000
_TOLERANCE = 1e-10


class RobustAggregation(Average):
    """One model for all clients, from which a minority of clients can move only a little.

    A client without examples is left out; no client counts more than `HEAVIEST` times the median
    weight.
    """

    bound = BOUND_ROBUST

    def aggregate(self, replies: Replies) -> None:
        """Combine the replies."""
        for update in replies.values():
            check_names(update.arrays, self._arrays)
        updates = {partition: update for partition, update in replies.items() if update.weight}
        if updates:
            weights = np.array([update.weight for update in updates.values()], np.float64)
            weights = np.minimum(weights, HEAVIEST * np.median(weights))
            self.combine(updates, weights)

    @abstractmethod
    def combine(self, updates: Replies, weights: Floats) -> None:
        """Set the model from the updates of clients with examples, and their weights (K,)."""


class TrimmedMean(RobustAggregation):
    """Mean of each parameter without the smallest and the largest values, a share `robust.share` of
    the weight at either end (Yin et al., ICML 2018)."""

    name = "trimmed-mean"
    keys: Robust

    def combine(self, updates: Replies, weights: Floats) -> None:
        """Trim."""
        trimmed_weight = self.keys.share * weights.sum()
        self._arrays = trimmed_average(
            self._arrays, list(updates.values()), weights, trimmed_weight
        )


class Median(RobustAggregation):
    """Weighted median of each parameter (Yin et al., ICML 2018)."""

    name = "median"

    def combine(self, updates: Replies, weights: Floats) -> None:
        """Take the medians."""
        self._arrays = medians(self._arrays, list(updates.values()), weights)


class _Weighted(RobustAggregation):
    """An average of the updates with weights that depend on the distances between them. Running
    statistics are medians.

    The model moves at most `longest` times as far as an honest update, as long as fewer than half
    of the clients lie, whatever weights they state.
    """

    longest = LONGEST

    @abstractmethod
    def shares(self, products: Floats, weights: Floats) -> Floats:
        """The weights (K,) of the updates, which sum to 1.

        Parameters
        ----------
        products : array (K, K)
            Inner products of the deviations (`curvfed.strategies.base.deviations.gram`).
        weights : array (K,)
        """

    def combine(self, updates: Replies, weights: Floats) -> None:
        """Average.

        Raises
        ------
        AggregationError
            If no update is short enough to be squared.
        """
        values = list(updates.values())
        products = gram(self._arrays, [update.arrays for update in values])
        is_finite = np.isfinite(products.diagonal())
        if not is_finite.any():
            raise AggregationError("every update is too long to be squared", key="too-long")
        shares = np.zeros(len(values))
        lengths = np.sqrt(products.diagonal()[is_finite])
        longest = self.longest * np.median(lengths)
        factors = np.ones_like(lengths)
        np.divide(longest, lengths, out=factors, where=lengths > longest)
        bounded = products[np.ix_(is_finite, is_finite)] * np.outer(factors, factors)
        shares[is_finite] = factors * self.shares(bounded, weights[is_finite])
        self.weights = dict(zip(updates, shares.tolist(), strict=True))
        running = {name: array for name, array in self._arrays.items() if is_buffer(name)}
        self._arrays = weighted_step(self._arrays, values, shares) | medians(
            running, values, weights
        )


class Krum(_Weighted):
    """Average of the updates that are closest to their nearest neighbours: Multi-Krum (Blanchard et
    al., NeurIPS 2017), which leaves out a share `robust.share` of the clients, rounded down."""

    name = "krum"
    keys: Robust

    def shares(self, products: Floats, weights: Floats) -> Floats:
        """The weights of the chosen updates."""
        number = len(weights)
        liars = int(self.keys.share * number)
        squares = products.diagonal()
        distances = np.sort(squares[:, None] + squares - 2 * products, axis=1)  # the first: itself
        scores = distances[:, : max(number - liars - 1, 2)].sum(axis=1)
        chosen = np.argsort(scores, kind="stable")[: number - liars]
        shares = np.zeros(number)
        shares[chosen] = weights[chosen] / weights[chosen].sum()
        return shares


class GeometricMedian(_Weighted):
    """The smoothed geometric median (Pillutla et al., IEEE Transactions on Signal Processing 2022):
    the mean, in which updates count less the further they lie from it.

    Clients' updates differ much. With the geometric median itself, those that have little to learn
    decide; so distances count as at least their median, which the geometric median gives.
    """

    name = "geometric-median"

    def shares(self, products: Floats, weights: Floats) -> Floats:
        """The point's weights, as a mean of the updates."""
        distances = distances_from(products, geometric_median(products, weights))
        return geometric_median(products, weights, float(np.median(distances)))


class NearMean(_Weighted):
    """Mean of the updates that lie near the geometric median, up to `FARTHEST` medians of their
    distances from it, and do not point against it.

    The geometric median shows which updates are near, whatever fewer than half of the weight send.
    It is a bad model itself: clients' data differ, and it counts those most that are in the middle.
    The mean of the near updates is FedAvg's mean. Deviations longer than the median of their
    lengths are shortened to it first (norm bounding: Sun et al., 2019), so that a multiple of the
    mean makes no step longer than that of another client. The mean of the others times −3 is no
    farther than honest updates of clients with different data; but it points against the geometric
    median, and is left out, as FLTrust (Cao et al., NDSS 2021) leaves out updates that point
    against one that it trusts.
    """

    name = "near-mean"
    longest = 1.0

    def shares(self, products: Floats, weights: Floats) -> Floats:
        """The weights of the near updates."""
        center = geometric_median(products, weights)
        distances = distances_from(products, center)
        is_near = distances <= FARTHEST * np.median(distances)
        is_along = products @ center >= 0
        near = weights * (is_near & is_along if (is_near & is_along).any() else is_near)
        return near / near.sum()


def distances_from(products: Floats, shares: Floats) -> Floats:
    """Distances ‖z − xₖ‖ of K points from z = Σ pₖ xₖ, by their inner products and pₖ."""
    projected = products @ shares
    squares = products.diagonal() - 2 * projected + shares @ projected
    return np.sqrt(np.maximum(squares, 0))


def geometric_median(products: Floats, weights: Floats, smallest: float = 0.0) -> Floats:
    """Weights of the mean that minimises Σ wₖ h(‖z − xₖ‖), by Weiszfeld's iteration; h(d) = d, and
    for d below ν h(d) = d²/2ν + ν/2.

    Parameters
    ----------
    products : array (K, K)
        Inner products of the points xₖ.
    weights : array (K,)
        wₖ > 0.
    smallest : float
        ν; at least 1e-4 of the longest xₖ, for products of float32 do not resolve shorter
        distances.

    Returns
    -------
    array (K,)
        pₖ ≥ 0 with Σ pₖ = 1 and z = Σ pₖ xₖ.

    Examples
    --------
    >>> points = np.array([[0.0], [1.0], [100.0]])
    >>> bool(geometric_median(points @ points.T, np.ones(3)) @ points < 1.1)
    True
    """
    resolved = 1e-4 * math.sqrt(products.diagonal().max())
    smallest = max(smallest, resolved, np.finfo(np.float64).tiny)
    shares: Floats = weights / weights.sum()
    objective = math.inf
    for _ in range(_STEPS):
        distances = distances_from(products, shares)
        counted = np.maximum(distances, smallest)
        previous = objective
        objective = float(weights @ (distances**2 / counted + counted)) / 2
        if objective >= previous * (1 - _TOLERANCE):
            break
        pulls = weights / counted
        shares = pulls / pulls.sum()
    return shares


def medians(like: Mapping[str, Array], updates: Sequence[Statistics], weights: Floats) -> Arrays:
    """Weighted median of every entry; the mean of the two middle values if the weight is halved
    between them."""
    # Whole numbers: a quarter on both sides of the middle touches the one or two middle values.
    return trimmed_average(like, updates, weights, weights.sum() / 2 - 0.25)


def trimmed_average(
    like: Mapping[str, Array], updates: Sequence[Statistics], weights: Floats, trim: float
) -> Arrays:
    """Trimmed mean (`trimmed_mean`) of every entry.

    Parameters
    ----------
    like : mapping of str to array
        Names, shapes and dtypes of the result.
    """
    width = max(_ENTRIES // len(updates), 1)
    averages: Arrays = {}
    for name, array in like.items():
        flat = np.empty(array.size, array.dtype)
        rows = [update.arrays[name].reshape(-1) for update in updates]
        for begin in range(0, flat.size, width):
            block = slice(begin, begin + width)
            values = np.stack([row[block] for row in rows]).astype(np.float64)
            flat[block] = trimmed_mean(values, weights, trim)
        averages[name] = flat.reshape(array.shape)
    return averages


def trimmed_mean(values: Floats, weights: Floats, trim: float) -> Floats:
    """Weighted mean of each column without a weight of `trim` at either end.

    Parameters
    ----------
    values : array (K, n)
    weights : array (K,)
    trim : float
        Below half of the total weight. A value at the edge counts with the rest of its weight.

    Examples
    --------
    >>> trimmed_mean(np.array([[1.0], [2.0], [4.0], [99.0]]), np.ones(4), 1.0)
    array([3.])
    """
    order = np.argsort(values, axis=0, kind="stable")
    ordered_weights = weights[order]
    ends = np.cumsum(ordered_weights, axis=0)
    begins = ends - ordered_weights
    counted = np.minimum(ends, weights.sum() - trim) - np.maximum(begins, trim)
    counted = np.maximum(counted, 0)
    total = (counted * np.take_along_axis(values, order, axis=0)).sum(axis=0)
    return total / counted.sum(axis=0)
