"""Networks for graphs and for nodes, Lorentz and flat ones.

For whole graphs: GIN, a GCN, and a Lorentz network that keeps GIN's counts. Each is input -> three
layers of message passing -> sum over a graph's nodes -> hidden layer -> logits, with dropout only
before the logits: within the layers it would change a point's time between training and evaluation.

For nodes: FlatLand's networks with two convolutions, a Lorentz network, and flat networks with its
gate and its coordinate. Each layer is linear -> neighbourhood -> ReLU, with dropout between layers
and a linear or distance head. FlatLand's own network for whole graphs is its Lorentz network for
nodes with a third convolution and a centroid per graph.

Methods choose personal parameters by their names: `input.*` and `head.*` if feature spaces or
classes differ.
"""

from collections import OrderedDict
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks.draws import Dropout
from curvfed.tasks.graphs.inputs import DenseGraphs, GraphInputs
from curvfed.tasks.graphs.lorentz_layers import Space, exp0_factor, lift, magnitude, row_dot
from curvfed.tasks.graphs.lorentz_modules import (
    GATE_START,
    LorentzConv,
    LorentzLinear,
    LorentzReadout,
    centroids,
)
from curvfed.tasks.graphs.model_spec import (
    ModelSpec,
    TimedLinear,
    dropout,
    start,
    start_all,
    store_by_input,
)
from curvfed.tasks.graphs.ricci import CurvedNet
from curvfed.tasks.graphs.sparse import Constant, row_means

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
        return self.head(self.encode(inputs))


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
        combined = (1 + self.eps) * x + inputs.sums @ x
        return F.relu(self.second(F.relu(self.first(combined))))


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
        OrderedDict(hidden=hidden, relu=nn.ReLU(), dropout=Dropout(spec.dropout), out=out)
    )


class LorentzGIN(CurvedNet):
    """GIN on the hyperboloid: points, given by their space coordinates, replace
    vectors.

    Centroids, as in the network for nodes, lose the number of points and thus the counts of a
    graph. Here sums stay sums: the space part is the sum and the time is recomputed, so that the
    point's radius grows with the count.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec.curvature_map, spec.curvature)
        self.input = LorentzLinear(spec.num_features, spec.width)
        self.layers = nn.ModuleList(
            LorentzGINLayer(spec.width, spec.self_weight) for _ in range(DEPTH)
        )
        self.head = _LorentzHead(spec)
        self._add_estimator(spec)

    def forward(self, inputs: Graphs) -> Tensor:
        """Logits (G, C)."""
        curvature = self.curvature
        space = self.input(_points(inputs, curvature), curvature)
        for layer in self.layers:
            space = layer(space, inputs, curvature)
        return self.head(inputs.members @ space, curvature)


def _points(inputs: Graphs, curvature: Space) -> Tensor:
    """Space coordinates (N, F) of exp0 of the feature rows; a longer row is shortened to
    MAX_RADIUS. In flat space, the rows."""
    size = magnitude(curvature, inputs.norms)
    if size is None:
        return inputs.dense
    furthest = MAX_RADIUS * size.detach().rsqrt()
    shrink = furthest / torch.maximum(inputs.norms, furthest)
    factor = exp0_factor(inputs.norms * shrink, size) * shrink
    return factor * inputs.dense


class LorentzGINLayer(nn.Module):
    """GIN's layer on the hyperboloid: (1 + gate) s_v + Σ s_u in space coordinates, then two Lorentz
    linear layers."""

    def __init__(self, width: int, gate: bool) -> None:
        super().__init__()
        self.first = LorentzLinear(width, width)
        self.second = LorentzLinear(width, width)
        self.gate = nn.Parameter(torch.tensor(0.0)) if gate else None

    def forward(self, space: Tensor, inputs: Graphs, curvature: Space) -> Tensor:
        """Space coordinates (N, width) in and out."""
        weighted = space if self.gate is None else (1 + self.gate) * space
        hidden = F.relu(self.first(weighted + inputs.sums @ space, curvature))
        return F.relu(self.second(hidden, curvature))


class _LorentzHead(nn.Module):
    """Two Lorentz linear layers; the space coordinates of the second are the logits."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.dropout = spec.dropout
        self.hidden = LorentzLinear(spec.width, spec.width)
        self.out = LorentzLinear(spec.width, spec.num_classes)

    def forward(self, space: Tensor, curvature: Space) -> Tensor:
        """Logits (G, C)."""
        hidden = dropout(F.relu(self.hidden(space, curvature)), self.dropout, self.training)
        return self.out(hidden, curvature)


