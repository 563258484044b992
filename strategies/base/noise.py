"""Random numbers that hide what a message tells: who knows them takes them off again."""

import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Noise:
    """Laplace noise from the operating system's generator, or after `seed` from that seed.

    A simulation seeds it, so that equal runs give equal bits. A real client does not: the server knows the run's seed. Nor
    does it stretch a secret seed by a generator made for simulations: of a weight that cannot have moved the server sees
    the noise bare, and from enough of their output such generators can be worked out.
    """

    def __init__(self) -> None:
        self._seeded: np.random.Generator | None = None

    def seed(self, entropy: Sequence[int]) -> None:
        """Draw from a generator of this seed from here on."""
        self._seeded = np.random.default_rng(list(entropy))

    def laplace(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Independent numbers of density exp(-|x|)/2, by the inverse of the distribution function; at most 37 in size.

        They are multiples of no common step, and so have the weakness of all such noise in floating point, that the last
        digits of a sum tell something of what it was added to (Mironov, CCS 2012).
        """
        size = 8 * int(np.prod(shape, dtype=np.int64))
        data = secrets.token_bytes(size) if self._seeded is None else self._seeded.bytes(size)
        bits = np.frombuffer(data, "<u8")
        # 53 bits make a number in (0, 1], one of the others the sign.
        sizes = -np.log(((bits >> np.uint64(11)) + np.uint64(1)) * 2.0**-53)
        found: NDArray[np.float64] = np.where(bits & np.uint64(1), -sizes, sizes).reshape(shape)
        return found
