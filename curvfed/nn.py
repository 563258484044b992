"""Lorentz layers for the user's networks, which curvfed trains as `model=package.module:Net`.

>>> import torch
>>> from curvfed.geometry import lorentz
>>> from curvfed.nn import CurvedNet, LorentzConv, LorentzReadout
>>> class Net(CurvedNet):
...     def __init__(self, num_features, num_classes):
...         super().__init__()
...         self.first = LorentzConv(num_features, 32, dropout=0.5)
...         self.second = LorentzConv(32, 32)
...         self.head = LorentzReadout(32, num_classes)
...
...     def forward(self, x, edge_index):
...         curvature = self.curvature
...         space = lorentz.exp0(x, curvature)[:, 1:]
...         space = self.first(space, edge_index, curvature)
...         return self.head(self.second(space, edge_index, curvature), curvature)
>>> net = Net(8, 3)
>>> net(torch.randn(4, 8), torch.tensor([[0, 1, 2], [1, 2, 3]])).shape
torch.Size([4, 3])

With `flatland` the parameters `*.time`, `*.gate` and `k` stay at each client, and the others are
averaged; with `fedavg` all are averaged:

>>> from curvfed.strategies.methods import METHODS
>>> [name for name, _ in net.named_parameters() if METHODS["flatland"].is_personal(name)]
['k', 'first.time', 'first.gate', 'second.time', 'second.gate']
"""

from curvfed.tasks.graphs.lorentz_modules import LorentzConv, LorentzLinear, LorentzReadout
from curvfed.tasks.graphs.ricci import CurvedNet

__all__ = ["CurvedNet", "LorentzConv", "LorentzLinear", "LorentzReadout"]
