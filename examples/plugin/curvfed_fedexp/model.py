"""Models of nodes: two of PyTorch Geometric's own, and one with curvfed's Lorentz layers."""

from torch import Tensor, nn
from torch_geometric.nn.models import GAT, GraphSAGE

from curvfed.geometry import lorentz
from curvfed.nn import CurvedNet, LorentzConv, LorentzReadout


def sage(num_features: int, num_classes: int) -> nn.Module:
    """GraphSAGE (Hamilton et al., 2017) with one hidden layer of 64: `model=sage`."""
    return GraphSAGE(num_features, 64, num_layers=2, out_channels=num_classes, dropout=0.5)


def gat(num_features: int, num_classes: int) -> nn.Module:
    """GAT (Velickovic et al., 2018) with one hidden layer of 64:
    `model=curvfed_fedexp.model:gat`.
    """
    return GAT(num_features, 64, num_layers=2, out_channels=num_classes, heads=8, dropout=0.5)


class Curved(CurvedNet):
    """Two Lorentz convolutions in a space whose curvature is learned:
    `model=curvfed_fedexp.model:Curved`."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.first, self.second = LorentzConv(num_features, 64, dropout=0.5), LorentzConv(64, 64)
        self.head = LorentzReadout(64, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Features (N, F) and edges (2, E) -> logits (N, C)."""
        curvature = self.curvature
        space = lorentz.exp0(x, curvature)[:, 1:]
        space = self.first(space, edge_index, curvature)
        return self.head(self.second(space, edge_index, curvature), curvature)
