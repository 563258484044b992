"""Models of other people's, as a run's `model` names them: "plugin_models:gcn"."""

import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.nn import BatchNorm, GCNConv, global_mean_pool
from torch_geometric.nn.models import GAT, GCN

from curvfed.geometry import lorentz
from curvfed.nn import CurvedNet, LorentzConv, LorentzReadout


def gcn(num_features: int, num_classes: int) -> nn.Module:
    """PyTorch Geometric's own."""
    return GCN(num_features, 8, num_layers=2, out_channels=num_classes, dropout=0.2)


def gat(num_features: int, num_classes: int) -> nn.Module:
    """The same with attention."""
    return GAT(num_features, 8, num_layers=2, out_channels=num_classes, heads=2)


def wide(num_features: int, num_classes: int) -> nn.Module:
    """More logits than classes, as of a network whose last layer is missing."""
    return gcn(num_features, num_classes + 5)


class Curved(CurvedNet):
    """Layers of ours in a network of somebody else's."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.first, self.second = LorentzConv(num_features, 8, dropout=0.2), LorentzConv(8, 8)
        self.head = LorentzReadout(8, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Logits of each node."""
        space = self.first(lorentz.exp0(x, self.curvature)[:, 1:], edge_index, self.curvature)
        return self.head(self.second(space, edge_index, self.curvature), self.curvature)


class Pooled(nn.Module):
    """Whole graphs, with running statistics and a classifier called as ours are."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.layer, self.norm, self.head = (
            GCNConv(num_features, 8),
            BatchNorm(8),
            nn.Linear(8, num_classes),
        )

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Logits of each graph."""
        return self.head(global_mean_pool(F.relu(self.norm(self.layer(x, edge_index))), batch))


class Conv(nn.Module):
    """A small network of images."""

    def __init__(self, shape: tuple[int, int, int], num_classes: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(shape[0], 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()
        )
        self.head = nn.Linear(4 * -(-shape[1] // 2) * -(-shape[2] // 2), num_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of each image."""
        return self.head(self.net(images))


def headless(shape: tuple[int, int, int], num_classes: int) -> nn.Module:
    """One layer, whose parameters have names of no method's."""
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], num_classes))


def broken(*arguments: object) -> nn.Module:
    """Makes none."""
    raise RuntimeError("no such layer")


def number(*arguments: object) -> int:
    """Makes something else."""
    return 3
