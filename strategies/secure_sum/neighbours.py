"""Who shares masks with whom: everyone with everyone, or a sparse random graph (Bell et al., CCS 2020).

In the sparse graph the clients stand round a ring in random order, and each is a neighbour of the k/2 next on either
side. Its secrets are shared among itself and its k neighbours, k/2 + 1 of which suffice: more than half, so that no two
disjoint groups can both recover one. The order comes from a public seed: it is random to clients and to a server that
follow the protocol, but a server that chooses the session's name at will can choose among orders.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256

COMPLETE = 64
"""Up to so many clients all are neighbours."""

FAILURE = 10_000
"""One sum in so many may fail for want of shares when as many clients are lost as the threshold allows."""


@lru_cache(maxsize=64)
def degree(clients: int, threshold: int) -> int:
    """The number k of neighbours: L − 1 up to 64 clients, else even, and 10 to 30·ln L for a threshold of 2L/3.

    Of L clients L − t, chosen at random, are lost. One client's secret cannot be recovered with probability
    P[H ≤ k/2], H hypergeometric: k draws of L − 1, of which t are there. k is the least for which L times that, a bound
    for all clients together, is at most 10⁻⁴; all are neighbours where there is none. By exact sums of integers, so that
    all parties find the same.

    For t = 2L/3 the same bound holds with the lost and the others exchanged: the probability that L/3 clients who
    collude with the server hold enough shares of any other. The graph of those who are left falls apart only if two
    runs of k/2 clients on the ring are gone, with probability at most L²/2·3⁻ᵏ if L/3 are.

    With t = 2L/3, k is 60 for L = 100 and 188 for L = 1000. Where a tenth is lost instead of a third, the bound is 0 for
    the one and 10⁻⁶⁷ for the other.

    Parameters
    ----------
    clients : int
        L.
    threshold : int
        t, above L/2.
    """
    if clients <= COMPLETE:
        return clients - 1
    low, high = 0, (clients - 1) // 2  # halves of k; that of `high` suffices or is the complete graph
    while high - low > 1:
        middle = (low + high) // 2
        misses, draws = _misses(clients, clients - threshold, 2 * middle)
        if clients * misses * FAILURE <= draws:
            high = middle
        else:
            low = middle
    misses, draws = _misses(clients, clients - threshold, 2 * high)
    return 2 * high if clients * misses * FAILURE <= draws else clients - 1


@lru_cache(maxsize=8)
def neighbours_of(clients: tuple[int, ...], degree: int, seed: bytes) -> Mapping[int, tuple[int, ...]]:
    """The neighbours of each client, ascending.

    Parameters
    ----------
    clients : tuple of int
        Those of the graph; all are neighbours where there are at most degree + 1.
    degree : int
        Even, unless all are neighbours.
    seed : bytes
        Public.
    """
    if len(clients) <= degree + 1:
        everyone = sorted(clients)
        return {client: tuple(other for other in everyone if other != client) for client in everyone}
    ring = sorted(clients, key=lambda client: sha256(seed + client.to_bytes(8)).digest())
    reach = [step for step in range(-(degree // 2), degree // 2 + 1) if step]
    return {
        client: tuple(sorted(ring[(place + step) % len(ring)] for step in reach)) for place, client in enumerate(ring)
    }


def _misses(clients: int, lost: int, neighbours: int) -> tuple[int, int]:
    """Ways to draw k of L − 1 of which only k/2 or fewer are there, and ways in all."""
    others, there = clients - 1, clients - lost
    enough = neighbours // 2 + 1
    misses = sum(
        math.comb(there, hits) * math.comb(others - there, neighbours - hits)
        for hits in range(enough)
        if neighbours - hits <= others - there
    )
    return misses, math.comb(others, neighbours)
