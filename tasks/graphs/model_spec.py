"""The settings of the networks for graphs, and their common linear maps."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class ModelSpec:
    """The settings of a network.

    Attributes
    ----------
    task : str
        "nodes" or "graphs".
    kind : str
        A key of `curvfed.tasks.graphs.models.registry.MODELS` of that task.
    num_features, num_classes, width : int
    dropout : float
    gate : bool
        Nodes: whether Lorentz and split layers mix in a high-pass.
    self_weight : bool
        Whole graphs: whether Lorentz layers learn the weight of a node relative to its neighbours.
    learns_curvature : bool
        Whether k is trained; otherwise the curvature keeps its initial value.
    curvature_map : str
        A key of `curvfed.tasks.graphs.lorentz.curvature.CURVATURE_MAPS`.
    estimates_curvature : bool
        Whether a small network adds to k, from statistics of the client's graph.
    mask_threshold : float or None
        In evaluation mask entries below it count as 0 (`curvfed.tasks.graphs.models.masked`);
        None: no masks.
    """

    task: str
    kind: str
    num_features: int
    num_classes: int
    width: int
    dropout: float
    gate: bool = True
    learns_curvature: bool = False
    curvature_map: str = "sigmoid"
    estimates_curvature: bool = False
    mask_threshold: float | None = None
    self_weight: bool = True


def start(weight: Tensor, bias: Tensor, gain: float = 1.0) -> None:
    """Initialise a linear map: Glorot's uniform weights times `gain`, biases of 0."""
    nn.init.xavier_uniform_(weight, gain)
    nn.init.zeros_(bias)


def start_all(*maps: nn.Linear, gain: float = 1.0) -> None:
    """Initialise several linear maps, in this order."""
    for linear in maps:
        start(linear.weight, linear.bias, gain)


class TimedLinear(nn.Linear):
    """A linear map with one more column, `time`, for the time coordinate; it is personal and starts
    at 0."""

    def __init__(self, num_in: int, num_out: int) -> None:
        super().__init__(num_in, num_out)
        self.time = nn.Parameter(torch.zeros(num_out))
        start(self.weight, self.bias)


def store_by_input(weight: Tensor) -> None:
    """Store the matrix that multiplies sparse features as (in, out); its visible shape stays (out,
    in).

    In each step the sparse kernels would copy a matrix stored (out, in), and its gradient twice,
    which takes a fifth of a GCN's step. For heads the usual order is faster.
    """
    weight.data = weight.data.t().contiguous().t()
