"""Two-layer graph convolutional networks: flat, Lorentz, and the flat one with a coordinate set apart.

Each layer is linear -> neighbourhood -> ReLU, with dropout between layers and a linear or distance head. Parameter names
say what a parameter is, and `strategies.methods` decides by them what stays with a client.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tasks.graphs.client_graph import ClientGraph
from tasks.graphs.lorentz_ops import convolve, distance_logits, exp0_factor
from tasks.graphs.sparse import Constant, normalized_adjacency

GATE_START = 3.0
"""A gate starts at sigmoid(3) = 0.95: nearly all low-pass, as on homophilic graphs, yet with a live gradient."""


@dataclass(frozen=True)
class ModelSpec:
    """What determines a model's shape.

    Attributes
    ----------
    kind : str
        A key of `MODELS`.
    num_features, num_classes, width : int
    dropout : float
    gate : bool
        Whether Lorentz and split layers mix in a high-pass.
    learns_curvature : bool
        Whether k is trained; else the curvature stays where it starts.
    """

    kind: str
    num_features: int
    num_classes: int
    width: int
    dropout: float
    gate: bool
    learns_curvature: bool


@dataclass(frozen=True, eq=False)
class GraphInputs:
    """What the models read, made once per client.

    Attributes
    ----------
    features : Constant, (N, F)
    adjacency : Constant, (N, N)
        Symmetrically normalised, with self-loops.
    norms : Tensor, (N, 1)
        Euclidean norms of the feature rows, which `exp0` needs.
    """

    features: Constant
    adjacency: Constant
    norms: Tensor

    @classmethod
    def of(cls, graph: ClientGraph, device: torch.device) -> "GraphInputs":
        """The inputs of one client's graph on a device."""
        dense = graph.features.to_dense() if graph.features.layout == torch.sparse_csr else graph.features
        return cls(
            Constant.of(graph.features).to(device),
            normalized_adjacency(graph.edge_index, len(graph.labels)).to(device),
            dense.norm(dim=1, keepdim=True).to(device),
        )


class GCN(nn.Module):
    """The flat network (Kipf & Welling, 2017) with a linear classifier, as FED-PUB uses it."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.dropout = spec.dropout
        self.first = nn.Linear(spec.num_features, spec.width)
        self.second = nn.Linear(spec.width, spec.width)
        self.head = nn.Linear(spec.width, spec.num_classes)
        for linear in (self.first, self.second, self.head):
            _start(linear.weight, linear.bias)

    def forward(self, inputs: GraphInputs) -> Tensor:
        """Logits (N, C)."""
        hidden = F.relu(inputs.adjacency @ (inputs.features @ self.first.weight.t()) + self.first.bias)
        hidden = F.dropout(hidden, self.dropout, self.training)
        hidden = F.relu(inputs.adjacency @ (hidden @ self.second.weight.t()) + self.second.bias)
        logits: Tensor = self.head(hidden)
        return logits


class LorentzLayer(nn.Module):
    """Lorentz linear layer and neighbour centroid, space coordinates in and out (FlatLand, Eq. 4).

    space' = M space + m time + b; M and b are shared, m (`time`) and the gate are personal. m starts at 0, from where it
    works like a bias of the client's own.
    """

    def __init__(self, num_in: int, num_out: int, gate: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_out, num_in))
        self.bias = nn.Parameter(torch.empty(num_out))
        self.time = nn.Parameter(torch.zeros(num_out))
        self.gate = nn.Parameter(torch.tensor(GATE_START)) if gate else None
        _start(self.weight, self.bias)

    def forward(self, product: Tensor, square: Tensor, adjacency: Constant, radius: Tensor) -> Tensor:
        """Space coordinates (N, width) of the layer's output; see `lorentz_ops.convolve`."""
        gate = None if self.gate is None else torch.sigmoid(self.gate)
        return convolve(product, square, self.bias, self.time, radius, gate, adjacency)


