"""Random cases of hulls to send: the sum of the clients' vectors must give them back exactly."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.hull import convex_hull
from curvfed.strategies.hull.codec import PublicParameters, encode_hulls

Words = NDArray[np.uint64]

CLIENTS, CLASSES, EPSILON = (3, 10), (2, 8), (0.01, 20.0)
"""What the cases go over."""
_RADIUS = 0.95
_CURVATURE = -1.0


@dataclass(frozen=True, eq=False)
class HullCase:
    """Hulls of all clients, with the order and the slots that they agreed on.

    Attributes
    ----------
    public : PublicParameters
    clients : tuple of tuples of uint64 arrays
        Per client its hulls, each as bins; both may be empty.
    positions : tuple of int
        Per client.
    slots : tuple of tuples of int
        Per client and hull.
    """

    public: PublicParameters
    clients: tuple[tuple[Words, ...], ...]
    positions: tuple[int, ...]
    slots: tuple[tuple[int, ...], ...]

    @property
    def sent(self) -> list[list[list[int]]]:
        """What decoding must give: clients that have a hull, in canonical order."""
        clients = ([sorted(hull.tolist()) for hull in hulls if hull.size] for hulls in self.clients)
        return sorted(sorted(hulls) for hulls in clients if hulls)

    def vectors(self) -> list[Words]:
        """What each client would mask and send."""
        return [
            encode_hulls(hulls, position, slots, self.public)
            for hulls, position, slots in zip(self.clients, self.positions, self.slots, strict=True)
        ]

    def total(self) -> Words:
        """The sum of the clients' vectors, by Python's integers."""
        columns = zip(*(vector.tolist() for vector in self.vectors()), strict=True)
        return np.array([sum(column) % self.public.prime for column in columns], dtype=np.uint64)


def hull_case(seed: int, code: str = "binary") -> HullCase:
    """One case of a series: 3 or 10 clients and 2 or 8 classes in turn, ε spread over 0.01 to 20 on
    a logarithmic scale.

    Hulls of points about one centre per class, so that clients overlap; also hulls of one vertex,
    hulls up to the cap, missing classes and empty clients.

    Parameters
    ----------
    seed : int
        Number of the case, ≥ 0; the first two rounds of four have the least and the largest ε.
    code : str
        Label code; h is drawn too.
    """
    rng = np.random.default_rng(seed)
    clients, classes = CLIENTS[seed % 2], CLASSES[seed // 2 % 2]
    epsilon = EPSILON[seed // 4] if seed < 8 else float(np.exp(rng.uniform(*np.log(EPSILON))))
    public = PublicParameters(
        curvature=_CURVATURE,
        radius=_RADIUS,
        epsilon=epsilon,
        num_classes=classes,
        num_clients=clients,
        cap=int(rng.integers(1, 31)),
        code=code,
        h=int(rng.integers(2, 7)),
    )
    centres = _in_disc(rng, classes, 0.8)
    hulls = tuple(_client(rng, centres, public) for _ in range(clients))
    slots = tuple(tuple(rng.permutation(classes)[: len(mine)].tolist()) for mine in hulls)
    return HullCase(public, hulls, tuple(rng.permutation(clients).tolist()), slots)


def _client(
    rng: np.random.Generator, centres: NDArray[np.float64], public: PublicParameters
) -> tuple[Words, ...]:
    if rng.random() < 0.1:
        return ()
    here = centres[rng.random(len(centres)) < 0.9]
    return tuple(_hull(rng, centre, public) for centre in here)


def _hull(rng: np.random.Generator, centre: NDArray[np.float64], public: PublicParameters) -> Words:
    quantizer, kind = public.quantizer, rng.random()
    if kind < 0.1:  # anywhere, as many as are allowed
        bins = rng.integers(1, quantizer.num_bins + 1, public.cap, dtype=np.uint64)
        return np.unique(bins)
    size = 0 if kind < 0.15 else 1 if kind < 0.25 else int(rng.integers(2, 200))
    points = centre + _in_disc(rng, size, 0.15)
    corners = points[convex_hull(points, public.curvature)] if size else points
    return rng.permutation(np.unique(quantizer.encode(corners)))[: public.cap]


def _in_disc(rng: np.random.Generator, num: int, radius: float) -> NDArray[np.float64]:
    """Points (num, 2) within a Euclidean radius."""
    angles, lengths = 2 * np.pi * rng.random(num), radius * np.sqrt(rng.random(num))
    return np.stack([lengths * np.cos(angles), lengths * np.sin(angles)], axis=1)
