"""Partition one graph among clients: cleaning, connected components, METIS, Louvain's
communities, random splits."""

import hashlib
import heapq
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from curvfed.geometry.arrays import Booleans, Integers

Floats = NDArray[np.float32]


def clean_edges(edge_index: Integers, num_nodes: int) -> Integers:
    """Each edge once in both directions, without self-loops, sorted lexicographically: (2, E)."""
    source, target = edge_index[:, edge_index[0] != edge_index[1]]
    keys = np.sort(np.concatenate([source * num_nodes + target, target * num_nodes + source]))
    # np.unique is a hundred times slower for tens of millions of keys.
    keys = keys[np.diff(keys, prepend=-1) > 0]
    return np.stack(np.divmod(keys, num_nodes))


def mean_weights(edge_index: Integers, weights: Floats, edges: Integers, num_nodes: int) -> Floats:
    """The weights of `edges`, (E,) float32: the mean over all occurrences of an edge, in either
    direction.

    Parameters
    ----------
    edge_index : (2, R), with `weights` (R,)
    edges : (2, E), clean (see `clean_edges`), all of them in `edge_index`
    """
    low, high = np.sort(edge_index, axis=0)
    keys, place = np.unique(low * num_nodes + high, return_inverse=True)
    means = np.bincount(place, weights, len(keys)) / np.bincount(place, minlength=len(keys))
    low, high = np.sort(edges, axis=0)
    places = np.searchsorted(keys, low * num_nodes + high)
    return np.asarray(means[places].astype(np.float32))


