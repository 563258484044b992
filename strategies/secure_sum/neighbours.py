"""Which clients share masks: all pairs, or the edges of a sparse random graph (Bell et al., CCS 2020).

In the sparse graph the clients form a ring in random order. Each client is a neighbour of the next k/2 on either side.
It shares its secrets among itself and its k neighbours; k/2 + 1 shares recover a secret. That is more than half, so that
two disjoint groups cannot both recover one. The order comes from a public seed. It is random if clients and server
follow the protocol; a server that chooses the session's name freely can choose among orders.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256

COMPLETE = 64
"""Up to this number of clients, all are neighbours."""

FAILURE = 10_000
"""At most one sum in this number fails for lack of shares, if as many clients are lost as the threshold allows."""


@lru_cache(maxsize=64)
def degree(clients: int, threshold: int) -> int:
    """The number k of neighbours of each client.

    It is L − 1 for up to 64 clients. For more it is even, and 10 to 30 times ln L for a threshold of 2L/3.

    Suppose that L − t of L clients are lost, chosen at random. Then one client's secret cannot be recovered with
    probability P[H ≤ k/2], where H is hypergeometric: k draws from L − 1 clients, t of which are left. k is the smallest
    number for which L times this probability, a bound for all clients together, is at most 10⁻⁴. If there is none, all
    clients are neighbours. The sums are exact, in integers, so that all parties compute the same k.

    For t = 2L/3 the same bound holds for collusion: it is the probability that L/3 clients who collude with the server
    hold enough shares of any other client. The graph of the remaining clients is disconnected only if two runs of k/2
    clients on the ring are lost; if L/3 are lost, the probability is at most L²/2·3⁻ᵏ.

    With t = 2L/3, k is 60 for L = 100 and 188 for L = 1000. If a tenth is lost instead of a third, the bound is 0 for
    L = 100 and 10⁻⁶⁷ for L = 1000.

    Parameters
    ----------
    clients : int
        L.
    threshold : int
        t, above L/2.
    """
    if clients <= COMPLETE:
        return clients - 1

    def suffices(half: int) -> bool:
        misses, draws = _misses(clients, clients - threshold, 2 * half)
        return clients * misses * FAILURE <= draws

    halves = range(1, (clients - 1) // 2 + 1)
    found = bisect_left(halves, True, key=suffices)
    return 2 * halves[found] if found < len(halves) else clients - 1


@lru_cache(maxsize=8)
def neighbours_of(clients: tuple[int, ...], degree: int, seed: bytes) -> Mapping[int, tuple[int, ...]]:
    """The neighbours of each client, ascending.

    Parameters
    ----------
    clients : tuple of int
        All are neighbours if there are at most degree + 1.
    degree : int
        Even, unless all clients are neighbours.
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
    """The number of ways to draw k of L − 1 clients of which at most k/2 are left, and the number of all ways."""
    others, there = clients - 1, clients - lost
    enough = neighbours // 2 + 1
    misses = sum(
        math.comb(there, hits) * math.comb(others - there, neighbours - hits)
        for hits in range(enough)
        if neighbours - hits <= others - there
    )
    return misses, math.comb(others, neighbours)
