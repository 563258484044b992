"""Random numbers that hide values before they are sent."""

import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.arrays import Floats


class Noise:
    """Noise from the operating system's generator, or after a call of `seed` from a seeded one.

    A simulation seeds it, so that equal runs give equal bits. A real client never does, because the
    server knows the run's seed. A secret seed would not help either: where a weight did not change,
    the server sees the bare noise, and the state of a simulation's generator can be computed from
    enough of its output.
    """

    def __init__(self) -> None:
        self._entropy: list[int] = []
        self._seeded: np.random.Generator | None = None

    def seed(self, entropy: Sequence[int]) -> None:
        """Draw from a generator with this seed from now on. It is made at the first draw: most
        methods draw nothing."""
        self._entropy = list(entropy)
        self._seeded = None

    def laplace(self, shape: tuple[int, ...]) -> Floats:
        """Independent numbers with density exp(-|x|)/2 by the inverse distribution function; at
        most 37 in absolute value.

        They have the weakness of all Laplace noise in floating point: the last digits of a sum
        reveal something about the value that the noise was added to (Mironov, CCS 2012).
        """
        bits = self._bits(int(np.prod(shape, dtype=np.int64)))
        sizes = -np.log(_uniform(bits))  # another bit gives the sign
        return np.where(bits & np.uint64(1), -sizes, sizes).reshape(shape)

    def number(self) -> int:
        """A whole number below 2^63, for the seed of other draws."""
        return int(self._bits(1)[0]) >> 1

    def uniform(self, num: int) -> Floats:
        """Independent numbers (num,), uniform in (0, 1], on a grid of 2^-53."""
        return _uniform(self._bits(num))

    def gaussian(self, num: int) -> Floats:
        """Independent standard normal numbers (num,) by Box and Muller (1958); at most 8.6 in
        absolute value, which a number exceeds with a probability of 1e-17."""
        lengths = np.sqrt(-2 * np.log(self.uniform(num - num // 2)))
        angles = 2 * np.pi * self.uniform(num - num // 2)
        return np.concatenate([lengths * np.cos(angles), lengths * np.sin(angles)])[:num]

    def _bits(self, num: int) -> NDArray[np.uint64]:
        if not self._entropy:
            return np.frombuffer(secrets.token_bytes(8 * num), "<u8")
        if self._seeded is None:
            self._seeded = np.random.default_rng(self._entropy)
        return np.frombuffer(self._seeded.bytes(8 * num), "<u8")


def _uniform(bits: NDArray[np.uint64]) -> Floats:
    """Numbers in (0, 1] from the upper 53 bits."""
    return np.asarray(((bits >> np.uint64(11)) + np.uint64(1)) * 2.0**-53)
