"""A Lorentz classifier of images: FlatLand's layer and distances behind a flat body."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from curvfed.tasks.draws import seeded
from curvfed.tasks.graphs.lorentz_layers import lift
from curvfed.tasks.graphs.lorentz_modules import LorentzLinear, LorentzReadout
from curvfed.tasks.graphs.ricci import CurvedNet
from curvfed.tasks.heads import unit
from curvfed.tasks.images.models import ImageNet


class LorentzHead(CurvedNet):
    """Features, scaled to unit norm, are tangent vectors at the origin; exp0 lifts them to a
    hyperboloid, a Lorentz linear layer with ReLU moves them, and the nearest of one point per class
    has the largest logit.

    FlatLand's Eqs. 1 and 4 and the classifier of `curvfed.tasks.graphs.graph_models.LorentzGCN`,
    without a neighbourhood; the rows of its graphs have unit norm, too (`normalize`). At curvature
    0 it is a flat layer and squared Euclidean distances.

    Parameters
    ----------
    dim : int
        Width of the features and of the layer.
    num_classes : int
    curvature_map : str
        A key of `curvfed.tasks.graphs.ricci.CURVATURE_MAPS`.
    curvature : float or None
        At most 0; None: learned from −1 on, by `k`.
    """

    def __init__(
        self, dim: int, num_classes: int, curvature_map: str, curvature: float | None
    ) -> None:
        super().__init__(curvature_map, curvature)
        self.layer = LorentzLinear(dim, dim)
        self.readout = LorentzReadout(dim, num_classes)

    def forward(self, features: Tensor) -> Tensor:
        """(n, dim) -> logits (n, num_classes)."""
        curvature = self.curvature
        tangents = unit(features)
        norms = torch.linalg.vector_norm(tangents, dim=-1, keepdim=True)
        space, _ = lift(tangents, norms, curvature)
        hidden = F.relu(self.layer(space, curvature))
        logits: Tensor = self.readout(hidden, curvature)
        return logits


class LorentzImageNet(ImageNet):
    """A body for images and a `LorentzHead`."""

    head: LorentzHead

    @property
    def curvature(self) -> Tensor | float:
        """The sectional curvature of the classifier's space."""
        return self.head.curvature


@dataclass(frozen=True)
class LorentzImages:
    """Puts a `LorentzHead` in place of the linear classifier of a network for images.

    Attributes
    ----------
    curvature_map, curvature
        As in `LorentzHead`.
    """

    curvature_map: str
    curvature: float | None

    def __call__(self, model: ImageNet, seed: int) -> LorentzImageNet:
        """The network with the same body and a new head, which the seed initialises."""
        num_classes, dim = model.get_parameter("head.weight").shape
        # The body uses the same seed, so the head needs another one.
        with seeded(~seed):
            head = LorentzHead(dim, num_classes, self.curvature_map, self.curvature)
        return LorentzImageNet(model.body, head)
