"""Hulls, bins and the decoding of their power sums, against Qhull, the literature's scan, FLINT and a textbook."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from flint import fmpz_mod_ctx, fmpz_mod_poly_ctx, nmod_poly
from scipy.spatial import ConvexHull
from textbook import graham_scan, plain_decode

from benchmarks.measure import Call, Pair, Place, Row
from curvfed.geometry.hull import convex_hull
from curvfed.geometry.quantizer import PoincareQuantizer
from curvfed.strategies.hull.codec import encode_hulls
from curvfed.strategies.hull.local import local_hulls
from curvfed.strategies.hull.public import Public
from curvfed.strategies.hull.roots import prime_above
from curvfed.strategies.hull.symbols import SPARE, decode, encode
from curvfed.tasks.points.uniform import uniform_points

BITS = 24
"""Of the bins' indices: 10⁷ bins, as ε = 0.01 has within a radius of 0.999."""


def hulls(place: Place) -> list[Row]:
    """Of as many points as a large client has."""
    large, small = place.size(100_000, 500), place.size(10_000, 100)
    qhull, polar = "Qhull on them as Euclidean points", "their norms and angles alone"

    def against(ours: Call, theirs: Callable[..., Any], num: int) -> Pair:
        return ours, partial(theirs, sample(num))

    return [
        Row("hyperbolic hull of 100,000 points", qhull, lambda: against(hull(large), ConvexHull, large), 1.5, 9),
        Row(
            "hyperbolic hull of 10,000 points", "the paper's scan", lambda: against(hull(small), _scan, small), 0.01, 1
        ),
        Row("bins of 100,000 points, ε = .01", polar, lambda: against(bins(large, 0.95), _polar, large), None, 9),
    ]


def decoding(place: Place) -> list[Row]:
    """At the size of a federation's hulls, and at one where a textbook's decoder ends within seconds."""
    many, few = place.size(5_000, 20), place.size(300, 20)
    flint, plain = "FLINT's roots of its locator alone", "Berlekamp–Massey and a search in plain Python"
    return [
        Row("decode of 5,000 bins of 2²⁴", flint, partial(_against_flint, many)),
        Row("decode of 300 bins of 2¹²", plain, partial(_against_textbook, few, 12), 1.0, 1),
    ]


def sample(num: int, radius: float = 0.95) -> Any:
    """Points spread evenly over a hyperbolic disc of this Euclidean radius, that of the paper's synthetic sets."""
    return uniform_points(num, radius, -1.0, np.random.default_rng(0))


def hull(num: int) -> Call:
    """The convex hull of so many points."""
    return partial(convex_hull, sample(num), -1.0)


def bins(num: int, radius: float = 0.999) -> Call:
    """So many points to their bins, in a disc of this radius."""
    return partial(PoincareQuantizer(0.01, radius, -1.0).encode, sample(num))


def hull_client(num: int) -> Call:
    """What a client of `hull` does with its points before it masks: hulls of two classes, bins, symbols."""
    given, labels = sample(num), np.random.default_rng(1).integers(0, 2, num)
    public = Public(curvature=-1.0, radius=0.999, epsilon=0.01, num_classes=2, num_clients=10, cap=128)
    return lambda: encode_hulls(local_hulls(given, labels, public).hulls, 0, [0, 1], public)


def decode_bins(num: int, bits: int = BITS) -> Call:
    """Occupied bins, of 2^bits, and their values from a sum of symbols."""
    symbols, prime = _symbols(num, bits)
    return lambda: decode(symbols, prime, 1 << bits, num)


def _symbols(num: int, bits: int) -> tuple[Any, int]:
    rng, prime = np.random.default_rng(0), prime_above(1 << bits)
    places = rng.permutation(np.unique(rng.integers(1, 1 << bits, 2 * num, dtype=np.uint64)))[:num]
    return encode(places, rng.integers(1, prime, num, dtype=np.uint64), 2 * num + SPARE, prime), prime


def _against_flint(num: int) -> Pair:
    """The roots are by FLINT's splitting of word-size polynomials."""
    symbols, prime = _symbols(num, BITS)
    locator = fmpz_mod_poly_ctx(fmpz_mod_ctx(prime)).minpoly(symbols.tolist())
    return decode_bins(num), nmod_poly([int(coefficient) for coefficient in locator.coeffs()], prime).roots


def _against_textbook(num: int, bits: int) -> Pair:
    symbols, prime = _symbols(num, bits)
    return decode_bins(num, bits), partial(plain_decode, symbols.tolist(), prime, 1 << bits)


def _scan(points: Any) -> list[int]:
    return graham_scan(points, -1.0)


def _polar(points: Any) -> Any:
    return np.hypot(points[:, 0], points[:, 1]), np.arctan2(points[:, 1], points[:, 0])
