"""Random noise that is added to messages for privacy. Whoever knows the noise can subtract it."""

import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Noise:
    """Laplace noise from the operating system's generator, or after a call of `seed` from a seeded
    one.

    A simulation seeds it, so that equal runs give equal bits. A real client never does, because the
    server knows the run's seed. A secret seed would not help either: where a weight did not change,
    the server sees the bare noise, and the state of a simulation's generator can be computed from
    enough of its output.
    """

    def __init__(self) -> None:
        self._seeded: np.random.Generator | None = None

    def seed(self, entropy: Sequence[int]) -> None:
        """Draw from a generator with this seed from now on."""
        self._seeded = np.random.default_rng(list(entropy))

    def laplace(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Independent numbers with density exp(-|x|)/2 by the inverse distribution function; at
        most 37 in absolute value.

        They have the weakness of all Laplace noise in floating point: the last digits of a sum
        reveal something about the value that the noise was added to (Mironov, CCS 2012).
        """
        size = 8 * int(np.prod(shape, dtype=np.int64))
        data = secrets.token_bytes(size) if self._seeded is None else self._seeded.bytes(size)
        bits = np.frombuffer(data, "<u8")
        # 53 bits give a number in (0, 1]; another bit gives the sign.
        sizes = -np.log(((bits >> np.uint64(11)) + np.uint64(1)) * 2.0**-53)
        return np.asarray(np.where(bits & np.uint64(1), -sizes, sizes).reshape(shape))
