"""The settings of the networks for graphs, and their common linear maps."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from curvfed.tasks import plugins

MODELS: dict[str, dict[str, tuple[str, ...]]] = {
    "nodes": {
        "gcn": ("lorentz_gcn", "GCN"),
        "gated": ("lorentz_gcn", "GatedGCN"),
        "lorentz": ("lorentz_gcn", "LorentzGCN"),
        "split": ("lorentz_gcn", "SplitGCN"),
    },
    "graphs": {
        "gin": ("graph_models", "FlatGraphNet", "GINLayer"),
        "gcn": ("graph_models", "FlatGraphNet", "GCNLayer"),
        "lorentz": ("graph_models", "LorentzGIN"),
    },
}
"""By task and name: the module in `curvfed.tasks.graphs.models`, imported only for its models, the
class, and the class of its layers."""


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
        In evaluation mask entries below it count as 0 (FED-PUB);
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

    @property
    def min_parameters(self) -> int:
        """A lower bound on the number of parameters, from the widths alone; 0 for models of other
        packages.

        It counts at least half of the parameters of a wide network: one layer from the features
        and, between hidden layers, one for nodes or four for graphs.
        """
        if self.kind not in MODELS[self.task]:
            return 0
        hidden = 4 if self.task == "graphs" else 1
        return self.width * (self.num_features + hidden * self.width)

    def build(self, seed: int) -> nn.Module:
        """The model with its seeded initialisation; equal on every machine for equal arguments."""
        with torch.random.fork_rng(devices=[]):
            # torch.manual_seed would also seed the GPUs, and is slower.
            torch.default_generator.manual_seed(seed)
            model = self._built_in() if self.kind in MODELS[self.task] else self._from_package()
        if self.mask_threshold is not None:
            from curvfed.tasks.graphs.models.functional_embedding import add_embedding, add_masks

            add_embedding(add_masks(model, self.mask_threshold), self.width)
        return model

    def _built_in(self) -> nn.Module:
        file, *names = MODELS[self.task][self.kind]
        module = import_module(f"{__package__}.models.{file}")
        make, *layers = (getattr(module, name) for name in names)
        model: nn.Module = make(self, *layers)
        return model

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
