"""The curves: what grows, from where to where, how its cost should grow, and what is known to bend it."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.growth import work

CLIENTS = (10, 20, 50, 100, 200, 500, 1_000)
PARAMETERS = (*(step * 10**power for power in range(4, 8) for step in (1, 3)), 10**8)
GRAPH = (*(step * 10**power for power in range(3, 6) for step in (1, 3)), 10**6)
BINS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)

GROWS = {
    "clients": "More clients",
    "parameters": "More parameters",
    "nodes": "More nodes",
    "edges": "More edges",
    "points": "More points",
    "bins": "More occupied bins",
}
"""What grows, and the title of its part of the page."""


@dataclass(frozen=True)
class Curve:
    """What is measured at several sizes.

    Attributes
    ----------
    name : str
        What grows, a dot, and a word that no other curve of it has.
    what : str
        For figure and page.
    sizes : tuple of int
        Ascending.
    make : callable
        From a size what is timed; data and all else that is not to be timed are made by then.
    expected : float
        Exponent of the time at large sizes.
    why : str
        Where that comes from.
    bends : str
        What makes the curve steeper at some sizes, where that is known.
    """

    name: str
    what: str
    sizes: tuple[int, ...]
    make: Callable[[int], work.Call]
    expected: float
    why: str
    bends: str = ""

    @property
    def grows(self) -> str:
        """What grows."""
        return self.name.partition(".")[0]


_CACHE = "what is read in one go no longer fits the processor's caches"
_RICCI = "A·A at the edges looks at the neighbours of both ends: Σ dᵢ² over the nodes' degrees d"

CURVES = (
    Curve(
        "clients.average", "average of the clients' models", CLIENTS, work.average, 1,
        f"one pass over the models of {work.MODEL:,} parameters; memory is one model in float64", _CACHE,
    ),
    Curve(
        "clients.consistent", "consistent aggregation", CLIENTS, work.consistent, 2,
        f"inner products of all pairs of models of {work.MODEL:,} parameters; memory is a block of 8 MB and K × K matrices",
        "the search for the weights factorises matrices of up to K × K, K³",
    ),
    Curve(
        "clients.secure-sum", f"server's side of a secure sum of {work.MASKED:,} entries", CLIENTS, work.secure_sum, 2,
        "up to 64 clients all share secrets with all; of more each has neighbours whose number grows as the logarithm, and "
        "two of the server's steps look at all pairs; a tenth of the clients vanishes",
        "beyond 64 clients no two secrets are shared among the same clients: Lagrange's weights are computed for each",
    ),
    Curve(
        "clients.meeting", "the clients' meeting, in-process, on trees", CLIENTS, work.meeting, 1,
        "each client makes its data and tells of them", "the label distributions of all pairs of clients are compared",
    ),
    Curve(
        "clients.round", "a whole round, in-process, on trees", CLIENTS, work.whole_round, 1,
        "all clients train one after the other; all replies are held until they are averaged",
        "a process that takes more than 2 GiB keeps 64 clients set up; of more each makes its data and model anew",
    ),
    Curve(
        "parameters.message", "a model encoded and decoded", PARAMETERS, work.message, 1,
        "one copy; memory is that copy", _CACHE,
    ),
    Curve(
        "parameters.average", f"average of {work.MODELS} models", PARAMETERS, work.average_of_few, 1,
        f"one pass in float64; memory is the result, array by array, of {work.PIECES}", _CACHE,
    ),
    Curve(
        "parameters.gram", f"inner products of the deviations of {work.MODELS} models", PARAMETERS, work.gram_of_few, 1,
        "one pass in blocks; memory is one block, whatever the size", _CACHE,
    ),
    Curve(
        "nodes.ricci", "Forman–Ricci curvature", GRAPH, work.ricci_by_nodes, 1,
        f"{_RICCI}, here {work.MEAN_DEGREE} on average; the edges are sorted to be checked", _CACHE,
    ),
    Curve(
        "nodes.step", "a training step of the Lorentz GCN", GRAPH, work.step_by_nodes, 1,
        f"products of N × {work.FEATURES} and N × 128 numbers, and a sum over every node's neighbours; memory is the "
        "activations that the backward pass needs", _CACHE,
    ),
    Curve(
        "nodes.partition", f"partition into {work.PARTS} parts", GRAPH, work.parts_by_nodes, 1,
        "METIS halves the graph until it is small; before that the edges are sorted", _CACHE,
    ),
    Curve(
        "edges.ricci", "Forman–Ricci curvature", GRAPH, work.ricci_by_edges, 2,
        f"{_RICCI}, which grow with the edges of {work.NODES:,} nodes. Memory is what A·A has in blocks of rows",
    ),
    Curve(
        "edges.step", "a training step of the Lorentz GCN", GRAPH, work.step_by_edges, 1,
        f"the {work.NODES:,} nodes' own work stays, and is all there is while edges are few", _CACHE,
    ),
    Curve(
        "edges.partition", f"partition into {work.PARTS} parts", GRAPH, work.parts_by_edges, 1,
        f"as with the nodes, of which there are {work.NODES:,}", _CACHE,
    ),
    Curve(
        "points.hull", "convex hull", GRAPH, work.hull, 1,
        "all points are compared with the hull of a sixteenth of them; few are left to be sorted, n log n", _CACHE,
    ),
    Curve(
        "points.quantise", "quantiser, points to bins", GRAPH, work.quantise, 1,
        "an artanh and an angle for each point", _CACHE,
    ),
    Curve(
        "points.client", "a client's work for hull, before masks", GRAPH, work.hull_client, 1,
        "two hulls; the symbols of their corners take the same time whatever the points, and are all there is while these "
        "are few", _CACHE,
    ),
    Curve(
        "bins.decode", "decoding of the hulls' symbols", BINS, work.decode_bins, 1.25,
        "n log² n: the shortest recurrence by half-GCDs, its roots by products of polynomials, and values by evaluation at "
        "many points; 1.25 is its slope at the largest size",
    ),
)  # fmt: skip
"""Every curve once."""


def chosen(names: tuple[str, ...] | list[str]) -> list[Curve]:
    """The curves of these names; what grows stands for all curves of it."""
    return [curve for curve in CURVES if curve.name in names or curve.grows in names]


def up_to(sizes: tuple[int, ...], fraction: float) -> tuple[int, ...]:
    """The sizes up to this share of the largest, at least three, or all where there are fewer."""
    return tuple(size for place, size in enumerate(sizes) if place < 3 or size <= fraction * sizes[-1])
