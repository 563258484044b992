"""A model of nodes that is PyTorch Geometric's own."""

from torch import nn
from torch_geometric.nn.models import GraphSAGE


def sage(num_features: int, num_classes: int) -> nn.Module:
    """GraphSAGE (Hamilton et al., 2017) with one hidden layer of 64: `model=sage`."""
    return GraphSAGE(num_features, 64, num_layers=2, out_channels=num_classes, dropout=0.5)
