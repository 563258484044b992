"""What determines a model's shape, and how its linear maps start."""

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class ModelSpec:
    """What determines a model's shape.

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
        Whole graphs: whether Lorentz layers learn how much a node weighs beside its neighbours.
    learns_curvature : bool
        Whether k is trained; else the curvature stays where it starts.
    curvature_map : str
        A key of `curvfed.tasks.graphs.lorentz.curvature.CURVATURE_MAPS`.
    estimates_curvature : bool
        Whether a small network on statistics of the client's graph adds to k.
    mask_threshold : float or None
        Below which an entry of a mask counts as 0 in evaluation (`curvfed.tasks.graphs.models.masked`); None is no masks.
    """

    task: str
    kind: str
    num_features: int
    num_classes: int
    width: int
    dropout: float
    gate: bool
    learns_curvature: bool
    curvature_map: str = "sigmoid"
    estimates_curvature: bool = False
    mask_threshold: float | None = None
    self_weight: bool = True


def start(weight: Tensor, bias: Tensor) -> None:
    """The start of a linear map: Glorot's uniform weights, biases of 0."""
    nn.init.xavier_uniform_(weight)
    nn.init.zeros_(bias)
