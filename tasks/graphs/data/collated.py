"""Split joined graphs: PyTorch Geometric's `InMemoryDataset` stores many graphs as one, with
slices, and so does its `Batch`."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

NAMES = ("x", "edge_index", "y", "class_names")


def is_collated(stored: object) -> bool:
    """Whether `InMemoryDataset.save` of some version wrote this: (data, slices, ...)."""
    if not isinstance(stored, tuple) or len(stored) < 2:
        return False
    slices = stored[1]
    # In a tuple of graphs the second entry is a graph, whose edge_index has two dimensions.
    is_cut = isinstance(slices, Mapping) and getattr(slices.get("edge_index"), "ndim", 0) == 1
    return slices is None or is_cut or isinstance(stored[-1], type)


def separated(fields: Mapping[str, Any], slices: Mapping[str, Any]) -> list[dict[str, object]]:
    """The fields of every graph.

    Parameters
    ----------
    fields : mapping
        The fields of all graphs: tensors joined along the nodes, edges or graphs, or a list with an
        entry per graph. Each graph numbers its nodes from 0.
    slices : mapping of str to Tensor, (graphs + 1,)
        Where each graph's part of a field begins, and where the last part ends.

    Raises
    ------
    ValueError, TypeError, KeyError, RuntimeError
        If the slices do not fit.
    """
    parts = {name: _parts(name, fields[name], slices[name]) for name in NAMES if name in slices}
    if isinstance(fields.get("num_nodes"), list):
        parts["num_nodes"] = fields["num_nodes"]
    return [dict(zip(parts, values, strict=True)) for values in zip(*parts.values(), strict=True)]


def _parts(name: str, field: Any, slices: Any) -> Sequence[object]:
    """Each graph's part of a field; a list has an entry per graph."""
    if isinstance(field, list):
        return field
    parts: Sequence[object] = torch.split(
        field, slices.diff().tolist(), dim=1 if name == "edge_index" else 0
    )
    return parts


def is_batch_of_graphs(fields: Mapping[str, Any]) -> bool:
    """Whether the fields of a `Batch` have a class for each graph; otherwise it is one graph with
    classes of nodes."""
    starts = fields.get("ptr")
    classes = fields.get("y")
    return (
        isinstance(starts, Tensor)
        and isinstance(classes, Tensor)
        and len(classes) == len(starts) - 1
    )


def batched(fields: Mapping[str, Any], slices: Mapping[str, Any]) -> list[dict[str, object]]:
    """The fields of every graph of a `Batch`, which numbers the nodes of all graphs in one
    sequence."""
    starts = fields["ptr"]
    graphs = separated({**fields, "num_nodes": starts.diff().tolist()}, slices)
    for graph, start in zip(graphs, starts.tolist(), strict=False):
        graph["edge_index"] = graph["edge_index"] - start
    return graphs
