"""A GCN in a space of curvature of either sign, or in a product of such spaces (Bachmann et al.,
Constant curvature graph convolutional networks, ICML 2020)."""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.geometry.safe_math import squared64
from curvfed.geometry.stereographic import log0_of_sum, position0
from curvfed.tasks.graphs.graph_models import GatedGCN
from curvfed.tasks.graphs.inputs import GraphInputs
from curvfed.tasks.graphs.model_spec import ModelSpec
from curvfed.tasks.graphs.sparse import Constant, EdgeMatrix

LARGEST = 2.0
"""The largest absolute curvature, that of FlatLand's published range."""

SLOPE = 0.25
"""The derivative of a curvature by k at k = 0, as that of FlatLand's published map."""

HEMISPHERE = (math.pi / 4) ** 2
"""κ‖v‖² of a tangent vector that reaches the equator. Longer ones are shortened to there: the
midpoint of points of a hemisphere is unique, and rows that go around a sphere lose their order."""

RANGES = {
    "any": (-LARGEST, LARGEST),
    "flat": (0.0, 0.0),
    "spherical": (0.0, LARGEST),
    "hyperbolic": (-LARGEST, 0.0),
}
"""The curvatures of each kind of factor; k = 0 is the middle: 0, 0, 1 and −1."""


class WeightedGraph(NamedTuple):
    """What `GatedGCN` reads of its inputs, with weights of edges that are trained."""

    features: Constant
    adjacency: Any


class StereographicGCN(GatedGCN):
    """`GatedGCN` whose neighbourhoods are means in a space of constant curvature, or in a product.

    A layer takes its rows for tangent vectors at the origin. exp0 of the rows are points, the
    gyromidpoint of a neighbourhood is taken factor by factor, and log0 of it is multiplied by the
    sum of the neighbourhood's weights (Bachmann et al., definition 3). In flat space that is the
    sum, so at curvature 0 this is `GatedGCN`. The width is divided evenly among the factors. Linear
    maps, the gate, ReLU and bias act on tangent vectors: exp0 and log0 between layers cancel.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        is_flat = set(spec.spaces) == {"flat"}
        self.k = None if is_flat else nn.Parameter(torch.zeros(len(spec.spaces)))
        self.ricci = nn.Parameter(torch.zeros(2)) if spec.ricci_gate else None
        self._spaces = spec.spaces

    @property
    def curvatures(self) -> Tensor:
        """κ of each factor, (F,), smooth and monotone in `k`, which flat space has none of."""
        ranges = [RANGES[space] for space in self._spaces]
        low, high = self.head.weight.new_tensor(ranges).unbind(1)
        if self.k is None:
            return low
        reach = (high - low) / 2
        return (high + low) / 2 + reach * torch.tanh(SLOPE / reach.clamp(min=SLOPE) * self.k)

    @property
    def curvature(self) -> Tensor:
        """κ of the factor of any sign, or of the hyperbolic one; 0 without such a factor, ()."""
        for place, space in enumerate(self._spaces):
            if space in ("any", "hyperbolic"):
                return self.curvatures[place]
        return self.head.weight.new_zeros(())

    def encode(self, inputs: GraphInputs) -> Tensor:
        """The output of the second convolution, (N, width)."""
        if self.ricci is None:
            return super().encode(inputs)
        edges, curvature, is_edge = inputs.entries
        # 1 for every edge at the start, and for a node itself
        gate = 2 * torch.sigmoid(self.ricci[0] * curvature + self.ricci[1] * is_edge)
        gated = EdgeMatrix(edges.rows, edges.columns, gate * edges.values, edges.num_rows)
        graph: Any = WeightedGraph(inputs.features, gated)
        return super().encode(graph)

    def neighbourhoods(self, rows: Tensor, adjacency: Constant) -> Tensor:
        """Tangent vectors (N, width) in and out."""
        if self.k is None:
            return adjacency @ rows
        count = len(self._spaces)
        num_rows, width = rows.shape
        # coordinates of 0 fill up the last factor
        factors = F.pad(rows, (0, -width % count)).view(num_rows, count, -1)
        squares = self.curvatures[:, None] * squared64(factors)
        shrink = (HEMISPHERE / squares.clamp(min=HEMISPHERE)).sqrt()
        positions = position0(shrink.to(rows.dtype) * factors, self.curvatures)
        sums = (adjacency @ positions.flatten(1)).view_as(positions)
        weights = adjacency @ rows.new_ones(num_rows, 1)
        means = log0_of_sum(sums, self.curvatures)
        return weights * means.flatten(1)[:, :width]
