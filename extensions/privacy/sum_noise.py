"""Differential privacy of secure sums: each client's share of the noise.

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
from random import Random

import numpy as np

from curvfed.geometry.arrays import Floats
from curvfed.strategies.base.noise import Noise
from curvfed.strategies.secure_sum.fixed_point import Residues, add

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
    return add(steps, np.array([number % modulus for number in noise], np.uint64), modulus)


def add_rounded(steps: Residues, deviations: Floats, modulus: int, noise: Noise) -> Residues:
    """Residues plus Gaussian noise of these standard deviations, in steps, rounded to integers."""
    numbers = np.rint(noise.gaussian(steps.size) * deviations).astype(np.int64)
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
