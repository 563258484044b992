"""Encoders of whole graphs: GIN, a GCN, and a Lorentz network that keeps GIN's counts.

Each is input -> three layers of message passing -> sum over a graph's nodes -> hidden layer ->
logits, with dropout only before the logits: within the layers it would change a point's time
between training and evaluation. Methods choose personal parameters by their names: `input.*` and
`head.*` if feature spaces or classes differ.
"""

from collections import OrderedDict
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.graphs.dropout import dropout
from curvfed.tasks.graphs.inputs import DenseGraphs, GraphInputs
from curvfed.tasks.graphs.lorentz.curvature import CurvedNet
from curvfed.tasks.graphs.lorentz.layers import exp0_factor
from curvfed.tasks.graphs.lorentz.modules import LorentzLinear
from curvfed.tasks.graphs.model_spec import ModelSpec, start_all

DEPTH = 3

Graphs = GraphInputs | DenseGraphs
"""Several graphs, or in `torch.func` a single one."""

MAX_RADIUS = 8.0
"""Longest feature row, in units of √K, mapped to Lorentz space: lengths grow like sinh, and sums
must be finite."""


class FlatGraphNet(nn.Module):
    """The flat network with one kind of layer."""

    def __init__(self, spec: ModelSpec, layer: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.input = nn.Linear(spec.num_features, spec.width)
        self.layers = nn.ModuleList(layer(spec.width) for _ in range(DEPTH))
        self.head = _head(spec)
        start_all(self.input)

    def encode(self, inputs: Graphs) -> Tensor:
        """The sums over the graphs' nodes, (G, width)."""
        x = inputs.features @ self.input.weight.t() + self.input.bias
        for layer in self.layers:
            x = layer(x, inputs)
        return inputs.members @ x

    def forward(self, inputs: Graphs) -> Tensor:
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
        start_all(self.first, self.second)

    def forward(self, x: Tensor, inputs: Graphs) -> Tensor:
        """(N, width) in and out."""
        return F.relu(self.second(F.relu(self.first((1 + self.eps) * x + inputs.sums @ x))))


class GCNLayer(nn.Module):
    """Linear, normalised neighbourhood, ReLU (Kipf & Welling, 2017)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        start_all(self.linear)

    def forward(self, x: Tensor, inputs: Graphs) -> Tensor:
        """(N, width) in and out."""
        return F.relu(inputs.adjacency @ (x @ self.linear.weight.t()) + self.linear.bias)


def _head(spec: ModelSpec) -> nn.Sequential:
    """From the sums (G, width) to logits (G, C)."""
    hidden = nn.Linear(spec.width, spec.width)
    out = nn.Linear(spec.width, spec.num_classes)
    start_all(hidden, out)
    return nn.Sequential(
        OrderedDict(hidden=hidden, relu=nn.ReLU(), dropout=nn.Dropout(spec.dropout), out=out)
    )


class LorentzGIN(CurvedNet):
    """GIN on the hyperboloid of curvature -1/K: points, given by their space coordinates, replace
    vectors.

    Centroids, as in the network for nodes, lose the number of points and thus the counts of a
    graph. Here sums stay sums: the space part is the sum and the time is recomputed, so that the
    point's radius grows with the count.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec.curvature_map)
        self.input = LorentzLinear(spec.num_features, spec.width)
        self.layers = nn.ModuleList(
            LorentzGINLayer(spec.width, spec.self_weight) for _ in range(DEPTH)
        )
        self.head = _LorentzHead(spec)
        self._add_estimator(spec)

    def forward(self, inputs: Graphs) -> Tensor:
        """Logits (G, C)."""
        radius = self.radius
        # A longer row is shortened to MAX_RADIUS.
        furthest = MAX_RADIUS * radius.detach().sqrt()
        shrink = furthest / torch.maximum(inputs.norms, furthest)
        factor = exp0_factor(inputs.norms * shrink, radius) * shrink
        space = self.input(factor * inputs.dense, radius)
        for layer in self.layers:
            space = layer(space, inputs, radius)
        logits: Tensor = self.head(inputs.members @ space, radius)
        return logits


class LorentzGINLayer(nn.Module):
    """GIN's layer on the hyperboloid: (1 + gate) s_v + Σ s_u in space coordinates, then two Lorentz
    linear layers."""

    def __init__(self, width: int, gate: bool) -> None:
        super().__init__()
        self.first = LorentzLinear(width, width)
        self.second = LorentzLinear(width, width)
        self.gate = nn.Parameter(torch.tensor(0.0)) if gate else None

    def forward(self, space: Tensor, inputs: Graphs, radius: Tensor) -> Tensor:
        """Space coordinates (N, width) in and out."""
        weighted = space if self.gate is None else (1 + self.gate) * space
        return F.relu(
            self.second(F.relu(self.first(weighted + inputs.sums @ space, radius)), radius)
        )


class _LorentzHead(nn.Module):
    """Two Lorentz linear layers; the space coordinates of the second are the logits."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.dropout = spec.dropout
        self.hidden = LorentzLinear(spec.width, spec.width)
        self.out = LorentzLinear(spec.width, spec.num_classes)

    def forward(self, space: Tensor, radius: Tensor) -> Tensor:
        """Logits (G, C)."""
        hidden = dropout(F.relu(self.hidden(space, radius)), self.dropout, self.training)
        logits: Tensor = self.out(hidden, radius)
        return logits
