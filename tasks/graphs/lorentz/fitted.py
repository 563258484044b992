"""The constant curvature that fits a client's graph best."""

from pathlib import Path

from curvfed.tasks.errors import DataError
from curvfed.tasks.graphs.data.client_graph import ClientGraph
from curvfed.tasks.graphs.lorentz.ricci import cached_number

DIMENSIONS = 5
"""Of the space that is fitted."""

NODES = 300
"""Maximum number of nodes of the graph's largest component whose distances are fitted."""


def fitted_curvature(graph: ClientGraph, cache_dir: Path | None = None) -> float:
    """The curvature, at most 0, at which the distances of a graph's nodes are distorted least; 0
    too if a sphere fits best, or if there are too few connected nodes.

    Parameters
    ----------
    graph : ClientGraph
    cache_dir : Path, optional
        Folder that stores it by the digest of the data: a fit takes seconds, and a real node starts
        a process per message.

    Raises
    ------
    DataError
        If the data are a set of graphs.
    """
    if graph.graph_of_node is not None:
        raise DataError(
            'flatland.curvature-init = "fit": the data are graphs; allowed are nodes of one graph',
            key="not-a-graph",
        )
    name = f"fit-{DIMENSIONS}-{NODES}-{graph.digest}.json"
    path = None if cache_dir is None else cache_dir / name
    return cached_number(path, lambda: _fitted(graph))


def _fitted(graph: ClientGraph) -> float:
    from curvfed.geometry.distortion import fit
    from curvfed.tasks.graphs.distances import sampled_distances

    distances, _ = sampled_distances(graph, NODES)
    if len(distances) <= DIMENSIONS:
        return 0.0
    return min(fit(distances, DIMENSIONS).curvature, 0.0)
