"""Hulls, bins, the decoding of their power sums, and secure sums, against libraries, limits and
textbook programs."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from flint import fmpz_mod_ctx, fmpz_mod_poly_ctx, nmod_poly
from scipy.spatial import ConvexHull
from secure_sums import BASIS, Run, masked_input, session, vectors
from textbook import graham_scan, plain_decode, sample

from benchmarks import masked_rounds
from benchmarks.measure import Call, Pair, Place, Row
from curvfed.geometry.hull import convex_hull
from curvfed.geometry.quantizer import PoincareQuantizer
from curvfed.strategies.hull.codec import PublicParameters, encode_hulls
from curvfed.strategies.hull.local import local_hulls
from curvfed.strategies.hull.symbols import SPARE, decode, encode, prime_above
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME
from curvfed.strategies.secure_sum.server import SumOfGroup

BITS = 24  # of the bins' indices: 10⁷ bins, as ε = 0.01 has within a radius of 0.999


def hulls(place: Place) -> list[Row]:
    """Of as many points as a large client has."""
    large = place.size(100_000, 500)
    small = place.size(10_000, 100)
    qhull = "Qhull on them as Euclidean points"
    scan = "the paper's scan"
    polar = "their norms and angles alone"

    def against(ours: Call, theirs: Callable[..., Any], num: int) -> Pair:
        return ours, partial(theirs, sample(num))

    return [
        Row(
            "hyperbolic hull of 100,000 points",
            qhull,
            lambda: against(hull(large), ConvexHull, large),
            1.5,
            9,
        ),
        Row(
            "hyperbolic hull of 10,000 points",
            scan,
            lambda: against(hull(small), graham_scan, small),
            0.01,
            1,
        ),
        Row(
            "bins of 100,000 points, ε = .01",
            polar,
            lambda: against(bins(large, 0.95), _polar, large),
            None,
            9,
        ),
    ]


def decoding(place: Place) -> list[Row]:
    """At the size of a federation's hulls, and at one where a textbook's decoder ends within
    seconds."""
    many = place.size(5_000, 20)
    few = place.size(300, 20)
    flint = "FLINT's roots of its locator alone"
    plain = "Berlekamp–Massey and a search in plain Python"
    return [
        Row("decode of 5,000 bins of 2²⁴", flint, partial(_against_flint, many)),
        Row("decode of 300 bins of 2¹²", plain, partial(_against_textbook, few, 12), 1.0, 1),
    ]


def hull(num: int) -> Call:
    """The convex hull of so many points."""
    return partial(convex_hull, sample(num), -1.0)


def bins(num: int, radius: float = 0.999) -> Call:
    """So many points to their bins, in a disc of this radius."""
    return partial(PoincareQuantizer(0.01, radius, -1.0).encode, sample(num))


def hull_client(num: int) -> Call:
    """What a client of `hull` does with its points before it masks: hulls of two classes, bins,
    symbols."""
    given = sample(num)
    labels = np.random.default_rng(1).integers(0, 2, num)
    public = PublicParameters(
        curvature=-1.0, radius=0.999, epsilon=0.01, num_classes=2, num_clients=10, cap=128
    )
    return lambda: encode_hulls(local_hulls(given, labels, public).hulls, 0, [0, 1], public)


def decode_bins(num: int, bits: int = BITS) -> Call:
    """Occupied bins, of 2^bits, and their values from a sum of symbols."""
    symbols, prime = _symbols(num, bits)
    return lambda: decode(symbols, prime, 1 << bits, num)


def _symbols(num: int, bits: int) -> tuple[Any, int]:
    rng = np.random.default_rng(0)
    prime = prime_above(1 << bits)
    places = rng.permutation(np.unique(rng.integers(1, 1 << bits, 2 * num, dtype=np.uint64)))[:num]
    return (
        encode(places, rng.integers(1, prime, num, dtype=np.uint64), 2 * num + SPARE, prime),
        prime,
    )


def _against_flint(num: int) -> Pair:
    """The roots are by FLINT's splitting of word-size polynomials."""
    symbols, prime = _symbols(num, BITS)
    locator = fmpz_mod_poly_ctx(fmpz_mod_ctx(prime)).minpoly(symbols.tolist())
    return (
        decode_bins(num),
        nmod_poly([int(coefficient) for coefficient in locator.coeffs()], prime).roots,
    )


def _against_textbook(num: int, bits: int) -> Pair:
    symbols, prime = _symbols(num, bits)
    return decode_bins(num, bits), partial(plain_decode, symbols.tolist(), prime, 1 << bits)


def _polar(points: Any) -> Any:
    return np.hypot(points[:, 0], points[:, 1]), np.arctan2(points[:, 1], points[:, 0])


LENGTH = 10_000
"""Entries of a vector in a sum."""

SUMMED = 2_500
"""Entries of a vector in a sum over many members."""

GROUP = 9
REPEATS = 7


def secure_sum(place: Place) -> list[Row]:
    """A member's masks against the key agreements and streams alone, and the server's sum against a
    plain one."""
    length = place.size(LENGTH, 10)
    return [
        Row(
            f"masks of a secure sum, a member of {GROUP}",
            "its key agreements and streams alone",
            partial(_masks, length),
            repeats=REPEATS,
        ),
        Row(
            f"the server's sum over {GROUP} members",
            "the vectors added by NumPy",
            partial(_server_sum, length),
            repeats=REPEATS,
        ),
        *masked_rounds.rows(place),
    ]


def _masks(length: int) -> Pair:
    what = session(GROUP, modulus=SUM_PRIME, length=length)
    run = Run(what, vectors(what)).agreed()
    member = run.members[0]
    secret = X25519PrivateKey.generate()
    peer = X25519PrivateKey.generate().public_key().public_bytes_raw()
    zeros = bytes(8 * length)

    def bare() -> None:
        for _ in range(GROUP - 1):
            secret.exchange(X25519PublicKey.from_public_bytes(peer))
            Cipher(algorithms.ChaCha20(bytes(32), bytes(16)), None).encryptor().update(zeros)

    return lambda: member.mask(run.values[0], what, BASIS), bare


def _server_sum(length: int) -> Pair:
    what = session(GROUP, modulus=SUM_PRIME, length=length)
    run = Run(what, vectors(what)).agreed().mask()
    masked = [vector.astype(object) for vector in run.masked.values()]
    return run.server.total, lambda: sum(masked) % SUM_PRIME


def sum_server(clients: int) -> Any:
    """All that a server does for one secure sum: it checks the members' vectors and adds them."""
    what = session(clients, modulus=SUM_PRIME, length=SUMMED)
    sent = {
        member: (vector, masked_input(vector, what, member, BASIS))
        for member, vector in vectors(what).items()
    }

    def total() -> Any:
        server = SumOfGroup(what, BASIS)
        for member, (vector, message) in sent.items():
            server.receive(member, vector, message)
        return server.total()

    return total
