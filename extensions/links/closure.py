"""The transitive closure of links: from each entity to all that are above it, for a file that names
direct parents alone."""

from collections.abc import Iterator
from dataclasses import replace

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from curvfed.extensions.links.raw import RawLinks
from curvfed.tasks.amounts import amount
from curvfed.tasks.errors import DataError

MOST_LINKS = 20_000_000
"""Maximum number of links of a closure: a chain of n entities has n²/2."""

SHOWN = 6
"""The most entities of a cycle that an error names."""

Integers = NDArray[np.int64]


def closed(where: str, raw: RawLinks) -> RawLinks:
    """Add, relation by relation, the links that paths over other links imply.

    The links of the file keep their places and parts; the others follow. In a file with its own
    split a link is in the first part that implies it together with the parts before, so no training
    link follows from a test link.

    Parameters
    ----------
    where : str
        The name of the data in error texts.
    raw : RawLinks

    Raises
    ------
    DataError
        If links are in a cycle, which it names, or the closure is too large.

    Examples
    --------
    >>> from curvfed.extensions.links.raw import raw_links
    >>> raw = closed("the file", raw_links("the file", [("cat", "mammal"), ("mammal", "animal")]))
    >>> [(raw.entities[head], raw.entities[tail]) for head, _, tail in raw.triples]
    [('cat', 'mammal'), ('mammal', 'animal'), ('cat', 'animal')]
    """
    parts = np.zeros(len(raw.triples), np.int64) if raw.parts is None else raw.parts
    links = dict(zip(map(tuple, raw.triples.tolist()), parts.tolist(), strict=True))
    for part in np.unique(parts).tolist():
        for relation in range(len(raw.relations)):
            is_known = (parts <= part) & (raw.triples[:, 1] == relation)
            for head, tail in _implied(where, raw, raw.triples[is_known]):
                links.setdefault((head, relation, tail), part)
    number = len(links) - len(parts)
    added = amount(f"{number:,}", "link")
    text = f"links.closure adds {added} to further ancestors to {amount(f'{len(parts):,}', 'link')}"
    return replace(
        raw,
        triples=np.array([*links], np.int64),
        parts=None if raw.parts is None else np.array([*links.values()], np.int64),
        history=(*raw.history, text),
    )


def _implied(where: str, raw: RawLinks, triples: Integers) -> Iterator[tuple[int, int]]:
    """Each entity with each one above it, by the links of one relation, in the order of their
    numbers."""
    graph = nx.DiGraph()
    graph.add_edges_from(triples[:, [0, 2]].tolist())
    try:
        order = list(nx.topological_sort(graph))
    except nx.NetworkXUnfeasible:
        raise _cycle(where, raw, triples, graph) from None
    above: dict[int, set[int]] = {}
    number = 0
    for entity in reversed(order):
        parents = set(graph.successors(entity))
        above[entity] = parents.union(*(above[parent] for parent in parents))
        number += len(above[entity])
        if number > MOST_LINKS:
            raise DataError(
                f"{where}: links.closure = true makes more than {MOST_LINKS:,} links; allowed are"
                " fewer, or false",
                key="large-closure",
            )
    for entity in sorted(above):
        for ancestor in sorted(above[entity]):
            yield entity, ancestor


def _cycle(where: str, raw: RawLinks, triples: Integers, graph: "nx.DiGraph[int]") -> DataError:
    """The error for links of one relation that have a cycle."""
    heads = [raw.entities[head] for head, _ in nx.find_cycle(graph)]
    shown = [*heads[:SHOWN], *["…"] * (len(heads) > SHOWN), heads[0]]
    cycle = " → ".join(shown)
    relation = raw.relations[int(triples[0, 1])]
    kind = f' of the relation "{relation}"' if relation else ""
    return DataError(
        f"{where}: links.closure = true, and {len(heads)} links{kind} are a cycle, {cycle}; allowed"
        " are links from each entity to those above it, without a cycle, or false",
        cycle,
        key="cycle",
    )
