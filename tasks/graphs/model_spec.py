"""The settings of the networks for graphs, and their common parts: linear maps and dropout."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.tasks import plugins
from curvfed.tasks.draws import generator, seeded

_LEVELS = 1 << 16


def is_transformed() -> bool:
    """Whether `torch.func` is at work, as for gradients of single graphs: it takes neither
    operations with a backward pass of their own nor this file's random numbers."""
    return torch._C._are_functorch_transforms_active()


def dropout(x: Tensor, probability: float, training: bool) -> Tensor:
    """Set entries to 0 with a probability and divide the others by 1 − probability, as
    `torch.nn.functional.dropout`.

    Dropout with random numbers ten times faster than torch's on the CPU, which take a sixth of a
    GCN's step.
    """
    if training and probability:
        return x * dropout_factors(x, probability)
    return x


def dropout_factors(like: Tensor, probability: float) -> Tensor:
    """The factors of dropout: 0 with a probability, else a constant, with mean 1.

    On the CPU four entries share one 64-bit number of torch's generator. The probability is thus
    rounded to 1/65,536, and the constant belongs to the rounded probability.

    Parameters
    ----------
    like : Tensor
        Has the shape, dtype (float32 or float64) and device of the result.
    probability : float
        In [0, 1).

    Returns
    -------
    Tensor
        Without a gradient.
    """
    if like.device.type != "cpu" or is_transformed():
        return F.dropout(torch.ones_like(like), probability)
    count = (like.numel() + 3) // 4  # four draws of 16 bits in each
    numbers = torch.empty(count, dtype=torch.int64).random_(-(2**63), None, generator=generator())
    levels = numbers.view(torch.int16)[: like.numel()].view(like.shape).to(like.dtype)
    num_dropped = min(round(probability * _LEVELS), _LEVELS - 1)
    # Levels are whole numbers in [-32768, 32767], so the factors are 0 or 1 without a comparison,
    # which is slow.
    factors = levels.sub_(num_dropped - _LEVELS // 2 - 1).clamp_(0, 1)
    return factors.mul_(_LEVELS / (_LEVELS - num_dropped))


MODELS: dict[str, dict[str, tuple[str, ...]]] = {
    "nodes": {
        "gcn": ("GCN",),
        "gated": ("GatedGCN",),
        "mean": ("MeanGCN",),
        "lorentz": ("LorentzGCN",),
        "split": ("SplitGCN",),
    },
    "graphs": {
        "gin": ("FlatGraphNet", "GINLayer"),
        "gcn": ("FlatGraphNet", "GCNLayer"),
        "lorentz": ("LorentzGIN",),
        "lorentz-gcn": ("PooledLorentzGCN",),
    },
}
"""The class by task and name in `curvfed.tasks.graphs.graph_models`, and that of its layers."""


@dataclass(frozen=True)
class ModelSpec:
    """The settings of a network.

    Attributes
    ----------
    task : str
        "nodes" or "graphs".
    kind : str
        A key of `MODELS` of that task, or a model of another package.
    num_features, num_classes, width : int
    dropout : float
    gate : bool
        Whether the layers of Lorentz GCNs and of the split network mix in a high-pass.
    self_weight : bool
        Whole graphs: whether the layers of the Lorentz GIN learn the weight of a node relative to
        its neighbours.
    curvature : float or None
        Of a Lorentz network, at most 0; None: trained, by the scalar k.
    curvature_map : str
        A key of `curvfed.tasks.graphs.ricci.CURVATURE_MAPS`.
    estimates_curvature : bool
        Whether a small network adds to k, from statistics of the client's graph.
    addition : callable or None
        Adds parts to an initialised network, in place. Its arguments are the network and `width`.
    """

    task: str
    kind: str
    num_features: int
    num_classes: int
    width: int
    dropout: float
    gate: bool = True
    curvature: float | None = -1.0
    curvature_map: str = "sigmoid"
    estimates_curvature: bool = False
    addition: Callable[[nn.Module, int], None] | None = None
    self_weight: bool = True

    @property
    def min_parameters(self) -> int:
        """A lower bound on the number of parameters, from the widths alone; 0 for models of other
        packages.

        It counts at least half of the parameters of a wide network: one layer from the features
        and, between hidden layers, one for nodes or four for graphs, in FlatLand's network two.
        """
        if self.kind not in MODELS[self.task]:
            return 0
        hidden = 1 if self.task == "nodes" else 4
        if self.kind == "lorentz-gcn":
            hidden = 2
        return self.width * (self.num_features + hidden * self.width)

    def build(self, seed: int) -> nn.Module:
        """The model with its seeded initialisation; equal on every machine for equal arguments."""
        is_built_in = self.kind in MODELS[self.task]
        with seeded(seed, shares=not is_built_in):
            model = self._built_in() if is_built_in else self._from_package()
        if self.addition is not None:
            self.addition(model, self.width)
        return model

    def _built_in(self) -> nn.Module:
        module = import_module(f"{__package__}.graph_models")
        make, *layers = (getattr(module, name) for name in MODELS[self.task][self.kind])
        return make(self, *layers)

    def _from_package(self) -> nn.Module:
        """The model of another package, with arguments x, edge_index and, for whole graphs, batch.

        A hook before its `forward` computes these from `GraphInputs`, so that its parameters keep
        their names.
        """
        model: nn.Module = plugins.model(self.kind, self.num_features, self.num_classes)
        model.register_forward_pre_hook(_arguments, with_kwargs=True)
        return model


def _arguments(
    model: nn.Module, arguments: Any, keywords: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    inputs = arguments[0]
    batch = {} if inputs.graph_of_node is None else {"batch": inputs.graph_of_node}
    return (inputs.dense, inputs.edge_index), batch


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
