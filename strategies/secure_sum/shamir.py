"""Shamir's secret sharing (1979) of 32-byte secrets over a prime field, whose elements have 33
bytes.

Any `threshold` shares determine the secret. Fewer shares are uniform and independent of it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from curvfed.strategies.errors import SecureSumError

PRIME = 2**264 - 275
SECRET_BYTES = 32
SHARE_BYTES = 33


def split(
    secret: bytes, points: Sequence[int], threshold: int, entropy: Callable[[int], bytes]
) -> dict[int, bytes]:
    """Shares of a secret: values of a random polynomial of degree threshold − 1, whose value at 0
    is the secret.

    Parameters
    ----------
    secret : bytes, 32
    points : sequence of int
        Distinct, from 1 to below the prime.
    threshold : int
        1 to the number of points.
    entropy : callable
        Returns the given number of uniform bytes.

    Returns
    -------
    dict of int to bytes, 33
        By point.
    """
    coefficients = [int.from_bytes(secret), *(_element(entropy) for _ in range(threshold - 1))]
    shares = {}
    for point in points:
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * point + coefficient) % PRIME
        shares[point] = value.to_bytes(SHARE_BYTES)
    return shares


@lru_cache(maxsize=1024)
def weights(points: tuple[int, ...]) -> list[int]:
    """Lagrange weights at 0 for distinct points from 1 to 2⁶³ − 1, in their order.

    f(0) = Σ wᵢ f(xᵢ) for every polynomial f of degree below the number of points, with wᵢ = Π x_j /
    Π (x_j − xᵢ), both products over j ≠ i. One modular inversion serves all weights.
    """
    below = _products(points)
    # Montgomery's trick: all prefix products, the inverse of the last, and back.
    ahead = [1]
    for value in below:
        ahead.append(ahead[-1] * value % PRIME)
    inverse = pow(ahead[-1], -1, PRIME) * math.prod(points) % PRIME
    factors = [0] * len(below)
    for i in range(len(below) - 1, -1, -1):
        factors[i] = inverse * ahead[i] % PRIME
        inverse = inverse * below[i] % PRIME
    return factors


def combine(shares: Mapping[int, bytes]) -> bytes | None:
    """The secret from as many shares as the threshold; None if the result has more bytes than a
    secret.

    Parameters
    ----------
    shares : mapping of int to bytes, 33
        By point.
    """
    values = map(int.from_bytes, shares.values())
    value = (
        sum(weight * share for weight, share in zip(weights(tuple(shares)), values, strict=True))
        % PRIME
    )
    return value.to_bytes(SECRET_BYTES) if value < 1 << 8 * SECRET_BYTES else None


def check_share(share: bytes) -> None:
    """Refuse a share that is not an element of the field in 33 bytes.

    Raises
    ------
    SecureSumError
    """
    if len(share) != SHARE_BYTES:
        raise SecureSumError(
            f"a share of {len(share)} bytes; it must have {SHARE_BYTES}", key="share"
        )
    if int.from_bytes(share) >= PRIME:
        raise SecureSumError("a share that is not an element of the field", key="share")


def _products(points: Sequence[int]) -> list[int]:
    """xᵢ·Π (x_j − xᵢ) over j ≠ i, in the field.

    NumPy multiplies as many factors as fit 64 bits, then Python's integers the rest.
    """
    x = np.array(points, np.int64)
    factors = x - x[:, None]
    np.fill_diagonal(factors, x)
    together = 63 // int(x.max()).bit_length()
    padded = np.pad(factors, ((0, 0), (0, -len(x) % together)), constant_values=1)
    rows = padded.reshape(len(x), -1, together).prod(axis=2).tolist()
    return [math.prod(row) % PRIME for row in rows]


def _element(entropy: Callable[[int], bytes]) -> int:
    """A uniform element of the field. One draw in 10⁷⁷ is rejected and repeated."""
    while (value := int.from_bytes(entropy(SHARE_BYTES))) >= PRIME:
        pass
    return value
