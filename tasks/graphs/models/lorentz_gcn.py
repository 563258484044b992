"""FlatLand's networks for nodes, each with two convolutions: a Lorentz network, and flat networks
with its gate and its coordinate.

Each layer is linear -> neighbourhood -> ReLU, with dropout between layers and a linear or distance
head. Methods choose personal parameters by their names.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.graphs.dropout import dropout
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.lorentz.curvature import CurvedNet
from curvfed.tasks.graphs.lorentz.layers import lift
from curvfed.tasks.graphs.lorentz.modules import GATE_START, LorentzConv, LorentzReadout
from curvfed.tasks.graphs.model_spec import ModelSpec, TimedLinear, start, start_all, store_by_input
from curvfed.tasks.graphs.sparse import Constant


class GCN(nn.Module):
    """The flat network (Kipf & Welling, 2017) with a linear classifier, as in FED-PUB."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.dropout = spec.dropout
        self.first = nn.Linear(spec.num_features, spec.width)
        self.second = nn.Linear(spec.width, spec.width)
        self.head = nn.Linear(spec.width, spec.num_classes)
        start_all(self.first, self.second, self.head)
        store_by_input(self.first.weight)

    def encode(self, inputs: GraphInputs) -> Tensor:
        """The output of the second convolution, (N, width)."""
        hidden = F.relu(
            self.convolve(self.first, inputs.features @ self.first.weight.t(), inputs.adjacency)
        )
        hidden = dropout(hidden, self.dropout, self.training)
        return self.convolve(self.second, hidden @ self.second.weight.t(), inputs.adjacency)

    def convolve(self, layer: nn.Linear, product: Tensor, adjacency: Constant) -> Tensor:
        """The output of a layer, (N, width), from the product of its input with its weights."""
        return adjacency @ product + layer.bias

    def forward(self, inputs: GraphInputs) -> Tensor:
        """Logits (N, C)."""
        logits: Tensor = self.head(F.relu(self.encode(inputs)))
        return logits


class LorentzGCN(CurvedNet):
    """FlatLand's network: Lorentz layers, and a head of Lorentz distances to a point per class.

    The curvature is -1/K (`curvfed.tasks.graphs.lorentz.curvature`). Logits are 2K + 2<x, c> + b,
    minus the squared Lorentz distance to the class's point c, which is lifted from its space
    coordinates so that it lies on every client's own hyperboloid.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec.curvature_map)
        self.first = LorentzConv(spec.num_features, spec.width, spec.gate, spec.dropout)
        self.second = LorentzConv(spec.width, spec.width, spec.gate)
        self.head = LorentzReadout(spec.width, spec.num_classes)
        store_by_input(self.first.weight)
        self._add_estimator(spec)

    def forward(self, inputs: GraphInputs) -> Tensor:
        """Logits (N, C)."""
        radius = self.radius
        product, square = lift(inputs.features @ self.first.weight.t(), inputs.norms, radius)
        space, square = self.first.convolved(product, square, inputs.adjacency, radius)
        space, _ = self.second.convolved(
            space @ self.second.weight.t(), square, inputs.adjacency, radius
        )
        logits: Tensor = self.head(space, radius)
        return logits


class GatedGCN(GCN):
    """The flat network with only FlatLand's high-pass gate, in both convolutions (its Table 8).

    Without the gate it is `GCN`; with it, it is `SplitGCN` without the additional unit.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        for layer in (self.first, self.second):
            layer.register_parameter(
                "gate", nn.Parameter(torch.tensor(GATE_START)) if spec.gate else None
            )

    def convolve(self, layer: nn.Linear, product: Tensor, adjacency: Constant) -> Tensor:
        """(N, width) in and out."""
        low = adjacency @ product
        if isinstance(layer.gate, Tensor):
            low = _mix(layer.gate, low, product)
        return low + layer.bias


class SplitLayer(nn.Module):
    """A flat layer on (time, space); all parameters of the time unit are personal."""

    def __init__(self, num_in: int, num_out: int, gate: bool, first: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_out, num_in))
        self.bias = nn.Parameter(torch.empty(num_out))
        self.to_time = nn.Parameter(torch.empty(1, num_in))
        self.time_bias = nn.Parameter(torch.empty(1))
        # In flat space the features' time coordinate is 0, so the first layer needs no column.
        self.time = None if first else nn.Parameter(torch.zeros(num_out + 1))
        self.gate = nn.Parameter(torch.tensor(GATE_START)) if gate else None
        start(self.weight, self.bias)
        start(self.to_time, self.time_bias)

    def matrix(self) -> Tensor:
        """Columns (num_in, 1 + width), the time unit first."""
        return torch.cat([self.to_time.t(), self.weight.t()], dim=1)

    def forward(self, product: Tensor, time: Tensor | None, adjacency: Constant) -> Tensor:
        """Output (N, 1 + width), time unit first, from the product of the input's space part and
        `matrix`."""
        if self.time is not None and time is not None:
            product = torch.addcmul(product, time, self.time)
        low = adjacency @ product
        mixed = low if self.gate is None else _mix(self.gate, low, product)
        return mixed + torch.cat([self.time_bias, self.bias])


class SplitGCN(nn.Module):
    """FlatLand's decoupling without its geometry (its Table 4, "FlatLand (E)"; the paper does not
    specify the form).

    An additional unit per layer replaces the time coordinate; its incoming row and outgoing column
    are personal. It is an ordinary unit: no hyperboloid relates it to the others.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.dropout = spec.dropout
        self.first = SplitLayer(spec.num_features, spec.width, spec.gate, first=True)
        self.second = SplitLayer(spec.width, spec.width, spec.gate, first=False)
        self.head = TimedLinear(spec.width, spec.num_classes)
        store_by_input(self.first.weight)

    def forward(self, inputs: GraphInputs) -> Tensor:
        """Logits (N, C)."""
        hidden = F.relu(self.first(inputs.features @ self.first.matrix(), None, inputs.adjacency))
        hidden = dropout(hidden, self.dropout, self.training)
        hidden = F.relu(
            self.second(hidden[:, 1:] @ self.second.matrix(), hidden[:, :1], inputs.adjacency)
        )
        logits: Tensor = self.head(hidden[:, 1:]) + hidden[:, :1] * self.head.time
        return logits


def _mix(gate: Tensor, low: Tensor, rows: Tensor) -> Tensor:
    """gate · low-pass + (1 - gate) · high-pass; the high-pass is a row minus the mean of its
    neighbourhood."""
    return torch.lerp(rows - low, low, torch.sigmoid(gate))
