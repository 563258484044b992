"""The shape of a hierarchy: which of its links are direct, and how many entities have several
direct parents. Links may name direct parents alone, or all ancestors."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from curvfed.tasks.links import RawLinks

SAMPLED = 1000
"""The most entities whose ancestors are counted: in a chain each has thousands."""


@dataclass(frozen=True)
class Hierarchy:
    """The shape of the links of one relation, from each head to its parents or ancestors.

    Attributes
    ----------
    relation : str
    entities : int
        Entities with a link.
    links : int
    direct : int
        Links that no path over other links implies.
    several_parents : float
        Share of the entities that have two direct parents or more.
    ancestors : float
        Mean number of entities above an entity, of `SAMPLED` of them in a larger hierarchy.
    in_cycles : int
        Entities that are above themselves. They count as one entity each cycle in the rest.
    """

    relation: str
    entities: int
    links: int
    direct: int
    several_parents: float
    ancestors: float
    in_cycles: int


def hierarchies(raw: RawLinks) -> Iterator[Hierarchy]:
    """The shape of each relation, in the order of `raw.relations`."""
    for number, relation in enumerate(raw.relations):
        pairs = raw.triples[raw.triples[:, 1] == number][:, [0, 2]]
        yield hierarchy(pairs, relation)


def hierarchy(pairs: NDArray[np.int64], relation: str = "") -> Hierarchy:
    """The shape of links (n, 2) from entities to their parents or ancestors.

    Examples
    --------
    >>> closure = np.array([[1, 0], [2, 0], [3, 1], [3, 2], [3, 0]])
    >>> shape = hierarchy(closure)
    >>> shape.direct, shape.several_parents, shape.ancestors
    (4, 0.25, 1.25)
    """
    entities = np.unique(pairs)
    rows = np.searchsorted(entities, pairs)
    number = len(entities)
    ones = np.ones(len(rows), np.bool_)
    graph = csr_array((ones, (rows[:, 0], rows[:, 1])), shape=(number, number))
    num_nodes, node_of = connected_components(graph, directed=True, connection="strong")
    sizes = np.bincount(node_of, minlength=num_nodes)
    nodes = node_of[rows]
    nodes = np.unique(nodes[nodes[:, 0] != nodes[:, 1]], axis=0)
    parents: list[list[int]] = [[] for _ in range(num_nodes)]
    for head, tail in nodes.tolist():
        parents[head].append(tail)
    sample = range(0, num_nodes, -(-num_nodes // SAMPLED))
    above = [len(_reached(parents, [node])) for node in sample]
    direct = [_direct(parents, node) for node in range(num_nodes)]
    return Hierarchy(
        relation=relation,
        entities=number,
        links=len(pairs),
        direct=sum(direct),
        several_parents=float(np.mean(np.array(direct) > 1)),
        ancestors=float(np.mean(above)),
        in_cycles=int(sizes[sizes > 1].sum()),
    )


def _direct(parents: list[list[int]], node: int) -> int:
    """The number of a node's parents that are above none of its other parents."""
    own = parents[node]
    if len(own) < 2:
        return len(own)
    implied = _reached(parents, own)
    return sum(parent not in implied for parent in own)


def _reached(parents: list[list[int]], starts: Iterable[int]) -> set[int]:
    """All nodes above the starts; a start is among them if it is above another start."""
    reached: set[int] = set()
    waiting = list(starts)
    while waiting:
        fresh = [parent for parent in parents[waiting.pop()] if parent not in reached]
        reached.update(fresh)
        waiting += fresh
    return reached
