"""The shape of a hierarchy: which of its links are direct, and how many entities have several
direct parents. Links may name direct parents alone, or all ancestors."""

from collections.abc import Iterator
from dataclasses import dataclass

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from curvfed.extensions.links.raw import RawLinks

SAMPLED = 1000
"""Maximum number of entities in the count of ancestors: in a chain each has thousands."""


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
    graph = nx.DiGraph()
    graph.add_edges_from(pairs.tolist())
    # Each cycle is one node, without which a parent would be its own ancestor.
    groups = nx.condensation(graph)
    sizes = [len(members) for _, members in groups.nodes(data="members")]
    direct = nx.transitive_reduction(groups)
    sample = range(0, len(groups), -(-len(groups) // SAMPLED))
    above = [len(nx.descendants(groups, node)) for node in sample]
    return Hierarchy(
        relation=relation,
        entities=len(graph),
        links=len(pairs),
        direct=direct.number_of_edges(),
        several_parents=float(np.mean([degree > 1 for _, degree in direct.out_degree()])),
        ancestors=float(np.mean(above)),
        in_cycles=sum(size for size in sizes if size > 1),
    )
