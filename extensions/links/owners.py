"""The client of each link: by the branches of a taxonomy, by relation, by communities, or in random
order."""

from collections import defaultdict

import numpy as np
from scipy.sparse import coo_array, csgraph

from curvfed.extensions.links.raw import RawLinks
from curvfed.extensions.links.split import Integers
from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.partition import clean_edges, louvain_parts


def owners_of(
    raw: RawLinks, partition: str, num_clients: int, rng: np.random.Generator
) -> Integers:
    """The client of each link.

    Parameters
    ----------
    raw : RawLinks
    partition : str
        "relations" or "louvain"; "branches", else random: equal parts of the links in that order.
    num_clients : int
    rng : numpy.random.Generator

    Raises
    ------
    DataError
        If there are fewer relations than clients, with "relations".
    """
    if partition in PARTITIONS:
        return PARTITIONS[partition](raw, num_clients, rng)
    triples = raw.triples
    order = rng.permutation(len(triples))
    if partition == "branches":
        order = order[np.argsort(branch_order(triples, rng)[triples[order, 0]], kind="stable")]
    owners = np.empty(len(triples), np.int64)
    for client, links in enumerate(np.array_split(order, num_clients)):
        owners[links] = client
    return owners


def relation_owners(raw: RawLinks, num_clients: int, rng: np.random.Generator) -> Integers:
    """The client of each link, where all links of a relation have one: in random order, each
    relation goes to the client with the fewest links so far.

    Raises
    ------
    DataError
        If there are fewer relations than clients.

    Examples
    --------
    >>> triples = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 0]])
    >>> raw = RawLinks(triples, ("a", "b"), ("r", "s"))
    >>> relation_owners(raw, 2, np.random.default_rng(0)).tolist()
    [0, 1, 0]
    """
    if len(raw.relations) < num_clients:
        raise DataError(
            f"partition = relations, and the links have {len(raw.relations)} relations for"
            f" {num_clients} clients; allowed are at most as many clients as relations",
            key="partition",
        )
    sizes = np.bincount(raw.triples[:, 1], minlength=len(raw.relations))
    loads = np.zeros(num_clients, np.int64)
    owners = np.empty(len(sizes), np.int64)
    for relation in rng.permutation(len(sizes)):
        owners[relation] = loads.argmin()
        loads[owners[relation]] += sizes[relation]
    return owners[raw.triples[:, 1]]


def community_owners(raw: RawLinks, num_clients: int, rng: np.random.Generator) -> Integers:
    """The client of each link, that of its head in Louvain's communities of the entities."""
    edges = clean_edges(raw.triples[:, ::2].T, len(raw.entities))
    seed = int(rng.integers(2**31))
    return louvain_parts(edges, len(raw.entities), num_clients, seed)[raw.triples[:, 0]]


PARTITIONS = {"relations": relation_owners, "louvain": community_owners}
"""The partitions that do not follow an order of the links."""


def branch_order(triples: Integers, rng: np.random.Generator) -> Integers:
    """The position of each entity in a walk through the branches of a taxonomy, in random order.

    The parent of an entity is the tail of its links that is the tail of the fewest links; with
    links to all ancestors that is the nearest one.

    Examples
    --------
    >>> below = np.array([[1, 0, 0], [2, 0, 0], [3, 0, 1], [4, 0, 2], [3, 0, 0], [4, 0, 0]])
    >>> branch_order(below, np.random.default_rng(0)).tolist()
    [0, 3, 1, 4, 2]
    """
    heads, _, tails = triples.T
    number = int(triples[:, ::2].max()) + 1
    rank = rng.permutation(number)
    sizes = np.bincount(tails)
    order = np.lexsort((rank[tails], sizes[tails], heads))
    below, first = np.unique(heads[order], return_index=True)
    parents = np.full(number, number)  # the top, above all
    parents[below] = tails[order[first]]
    shape = (number + 1, number + 1)
    graph = coo_array((np.ones(number), (parents, np.arange(number))), shape=shape)
    _, component = csgraph.connected_components(graph, connection="strong")
    in_cycles = (np.bincount(component) > 1)[component[:number]]
    # The walk enters a cycle at each of its entities, in the order of those below them.
    sources = np.where(in_cycles, number, parents)
    targets = np.where(in_cycles, parents, np.arange(number))
    children = defaultdict(list)
    for edge in np.argsort(-rank):
        children[sources[edge]].append(targets[edge])
    ahead = [number]
    walk = []
    while ahead:
        walk.append(ahead.pop())
        ahead += children[walk[-1]]
    return np.argsort(walk[1:])
