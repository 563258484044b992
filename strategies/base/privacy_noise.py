"""Differential privacy of secure sums: each client's share of the noise, and a limit of the updates
that follows their lengths.

Each member of a secure sum adds Gaussian integers on the sum's grid; their total hides one unit
although no party knows it (Kairouz, Liu, Steinke, ICML 2021).

`discrete_gaussian` draws exactly, for one release. A rounded Gaussian is fast, for every round.
On a grid of step 1 with sigma in the millions, as secure sums have it, the probabilities of the
two have ratios within 1 +- 67/sigma^2 up to 40 sigma. A sum of n shares of d entries each is
then as private as Gaussian noise of its variance, up to less than 10 d (n - 1) exp(-pi^2
sigma^2) (their Proposition 14): 0 in any arithmetic.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.aggregation import Aggregation, Replies
from curvfed.strategies.base.private_steps import Noise
from curvfed.strategies.base.shared_tables import Privacy
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.secure_sum.fixed_point import Residues, add
from curvfed.strategies.wire.checks import MessageError

COLLUDING = 10
"""One member in this number, and at least one, may tell the server its noise."""


def honest_shares(members: int) -> int:
    """The number of shares of the noise in a sum that the server does not know, at least 1: all but
    those of the members that collude with it."""
    return max(1, members - max(1, -(-members // COLLUDING)))


def discrete_gaussian(variances: Sequence[int], generator: Random) -> list[int]:
    """Independent integers k with probability proportional to exp(-k^2 / (2 variance)).

    Canonne, Kamath, Steinke (NeurIPS 2020), Algorithms 1 to 3, in integers: no rounding anywhere.

    Parameters
    ----------
    variances : sequence of int
        Positive.
    generator : Random
        `random.SystemRandom`; a simulation's is seeded.
    """
    return [_gaussian(variance, generator) for variance in variances]


def add_exact(steps: Residues, variances: Floats, modulus: int, generator: Random) -> Residues:
    """Residues plus discrete Gaussian noise of these variances, in squared steps, rounded up."""
    noise = discrete_gaussian([math.ceil(variance) for variance in variances], generator)
    residues = np.array([number % modulus for number in noise], np.uint64)
    return add(steps, residues, modulus)


def add_rounded(steps: Residues, deviations: Floats, modulus: int, noise: Noise) -> Residues:
    """Residues plus Gaussian noise of these standard deviations, in steps, rounded to integers."""
    draws = noise.gaussian(steps.size) * deviations
    numbers = np.rint(draws).astype(np.int64)
    return add(steps, np.mod(numbers, modulus).astype(np.uint64), modulus)


def _gaussian(variance: int, generator: Random) -> int:
    scale = math.isqrt(variance) + 1
    while True:
        candidate = _laplace(scale, generator)
        distance = abs(candidate) * scale - variance
        if _happens(distance * distance, 2 * variance * scale * scale, generator):
            return candidate


def _laplace(scale: int, generator: Random) -> int:
    """An integer k with probability proportional to exp(-|k| / scale)."""
    while True:
        size = generator.randrange(scale)
        if not _happens(size, scale, generator):
            continue
        while _happens(1, 1, generator):
            size += scale
        is_negative = generator.getrandbits(1)
        if size or not is_negative:
            return -size if is_negative else size


def _happens(numerator: int, denominator: int, generator: Random) -> bool:
    """True with probability exp(-numerator / denominator)."""
    while numerator > denominator:
        if not _happens(1, 1, generator):
            return False
        numerator -= denominator
    draws = 1
    while generator.randrange(denominator * draws) < numerator:
        draws += 1
    return draws % 2 == 1


CLIP = "dp/clip"
WITHIN = "dp/within"
"""Arrays (1,) in addition to the parameters: the clip that is sent, and the client's answer."""

SHARE = 0.05
"""Share of the budget for `WITHIN`; the updates' noise grows by 2.6%."""

RATE = 0.2
"""The clip's largest step, as a change of its logarithm; their eta_C."""


