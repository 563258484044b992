"""Encoders of whole graphs: GIN, a GCN, and a Lorentz network that keeps GIN's counts.

Each is input -> three layers of message passing -> sum over a graph's nodes -> hidden layer -> logits, dropout before the
logits alone: within the layers it would change a point's time between training and evaluation. Parameter names say what a
parameter is, and `curvfed.strategies.methods` decides by them what stays with a client: `input.*` and `head.*` where
feature spaces or classes differ.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.lorentz.curvature import CurvedNet
from curvfed.tasks.graphs.lorentz.layers import exp0_factor, lorentz_linear
from curvfed.tasks.graphs.models.model_spec import ModelSpec, start

DEPTH = 3

MAX_RADIUS = 8.0
"""Of a feature row in units of √K, on its way into Lorentz space, where lengths grow like sinh: sums stay numbers."""


class FlatGraphNet(nn.Module):
    """The flat network over one kind of layer."""

    def __init__(self, spec: ModelSpec, layer: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.input = nn.Linear(spec.num_features, spec.width)
        self.layers = nn.ModuleList(layer(spec.width) for _ in range(DEPTH))
        self.head = _Head(spec)
        start(self.input.weight, self.input.bias)

    def encode(self, inputs: GraphInputs) -> Tensor:
        """The sums over the graphs' nodes, (G, width)."""
        x = inputs.features @ self.input.weight.t() + self.input.bias
        for layer in self.layers:
            x = layer(x, inputs)
        return inputs.members @ x

    def forward(self, inputs: GraphInputs) -> Tensor:
        """Logits (G, C)."""
        logits: Tensor = self.head(self.encode(inputs))
        return logits


class GINLayer(nn.Module):
    """(1 + eps) x_v + Σ x_u, then two linear layers (Xu et al., 2019, Eq. 4.1)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
        self.eps = nn.Parameter(torch.tensor(0.0))
        for linear in (self.first, self.second):
            start(linear.weight, linear.bias)

    def forward(self, x: Tensor, inputs: GraphInputs) -> Tensor:
        """(N, width) in and out."""
        return F.relu(self.second(F.relu(self.first((1 + self.eps) * x + inputs.sums @ x))))


class GCNLayer(nn.Module):
    """Linear, normalised neighbourhood, ReLU (Kipf & Welling, 2017)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        start(self.linear.weight, self.linear.bias)

    def forward(self, x: Tensor, inputs: GraphInputs) -> Tensor:
        """(N, width) in and out."""
        return F.relu(inputs.adjacency @ (x @ self.linear.weight.t()) + self.linear.bias)


class _Head(nn.Module):
    """Linear, ReLU, dropout, linear."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.dropout = spec.dropout
        self.hidden = nn.Linear(spec.width, spec.width)
        self.out = nn.Linear(spec.width, spec.num_classes)
        for linear in (self.hidden, self.out):
            start(linear.weight, linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (G, C)."""
        logits: Tensor = self.out(F.dropout(F.relu(self.hidden(x)), self.dropout, self.training))
        return logits


class LorentzGIN(CurvedNet):
    """GIN on the hyperboloid of curvature -1/K: points in place of vectors, carried by their space coordinates.

    A network of centroids, as for nodes, forgets how much was summed, and so what counts tell of a graph.
    Here sums stay sums: their space part is kept and the time recomputed, so that the point's radius tells the count.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.input = LorentzLinear(spec.num_features, spec.width)
        self.layers = nn.ModuleList(LorentzGINLayer(spec.width, spec.self_weight) for _ in range(DEPTH))
        self.head = _LorentzHead(spec)
        self._add_curvature(spec)

    def forward(self, inputs: GraphInputs) -> Tensor:
        """Logits (G, C)."""
        radius = self.radius
        # A row beyond MAX_RADIUS is taken for the point there in its direction.
        furthest = MAX_RADIUS * radius.detach().sqrt()
        shrink = furthest / torch.maximum(inputs.norms, furthest)
        factor = exp0_factor(inputs.norms * shrink, radius) * shrink
        space = self.input(factor * inputs.features.matrix, radius)
        for layer in self.layers:
            space = layer(space, inputs, radius)
        logits: Tensor = self.head(inputs.members @ space, radius)
        return logits


class LorentzLinear(nn.Linear):
    """Lorentz linear layer in space coordinates (FlatLand, Eq. 4): space' = M space + m time + b.

    M and b are shared, m (`time`) is personal and starts at 0. The time of the result follows from its space.
    """

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__(num_in, num_out)
        self.time = nn.Parameter(torch.zeros(num_out))
        start(self.weight, self.bias)

    def forward(self, space: Tensor, radius: Tensor) -> Tensor:  # type: ignore[override]
        """(N, num_in) -> (N, num_out), K = `radius`."""
        return lorentz_linear(space, self.weight, self.bias, self.time, radius)


class LorentzGINLayer(nn.Module):
    """GIN's layer on the hyperboloid: (1 + gate) s_v + Σ s_u in space coordinates, then two Lorentz linear layers."""

    def __init__(self, width: int, gate: bool) -> None:
        super().__init__()
        self.first = LorentzLinear(width, width)
        self.second = LorentzLinear(width, width)
        self.gate = nn.Parameter(torch.tensor(0.0)) if gate else None

    def forward(self, space: Tensor, inputs: GraphInputs, radius: Tensor) -> Tensor:
        """Space coordinates (N, width) in and out."""
        own = space if self.gate is None else (1 + self.gate) * space
        return F.relu(self.second(F.relu(self.first(own + inputs.sums @ space, radius)), radius))


class _LorentzHead(nn.Module):
    """Two Lorentz linear layers; the space coordinates of the second are the logits."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.dropout = spec.dropout
        self.hidden = LorentzLinear(spec.width, spec.width)
        self.out = LorentzLinear(spec.width, spec.num_classes)

    def forward(self, space: Tensor, radius: Tensor) -> Tensor:
        """Logits (G, C)."""
        hidden = F.dropout(F.relu(self.hidden(space, radius)), self.dropout, self.training)
        logits: Tensor = self.out(hidden, radius)
        return logits
