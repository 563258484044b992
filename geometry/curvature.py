"""Forman–Ricci curvature of the edges of graphs."""

import numpy as np
import torch
from torch import Tensor

_CANDIDATES = 2**22


def forman_ricci(
    edge_index: Tensor,
    num_nodes: int,
    triangles: bool = True,
    weights: Tensor | None = None,
    vertex_weights: Tensor | None = None,
) -> Tensor:
    """Forman–Ricci curvature of every edge: 4 − dᵢ − dⱼ, plus 3 for every triangle on the edge.

    With weights of edges e and nodes i it is wᵢ(2 − dᵢ) + wⱼ(2 − dⱼ), where dᵢ is √w_e Σ 1/√w_l
    over the edges l at i, e among them (FlatLand, Appendix B.2); triangles count 3 as without.

    Parameters
    ----------
    edge_index : Tensor (2, E), integer
        An undirected simple graph: every edge once in each direction, in any order.
    num_nodes : int
        Nodes are 0 … num_nodes − 1.
    triangles : bool
        True gives the augmented curvature, which FlatLand calls Forman–Ricci curvature; False gives
        Forman's own.
    weights : Tensor (E,), optional
        Of the edges, > 0 and equal in both directions.
    vertex_weights : Tensor (num_nodes,), optional
        Of the nodes, > 0.

    Returns
    -------
    Tensor (E,), default float dtype, on the device of `edge_index`
        One value per column, exact (whole numbers) without weights; the two directions of an edge
        have equal values.

    Raises
    ------
    ValueError
        If the shape or dtype is wrong, a node is out of range, an edge is a self-loop, repeated, or
        lacks its other direction, or a weight is not above 0.

    Notes
    -----
    Samal et al., Comparative analysis of two discretizations of Ricci curvature for complex
    networks (2018). The triangles of an edge are counted in time up to the smaller degree of its
    ends (Cora 2 ms).

    Examples
    --------
    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> forman_ricci(path, num_nodes=3)
    tensor([1., 1., 1., 1.])
    """
    source, target = checked_edges(edge_index, num_nodes)
    degree = np.bincount(source, minlength=num_nodes)
    value = 4 - degree[source] - degree[target]
    if weights is not None or vertex_weights is not None:
        roots = np.sqrt(_positive(weights, source.size))
        vertices = _positive(vertex_weights, num_nodes)
        sums = vertices * np.bincount(source, 1 / roots, minlength=num_nodes)
        twice = 2 * (vertices[source] + vertices[target])
        value = twice - roots * (sums[source] + sums[target])
    if triangles and source.size:
        value = value + 3 * _triangles(source, target, num_nodes)
    return torch.from_numpy(value).to(edge_index.device, torch.get_default_dtype())


def _positive(weights: Tensor | None, number: int) -> np.ndarray:
    """The weights (number,), float64; without weights all are 1."""
    if weights is None:
        return np.ones(number)
    if not (weights > 0).all():
        raise ValueError("weights: allowed are numbers above 0")
    return weights.numpy(force=True).astype(np.float64)


def _triangles(source: np.ndarray, target: np.ndarray, num_nodes: int) -> np.ndarray:
    """Number of common neighbours of the ends of every edge: the neighbours of the end with fewer
    that are neighbours of the other end."""
    keys = np.sort(source * num_nodes + target)
    neighbours = keys % num_nodes
    degree = np.bincount(source, minlength=num_nodes)
    first = np.cumsum(degree) - degree
    is_smaller = degree[source] <= degree[target]
    ends = np.where(is_smaller, source, target)
    others = np.where(is_smaller, target, source)
    counts = np.zeros(source.size, dtype=np.int64)
    # In blocks, so that the candidates of a large graph fit into memory.
    bounds = np.cumsum(degree[ends])
    starts = np.searchsorted(bounds, np.arange(0, bounds[-1], _CANDIDATES), side="right")
    for block in np.split(np.arange(source.size), starts[1:]):
        number = degree[ends[block]]
        edge = np.repeat(np.arange(block.size), number)
        rank = np.arange(edge.size) - np.repeat(np.cumsum(number) - number, number)
        candidates = neighbours[first[ends[block]][edge] + rank]
        wanted = others[block][edge] * num_nodes + candidates
        place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        counts[block] = np.bincount(edge[keys[place] == wanted], minlength=block.size)
    return counts


def checked_edges(edge_index: Tensor, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Source and target of every edge of an undirected simple graph.

    Parameters
    ----------
    edge_index : Tensor (2, E), integer
        Every edge once in each direction, in any order.
    num_nodes : int
        Nodes are 0 … num_nodes − 1.

    Returns
    -------
    tuple of ndarray (E,), int64

    Raises
    ------
    ValueError
        If the shape or dtype is wrong, a node is out of range, or an edge is a self-loop, repeated,
        or lacks its other direction; the edge and its column are named.
    """
    is_pairs = edge_index.ndim == 2 and edge_index.shape[0] == 2
    if not is_pairs or edge_index.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"edge_index: got shape {tuple(edge_index.shape)}, {edge_index.dtype}; must be (2, E),"
            " int64 or int32"
        )
    edges = edge_index.numpy(force=True).astype(np.int64)
    outside = (edges < 0) | (edges >= num_nodes)
    _refuse(edges, outside.any(axis=0), f"is out of range; nodes are 0 … {num_nodes - 1}")
    source = edges[0]
    target = edges[1]
    _refuse(edges, source == target, "is a self-loop; remove it")
    key = source * num_nodes + target
    order = np.argsort(key, kind="stable")
    is_repeated = np.zeros(key.size, dtype=bool)
    is_repeated[order[1:]] = np.diff(key[order]) == 0
    _refuse(edges, is_repeated, "occurs a second time; coalesce the edges")
    reverse = target * num_nodes + source
    if not np.array_equal(np.sort(reverse), key[order]):
        _refuse(edges, ~np.isin(reverse, key), "lacks its other direction; give both")
    return source, target


def _refuse(edges: np.ndarray, wrong: np.ndarray | np.bool_, reason: str) -> None:
    columns = np.flatnonzero(wrong)
    if columns.size:
        source, target = edges[:, columns[0]]
        raise ValueError(
            f"edge_index: the edge {source}–{target} in column {columns[0]} {reason}"
            f" ({columns.size} such columns)"
        )