class LorentzGCN(nn.Module):
    """FlatLand's network: Lorentz layers and a head of Lorentz distances to one point per class.

    The curvature is -1/K with K = sigmoid(k) + 0.5 (FlatLand, Appendix E.2); k = 0 gives -1. Logits are
    2K + 2<x, c> + b, minus the squared Lorentz distance to the class's point c, which is lifted from its space
    coordinates so that it lies on every client's own hyperboloid.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.dropout = spec.dropout
        self.first = LorentzLayer(spec.num_features, spec.width, spec.gate)
        self.second = LorentzLayer(spec.width, spec.width, spec.gate)
        self.head = nn.Linear(spec.width, spec.num_classes)
        _start(self.head.weight, self.head.bias)
        self.k = nn.Parameter(torch.tensor(0.0), requires_grad=spec.learns_curvature)

    @property
    def radius(self) -> Tensor:
        """The squared radius K, in (0.5, 1.5)."""
        return torch.sigmoid(self.k) + 0.5

    @property
    def curvature(self) -> Tensor:
        """Sectional curvature -1/K, in (-2, -2/3)."""
        return -1 / self.radius

    def forward(self, inputs: GraphInputs) -> Tensor:
        """Logits (N, C)."""
        radius = self.radius
        # exp0 of the rows without making them dense: it is one factor per row.
        factor = exp0_factor(inputs.norms, radius)
        product = factor * (inputs.features @ self.first.weight.t())
        space = F.relu(self.first(product, (factor * inputs.norms).square(), inputs.adjacency, radius))
        space = F.dropout(space, self.dropout, self.training)
        square = space.square().sum(dim=1, keepdim=True)
        space = F.relu(self.second(space @ self.second.weight.t(), square, inputs.adjacency, radius))
        return distance_logits(space, self.head.weight, self.head.bias, radius)


class SplitLayer(nn.Module):
    """A flat layer on (time, space) whose every entry that touches the time unit is personal."""

    def __init__(self, num_in: int, num_out: int, gate: bool, first: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_out, num_in))
        self.bias = nn.Parameter(torch.empty(num_out))
        self.to_time = nn.Parameter(torch.empty(1, num_in))
        self.time_bias = nn.Parameter(torch.empty(1))
        # In flat space the features' time coordinate is 0: the first layer has nothing to multiply.
        self.time = None if first else nn.Parameter(torch.zeros(num_out + 1))
        self.gate = nn.Parameter(torch.tensor(GATE_START)) if gate else None
        _start(self.weight, self.bias)
        _start(self.to_time, self.time_bias)

    def matrix(self) -> Tensor:
        """Rows (1 + width, num_in), the time unit first."""
        return torch.cat([self.to_time, self.weight])

    def forward(self, product: Tensor, time: Tensor | None, adjacency: Constant) -> Tensor:
        """Output (N, 1 + width), time unit first, from the product of the input's space part with `matrix`."""
        if self.time is not None and time is not None:
            product = torch.addcmul(product, time, self.time)
        low = adjacency @ product
        mixed = low if self.gate is None else _mix(self.gate, low, product)
        return mixed + torch.cat([self.time_bias, self.bias])


class SplitGCN(nn.Module):
    """FlatLand's decoupling without its geometry (its Table 4, "FlatLand (E)"; the paper leaves the form open).

    One more unit per layer stands where the time coordinate was; its incoming row and outgoing column are personal. It
    is an ordinary unit, bound to the others by no hyperboloid.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.dropout = spec.dropout
        self.first = SplitLayer(spec.num_features, spec.width, spec.gate, first=True)
        self.second = SplitLayer(spec.width, spec.width, spec.gate, first=False)
        self.head = _TimedLinear(spec.width, spec.num_classes)

    def forward(self, inputs: GraphInputs) -> Tensor:
        """Logits (N, C)."""
        hidden = F.relu(self.first(inputs.features @ self.first.matrix().t(), None, inputs.adjacency))
        hidden = F.dropout(hidden, self.dropout, self.training)
        hidden = F.relu(self.second(hidden[:, 1:] @ self.second.matrix().t(), hidden[:, :1], inputs.adjacency))
        logits: Tensor = self.head(hidden[:, 1:]) + hidden[:, :1] * self.head.time
        return logits


class _TimedLinear(nn.Linear):
    """A linear head with one more, personal, column."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__(num_in, num_out)
        self.time = nn.Parameter(torch.zeros(num_out))
        _start(self.weight, self.bias)


MODELS: dict[str, Callable[[ModelSpec], nn.Module]] = {"gcn": GCN, "lorentz": LorentzGCN, "split": SplitGCN}


def build(spec: ModelSpec, seed: int) -> nn.Module:
    """The model with its seeded start; equal on every machine for equal arguments."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[spec.kind](spec)


def _start(weight: Tensor, bias: Tensor) -> None:
    nn.init.xavier_uniform_(weight)
    nn.init.zeros_(bias)


def _mix(gate: Tensor, low: Tensor, own: Tensor) -> Tensor:
    """gate · low-pass + (1 - gate) · high-pass, the high-pass being what the neighbourhood's mean leaves of a row."""
    share = torch.sigmoid(gate)
    return torch.lerp(own - low, low, share)
