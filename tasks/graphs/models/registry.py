"""The networks for graphs by task and name, with their seeded initialisation."""

from importlib import import_module
from typing import Any

import torch
from torch import nn

from curvfed.tasks import plugins
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.model_spec import ModelSpec

__all__ = ["MODELS", "ModelSpec", "build"]

MODELS: dict[str, dict[str, tuple[str, ...]]] = {
    "nodes": {
        "gcn": ("gcn", "GCN"),
        "gated": ("lorentz_gcn", "GatedGCN"),
        "lorentz": ("lorentz_gcn", "LorentzGCN"),
        "split": ("lorentz_gcn", "SplitGCN"),
    },
    "graphs": {
        "gin": ("graph_models", "FlatGraphNet", "GINLayer"),
        "gcn": ("graph_models", "FlatGraphNet", "GCNLayer"),
        "lorentz": ("graph_models", "LorentzGIN"),
    },
}
"""By task and name: the module in this folder, imported only for its models, the class, and the
class of its layers."""


def build(spec: ModelSpec, seed: int) -> nn.Module:
    """The model with its seeded initialisation; equal on every machine for equal arguments."""
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would also seed the GPUs, and is slower.
        torch.default_generator.manual_seed(seed)
        model = _built_in(spec) if spec.kind in MODELS[spec.task] else _from_package(spec)
    if spec.mask_threshold is not None:
        from curvfed.tasks.graphs.models.functional_embedding import add_embedding
        from curvfed.tasks.graphs.models.masked import add_masks

        add_embedding(add_masks(model, spec.mask_threshold), spec.width)
    return model


def _built_in(spec: ModelSpec) -> nn.Module:
    file, *names = MODELS[spec.task][spec.kind]
    make, *layers = (getattr(import_module(f"{__package__}.{file}"), name) for name in names)
    model: nn.Module = make(spec, *layers)
    return model


def _from_package(spec: ModelSpec) -> nn.Module:
    """The model of another package, with arguments x, edge_index and, for whole graphs, batch.

    A hook before its `forward` computes these from `GraphInputs`, so that its parameters keep their
    names.
    """
    model: nn.Module = plugins.model(spec.kind, spec.num_features, spec.num_classes)
    model.register_forward_pre_hook(_arguments, with_kwargs=True)
    return model


def _arguments(
    model: nn.Module, arguments: Any, keywords: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    inputs: GraphInputs = arguments[0]
    batch = {} if inputs.graph_of_node is None else {"batch": inputs.graph_of_node}
    return (inputs.dense, inputs.edge_index), batch