def components(edge_index: Integers, num_nodes: int) -> Integers:
    """The connected component of each node, (num_nodes,), numbered from 0 by smallest node."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    adjacency = coo_array(
        (np.ones(edge_index.shape[1], dtype=np.int8), tuple(edge_index)),
        shape=(num_nodes, num_nodes),
    )
    return connected_components(adjacency, directed=False)[1]


def largest(component: Integers) -> Integers:
    """The nodes, ascending, of the largest component; the smallest node breaks ties."""
    sizes = np.bincount(component)
    largest_component = component[np.argmax(sizes[component])]
    return np.flatnonzero(component == largest_component)


def induced(edge_index: Integers, nodes: Integers, num_nodes: int) -> Integers:
    """The edges between `nodes` (ascending), in their order, with nodes renumbered from 0."""
    # A large graph is not copied.
    if len(nodes) == num_nodes:
        return edge_index
    position = np.full(num_nodes, -1)
    position[nodes] = np.arange(len(nodes))
    source, target = position[edge_index]
    inside = (source >= 0) & (target >= 0)
    return np.stack([source[inside], target[inside]])


def metis_parts(edge_index: Integers, num_nodes: int, num_parts: int, seed: int) -> Integers:
    """Parts of about equal size with few edges between them; no part is empty.

    METIS cuts a connected graph. In any other graph each component is cut into pieces of at most
    the size of a part; then each piece, the largest first, goes to the smallest part so far.

    Parameters
    ----------
    edge_index : (2, E), clean (see `clean_edges`)
        The order of the edges decides which partition METIS finds.
    num_parts : int, in 1..num_nodes

    Returns
    -------
    (num_nodes,) of 0..num_parts-1; the same for the same arguments.
    """
    piece = components(edge_index, num_nodes)
    return _parts_of_pieces(piece, edge_index, num_parts, seed)


def louvain_parts(edge_index: Integers, num_nodes: int, num_parts: int, seed: int) -> Integers:
    """Parts of about equal size that are made of communities (Blondel et al., 2008), as in OpenFGL;
    arguments as in `metis_parts`.

    A community that is larger than a part is cut by METIS; OpenFGL cuts it by the numbers of its
    nodes. Then each piece, the largest first, goes to the smallest part so far. networkx takes
    seconds for 20,000 edges.
    """
    import networkx

    graph = networkx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from(edge_index.T.tolist())
    piece = np.empty(num_nodes, dtype=np.int64)
    for number, nodes in enumerate(networkx.community.louvain_communities(graph, seed=seed)):
        piece[list(nodes)] = number
    return _parts_of_pieces(piece, edge_index, num_parts, seed)


def _parts_of_pieces(piece: Integers, edge_index: Integers, num_parts: int, seed: int) -> Integers:
    """The part of each node, where nodes of one piece stay together unless it is too large; `piece`
    is changed."""
    num_nodes = len(piece)
    shares = -(-np.bincount(piece) * num_parts // num_nodes)
    if len(shares) == 1:
        return _cut(edge_index, num_nodes, num_parts, seed)
    for component in np.flatnonzero(shares > 1):
        nodes = np.flatnonzero(piece == component)
        cut = _cut(induced(edge_index, nodes, num_nodes), len(nodes), int(shares[component]), seed)
        piece[nodes] = np.where(cut, piece.max() + cut, component)
    sizes = np.bincount(piece)
    parts = np.empty_like(sizes)
    filled = [(0, index) for index in range(num_parts)]
    for number in np.argsort(-sizes, kind="stable"):
        size, parts[number] = filled[0]
        heapq.heapreplace(filled, (size + int(sizes[number]), int(parts[number])))
    return parts[piece]


def _cut(edge_index: Integers, num_nodes: int, num_parts: int, seed: int) -> Integers:
    """The METIS k-way partition of a connected graph; arguments as in `metis_parts`."""
    import pymetis

    if num_parts == 1:
        return np.zeros(num_nodes, dtype=np.int64)
    degrees = np.bincount(edge_index[0], minlength=num_nodes)
    starts = np.concatenate([[0], np.cumsum(degrees)])
    graph = pymetis.CSRAdjacency(
        adj_starts=starts.astype(np.int32), adjacent=edge_index[1].astype(np.int32)
    )
    # METIS passes its 31-bit seed to srand, which treats 0 and 1 as the same seed.
    options = pymetis.Options(seed=1 + seed % (2**31 - 1))
    cut = pymetis.part_graph(num_parts, adjacency=graph, recursive=False, options=options)
    return fill_empty(np.asarray(cut.vertex_part, dtype=np.int64), num_parts)


def random_parts(edge_index: Integers, num_nodes: int, num_parts: int, seed: int) -> Integers:
    """Random parts, with sizes that differ by at most one; arguments as in `metis_parts`."""
    parts = np.empty(num_nodes, dtype=np.int64)
    parts[np.random.default_rng(seed).permutation(num_nodes)] = np.arange(num_nodes) % num_parts
    return parts


PARTITIONS: dict[str, Callable[[Integers, int, int, int], Integers]] = {
    "metis": metis_parts,
    "louvain": louvain_parts,
    "random": random_parts,
}


def fill_empty(parts: Integers, num_parts: int) -> Integers:
    """Give each empty part the last node of the part that is largest at that time.

    METIS leaves parts empty if there are nearly as many parts as nodes. Needs len(parts) >=
    num_parts.
    """
    parts = parts.copy()
    for empty in np.flatnonzero(np.bincount(parts, minlength=num_parts) == 0):
        largest = np.bincount(parts, minlength=num_parts).argmax()
        parts[np.flatnonzero(parts == largest)[-1]] = empty
    return parts


def random_split(
    num_nodes: int, train_size: float, test_size: float, rng: np.random.Generator
) -> Booleans:
    """Train, validation and test masks, (3, num_nodes), disjoint, covering all nodes; validation
    takes the remainder."""
    num_train = round(train_size * num_nodes)
    num_test = min(round(test_size * num_nodes), num_nodes - num_train)
    role = np.ones(num_nodes, dtype=np.int64)
    role[:num_train] = 0
    role[num_nodes - num_test :] = 2
    return masks_of(rng.permutation(role))


def masks_of(roles: Integers) -> Booleans:
    """Masks (3, n) of the roles 0, 1 and 2."""
    return np.arange(3)[:, None] == roles


def membership_digest(parts: Integers) -> str:
    """SHA-256 of the parts of all nodes."""
    return hashlib.sha256(np.ascontiguousarray(parts, dtype="<i8").tobytes()).hexdigest()
