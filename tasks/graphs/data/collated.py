"""Graphs side by side, with slices, as PyTorch Geometric's `InMemoryDataset` stores them, and its `Batch`."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from torch import Tensor

NAMES = ("x", "edge_index", "y", "class_names")


def is_collated(stored: object) -> bool:
    """Whether this is what `InMemoryDataset.save` writes, of any version: (data, slices, ...)."""
    if not isinstance(stored, tuple) or len(stored) < 2:
        return False
    slices = stored[1]
    # A tuple of graphs has a graph there, with edges of two rows.
    is_cut = isinstance(slices, Mapping) and getattr(slices.get("edge_index"), "ndim", 0) == 1
    return slices is None or is_cut or isinstance(stored[-1], type)


def separated(fields: Mapping[str, object], slices: Mapping[str, object]) -> list[dict[str, object]]:
    """The fields of every graph.

    Parameters
    ----------
    fields : mapping
        The fields of all graphs: tensors that are joined along the nodes, edges or graphs, or a list with an entry per
        graph. Edges have the numbers of their own graph's nodes.
    slices : mapping of str to Tensor, (graphs + 1,)
        Where each graph's part of a field begins, and where the last one ends.

    Raises
    ------
    ValueError, TypeError, KeyError, IndexError
        If the slices do not fit.
    """
    cut = {name: list(pairwise(map(int, slices[name]))) for name in NAMES if name in slices}  # type: ignore[call-overload]
    graphs: list[dict[str, object]] = [{} for _ in cut["edge_index"]]
    for name, ranges in cut.items():
        whole = fields[name]
        for graph, (start, stop) in zip(graphs, ranges, strict=True):
            if isinstance(whole, list):
                graph[name] = whole[start]
            else:
                graph[name] = whole[:, start:stop] if name == "edge_index" else whole[start:stop]  # type: ignore[index]
    for graph, num_nodes in zip(graphs, fields.get("num_nodes") or (), strict=False):  # type: ignore[call-overload]
        graph["num_nodes"] = num_nodes
    return graphs


def is_batch_of_graphs(fields: Mapping[str, Any]) -> bool:
    """Whether the fields of a `Batch` have a class for each graph; else it is one graph, whose nodes have classes."""
    starts, classes = fields.get("ptr"), fields.get("y")
    return isinstance(starts, Tensor) and isinstance(classes, Tensor) and len(classes) == len(starts) - 1


def batched(fields: Mapping[str, Any], slices: Mapping[str, object]) -> list[dict[str, object]]:
    """The graphs of a `Batch`, as `separated` gives them; its edges are numbered through all graphs."""
    starts = fields["ptr"]
    graphs = separated({**fields, "num_nodes": starts.diff().tolist()}, slices)
    for graph, start in zip(graphs, starts.tolist(), strict=False):
        graph["edge_index"] = graph["edge_index"] - start
    return graphs