class PooledLorentzGCN(CurvedNet):
    """FlatLand's network for whole graphs: three of its convolutions for nodes (Appendix E.2), the
    centroid of a graph's nodes, and a head of Lorentz distances.

    The paper names neither the pooling nor the head. The centroid is the mean that its layers also
    take, and the head is that of `LorentzGCN`.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec.curvature_map, spec.curvature)
        self.input = LorentzConv(spec.num_features, spec.width, spec.gate, spec.dropout)
        second = LorentzConv(spec.width, spec.width, spec.gate, spec.dropout)
        third = LorentzConv(spec.width, spec.width, spec.gate)
        self.layers = nn.ModuleList([second, third])
        self.head = LorentzReadout(spec.width, spec.num_classes)
        self._add_estimator(spec)

    def forward(self, inputs: Graphs) -> Tensor:
        """Logits (G, C)."""
        curvature = self.curvature
        space = _points(inputs, curvature)
        square = row_dot(space, space)
        for layer in (self.input, *self.layers):
            product = space @ layer.weight.t()
            space, square = layer.convolved(product, square, inputs.adjacency, curvature)
        return self.head(centroids(space, inputs.members, curvature), curvature)


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
        return self.head(F.relu(self.encode(inputs)))


class LorentzGCN(CurvedNet):
    """FlatLand's network: Lorentz layers, and a head of Lorentz distances to a point per class.

    The curvature c is learned or a number (`curvfed.tasks.graphs.ricci`). Logits are 2/|c| + 2<x,
    y> + b, minus the squared Lorentz distance to the class's point y, which is lifted from its
    space coordinates so that it lies on every client's own hyperboloid. At c = 0 its neighbourhoods
    are weighted means, and its head has Euclidean distances.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec.curvature_map, spec.curvature)
        self.first = LorentzConv(spec.num_features, spec.width, spec.gate, spec.dropout)
        self.second = LorentzConv(spec.width, spec.width, spec.gate)
        self.head = LorentzReadout(spec.width, spec.num_classes)
        store_by_input(self.first.weight)
        self._add_estimator(spec)

    def forward(self, inputs: GraphInputs) -> Tensor:
        """Logits (N, C)."""
        curvature = self.curvature
        product, square = lift(inputs.features @ self.first.weight.t(), inputs.norms, curvature)
        space, square = self.first.convolved(product, square, inputs.adjacency, curvature)
        space, _ = self.second.convolved(
            space @ self.second.weight.t(), square, inputs.adjacency, curvature
        )
        return self.head(space, curvature)


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


class MeanGCN(GCN):
    """The flat network with weighted means of neighbourhoods, as in `LorentzGCN` at curvature 0, in
    place of the sums of `GCN`: a node's many neighbours do not lengthen its row."""

    def convolve(self, layer: nn.Linear, product: Tensor, adjacency: Constant) -> Tensor:
        """(N, width) in and out."""
        return row_means(adjacency, product) + layer.bias


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
        return self.head(hidden[:, 1:]) + hidden[:, :1] * self.head.time


def _mix(gate: Tensor, low: Tensor, rows: Tensor) -> Tensor:
    """gate · low-pass + (1 - gate) · high-pass; the high-pass is a row minus the mean of its
    neighbourhood."""
    return torch.lerp(rows - low, low, torch.sigmoid(gate))
