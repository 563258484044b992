"""The models by task and name, with a seeded start."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from curvfed.tasks.graphs.functional import add_embedding
from curvfed.tasks.graphs.graph_models import FlatGraphNet, GCNLayer, GINLayer, LorentzGIN
from curvfed.tasks.graphs.masked import add_masks
from curvfed.tasks.graphs.model_spec import ModelSpec
from curvfed.tasks.graphs.node_models import GCN, LorentzGCN, SplitGCN

__all__ = ["MODELS", "ModelSpec", "build"]

MODELS: dict[str, dict[str, Callable[[ModelSpec], nn.Module]]] = {
    "nodes": {"gcn": GCN, "lorentz": LorentzGCN, "split": SplitGCN},
    "graphs": {
        "gin": partial(FlatGraphNet, layer=GINLayer),
        "gcn": partial(FlatGraphNet, layer=GCNLayer),
        "lorentz": LorentzGIN,
    },
}


def build(spec: ModelSpec, seed: int) -> nn.Module:
    """The model with its seeded start; equal on every machine for equal arguments."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # alone: torch.manual_seed keeps a stack trace for a GPU each time
        model = MODELS[spec.task][spec.kind](spec)
    if spec.mask_threshold is not None:
        add_embedding(add_masks(model, spec.mask_threshold), spec.width)
    return model
