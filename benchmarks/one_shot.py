"""Hulls, bins, the decoding of their power sums, and secure sums, against libraries, limits and
textbook programs."""

import copy
import statistics
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from flint import fmpz_mod_ctx, fmpz_mod_poly_ctx, nmod_poly
from scipy.spatial import ConvexHull
from secure_sums import Clock, Run, session, vectors
from textbook import graham_scan, plain_decode, sample

from benchmarks import masked_rounds
from benchmarks.measure import Call, Pair, Place, Row, seconds
from curvfed.geometry.hull import convex_hull
from curvfed.geometry.quantizer import PoincareQuantizer
from curvfed.strategies.hull.codec import PublicParameters, encode_hulls
from curvfed.strategies.hull.local import local_hulls
from curvfed.strategies.hull.symbols import SPARE, decode, encode, prime_above
from curvfed.strategies.secure_sum.fixed_point import SUM_PRIME

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


# entries of a vector, but in the sum of a thousand clients
LENGTH = 2_500
REPEATS = 7


def secure_sum(place: Place) -> list[Row]:
    """Of the size of a hospital network, and of a large one."""
    few = place.size((50, 4, LENGTH, 34), (6, 1, 10, 4))
    many = place.size((1_000, 100, 10_000), (6, 1, 10))
    what = "secure sum of 1,000 clients' 10,000 numbers, a tenth of them gone"
    recovery = "recovery of a secure sum, 50 clients, 4 gone"
    parts = "its key agreements and streams alone"
    return [
        Row(recovery, parts, partial(_against_its_parts, *few), repeats=REPEATS),
        Row(
            f"{what}: a client",
            "50 ms",
            lambda: (partial(_client, *many), 0.05),
            1.0,
            1,
            is_figure=True,
        ),
        Row(
            f"{what}: the server",
            "30 s",
            lambda: (partial(_total, *many), 30.0),
            1.0,
            REPEATS,
            is_figure=True,
        ),
        *masked_rounds.rows(place),
    ]


@cache
def _run(clients: int, gone: int, length: int, threshold: int = 0) -> Run:
    """A sum of which the first clients vanish after their shares went out, ready to be recovered; 0
    is two thirds."""
    of = session(clients, modulus=SUM_PRIME, length=length, threshold=threshold)
    run = Run(of, vectors(of), dict.fromkeys(range(gone), "deliver"))
    run.clients = {client: Clock(member) for client, member in run.clients.items()}
    return run.until("unmask")


def _client(clients: int, gone: int, length: int) -> Any:
    members = _run(clients, gone, length).clients
    return statistics.median(members[client].seconds for client in range(gone, clients))


def _total(clients: int, gone: int, length: int) -> float:
    return seconds(copy.deepcopy(_run(clients, gone, length).server).total)


def _against_its_parts(clients: int, gone: int, length: int, threshold: int) -> Pair:
    """The recovery against the key agreements and ChaCha20 streams that no recovery can do
    without.
    """
    ready = [
        copy.deepcopy(_run(clients, gone, length, threshold).server) for _ in range(REPEATS + 2)
    ]
    secret = X25519PrivateKey.generate()
    peer = X25519PrivateKey.generate().public_key().public_bytes_raw()
    there = clients - gone
    zeros = bytes(8 * length)

    def bare() -> None:
        for _ in range(gone * there):
            secret.exchange(X25519PublicKey.from_public_bytes(peer))
        for _ in range(gone * there + there):
            Cipher(algorithms.ChaCha20(bytes(32), bytes(16)), None).encryptor().update(zeros)

    return lambda: ready.pop().total(), bare


def sum_server(clients: int) -> Any:
    """All that a server does for one secure sum that a tenth leaves: the clients' messages are
    there from the start."""
    return _run(clients, clients // 10, LENGTH).server_again
