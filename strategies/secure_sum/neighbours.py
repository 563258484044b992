"""Which clients share masks: all pairs, or the edges of a sparse random graph (Bell et al., CCS
2020).

In the sparse graph the clients form a ring in random order, and each is a neighbour of those that
are d places away on either side, for k/2 different random distances d. It shares its secrets among
itself and its k neighbours; k/2 + 1 shares recover a secret. That is more than half, so that two
disjoint groups cannot both recover one.

Order and distances come from a public seed, of the members' own fresh keys. Nobody chooses it, but
a member can draw the graph anew by offering other keys: 2⁶⁰ such tries are part of the bound in
`degree`. A graph whose distances were the nearest ones could be cut into arcs by two runs of k/2
clients. One with random distances expands: if λ is the largest eigenvalue of its adjacency matrix
but k, then two sets of αL and βL clients without an edge between them have αβ/((1 − α)(1 − β)) ≤
(λ/k)² (Haemers 1995), and λ/k is about .2 here, .32 at most in 200 draws.
"""

import math
from bisect import bisect_left
from collections.abc import Collection, Mapping
from functools import lru_cache
from hashlib import sha256

COMPLETE = 64
"""Maximum number of clients that are all neighbours."""

FAILURE = 10_000
"""At most one sum in this number fails for lack of shares, if the threshold is just met."""

COLLUDING = 10
"""One client in this number may collude with the server."""

REDRAWN = 2**100
"""At most one graph in this number lets colluding members recover secrets by themselves: 2⁶⁰ tries
leave 2⁻⁴⁰."""


@lru_cache(maxsize=64)
def degree(clients: int, threshold: int) -> int:
    """The number k of neighbours of each client.

    It is L − 1 for up to 64 clients. For more it is even, and 10 to 30 times ln L for a threshold
    of 2L/3.

    Suppose that L − t of L clients are lost, chosen at random. Then one client's secret cannot be
    recovered with probability P[H ≤ k/2], where H is hypergeometric: k draws from L − 1 clients, t
    of which are left. k is the smallest number for which L times this probability, a bound for all
    clients together, is at most 10⁻⁴, and for which `collusion` of a tenth of the clients is at
    most 2⁻¹⁰⁰. If there is none, all clients are neighbours. The sums are exact, in integers, so
    that all parties compute the same k.

    With t = 2L/3, k is 60 for L = 100 and 188 for L = 1000; `collusion` is then 0 and 2⁻²²⁹.

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
        misses = clients * _ways(clients - 1, threshold, 2 * half, half)
        ways, draws = collusion(clients, clients // COLLUDING, 2 * half)
        return misses * FAILURE <= draws and ways * REDRAWN <= draws

    half_degrees = range(1, (clients - 1) // 2 + 1)
    index = bisect_left(half_degrees, True, key=suffices)
    return 2 * half_degrees[index] if index < len(half_degrees) else clients - 1


@lru_cache(maxsize=8)
def neighbours_of(
    clients: tuple[int, ...], degree: int, seed: bytes
) -> Mapping[int, tuple[int, ...]]:
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
    graph: dict[int, tuple[int, ...]] = {}
    if len(clients) <= degree + 1:
        everyone = sorted(clients)
        for client in everyone:
            graph[client] = tuple(peer for peer in everyone if peer != client)
        return graph
    ring = sorted(clients, key=lambda client: sha256(seed + client.to_bytes(8)).digest())
    distances = _distances(len(ring), degree // 2, seed)
    steps = [*distances, *(-distance for distance in distances)]
    for place, client in enumerate(ring):
        graph[client] = tuple(sorted(ring[(place + step) % len(ring)] for step in steps))
    return graph


def _distances(size: int, number: int, seed: bytes) -> list[int]:
    """Different distances below half the ring, drawn at random until they connect the whole
    ring."""

    candidates = range(1, (size + 1) // 2)
    attempt = 0
    while True:
        stem = seed + attempt.to_bytes(4)
        ranks = {distance: sha256(stem + distance.to_bytes(4)).digest() for distance in candidates}
        distances = sorted(candidates, key=ranks.__getitem__)[:number]
        if math.gcd(size, *distances) == 1:
            return distances
        attempt += 1


def is_connected(graph: Mapping[int, Collection[int]], clients: Collection[int]) -> bool:
    """Whether edges between these clients, one or more, connect all of them."""
    unreached = set(clients)
    frontier = [unreached.pop()]
    while frontier and unreached:
        reached = unreached.intersection(graph[frontier.pop()])
        unreached -= reached
        frontier += reached
    return not unreached


def collusion(clients: int, colluding: int, neighbours: int) -> tuple[int, int]:
    """A bound on the probability that colluding members can recover another member's secrets, as a
    ratio of integers.

    They recover those of one client if more than k/2 of its k neighbours collude: P[H > k/2] with H
    hypergeometric, k draws from L − 1 clients, c of which collude. The bound is L times this.
    """
    ways = _ways(clients - 1, clients - 1 - colluding, neighbours, neighbours // 2 - 1)
    return clients * ways, math.comb(clients - 1, neighbours)


def _ways(total: int, marked: int, drawn: int, maximum: int) -> int:
    """The number of ways to draw from `total` clients with at most `maximum` marked clients among
    those drawn."""
    return sum(
        math.comb(marked, hits) * math.comb(total - marked, drawn - hits)
        for hits in range(maximum + 1)
        if drawn - hits <= total - marked
    )