class AdaptiveClip(Aggregation):
    """Another aggregation, with the clip.

    The server sends the clip with the parameters, so that it is among the values that all members
    of a sum must share. Each client adds to its update whether that was within the clip, as plus or
    minus half the clip. With shares 1 - s and s of the budget, an update u and this number b are
    private together: |u|² (1 - s) / clip² + b² · 4 s / clip² is at most 1, whatever the clip.

    Parameters
    ----------
    inner : Aggregation
    privacy : Privacy
        With `clip_quantile`; `clip` is the first.
    """

    def __init__(self, inner: Aggregation, privacy: Privacy) -> None:
        self._inner = inner
        self._quantile = privacy.clip_quantile or 0.0
        self._clip = privacy.clip
        self.is_global = inner.is_global
        super().__init__({}, inner.keys, inner.run, inner.clients)

    def begin(self, arrays: Arrays) -> None:
        """Nothing is sent yet."""
        self._inner_sent: Arrays = {}
        self._sent: Arrays = {}

    def sent_to(self, partition: int) -> Arrays:
        """The parameters and the clip."""
        sent = self._inner.sent_to(partition)
        if self._inner_sent is not sent:
            self._inner_sent = sent
            self._sent = sent | {CLIP: np.array([self._clip])}
        return self._sent

    def summand(self) -> Arrays:
        """The parameters and `WITHIN`."""
        return self._inner.summand() | {WITHIN: np.zeros(1)}

    def global_model(self) -> Arrays:
        """That of the inner aggregation."""
        return self._inner.global_model()

    def aggregate(self, replies: Replies) -> None:
        """Aggregate the parameters, and move the clip."""
        updates = {}
        for partition, update in replies.items():
            arrays = dict(update.arrays)
            share = 0.5 + float(arrays.pop(WITHIN)[0]) / self._clip
            updates[partition] = replace(update, arrays=arrays)
        self._inner.aggregate(updates)
        bounded_share = min(max(share, 0.0), 1.0)
        self._clip *= math.exp(-RATE * (bounded_share - self._quantile))
        self._inner_sent = {}

    def state(self) -> Arrays:
        """The inner state and the clip."""
        return self._inner.state() | {CLIP: np.array([self._clip])}

    def load(self, state: Arrays) -> None:
        """Inverse of `state`."""
        inner = dict(state)
        self._clip = float(inner.pop(CLIP)[0])
        self._inner.load(inner)
        self._inner_sent = {}

    def figures(self) -> dict[str, float]:
        """Those of the inner aggregation."""
        return self._inner.figures()

    def round_figures(self) -> dict[str, Any]:
        """With the clip of the next round."""
        return self._inner.round_figures() | {"clip": self._clip}

    def weights(self) -> dict[int, float]:
        """Those of the inner aggregation."""
        return self._inner.weights()


def split_clip(arrays: Arrays) -> tuple[Arrays, float]:
    """The parameters that a server sends, and the clip.

    Raises
    ------
    MessageError
        If the clip is not one positive and finite number.
    """
    parameters = dict(arrays)
    clip = parameters.pop(CLIP, np.zeros(0))
    if clip.shape != (1,) or not 0 < float(clip[0]) < math.inf:
        raise MessageError(f"{CLIP} is not one positive number", key="clip")
    return parameters, float(clip[0])


def within(length: float, clip: float) -> Arrays:
    """The client's answer for an update of this length."""
    return {WITHIN: np.array([0.5 * clip if length <= clip else -0.5 * clip])}


def variances(arrays: Arrays, clip: float) -> Floats:
    """Variances of the noise on an update of these arrays and `WITHIN`, at noise multiplier 1."""
    square = clip**2
    of_update = {name: np.full(array.shape, square / (1 - SHARE)) for name, array in arrays.items()}
    squared_share = np.array([square / (4 * SHARE)])
    return Statistics(of_update | {WITHIN: squared_share}).flatten()
