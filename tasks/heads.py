"""Heads: from features (n, d) to logits (n, C), in flat space, on the sphere and by distances to
prototypes in a space of curvature 0 or below."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.geometry import normal_coordinates, poincare, prototypes
from curvfed.geometry.frames import Geodesic

MAX_SEARCHED = 2000
"""The maximum number of classes in a search for prototypes: the search takes about two minutes, and
four times that for twice the number."""


@dataclass(frozen=True, kw_only=True)
class HeadSettings:
    """The settings of a head that do not depend on its features and classes.

    Attributes
    ----------
    fixed : bool
        Whether the server sends the weights, which are then never trained.
    start : str
        "default", as in `torch.nn.Linear`, for linear heads and heads on the sphere; "uniform",
        unit vectors with the least maximal cosine; "orthonormal", orthonormal rows if C ≤ d, else
        as "uniform".
    normalize : bool
        Whether a head on the sphere scales the features to unit norm.
    scale : float
        Temperature τ > 0 of a head on the sphere: it multiplies the logits, on which the optimum of
        cross-entropy depends.
    curvature : float
        Of the space of the prototypes, at most 0.
    slope : float
        Norm s of the prototypes in the unit ball at the start, 0 < s < 1: at curvature −1. At any
        other curvature they lie in the same directions, at the same distance 2 artanh s from the
        origin.
    geodesic : bool
        Whether trained prototypes move along geodesics.
    learns_scale : bool
        Whether τ is a parameter that is trained while the weights are fixed.
    """

    fixed: bool = False
    start: str = "default"
    normalize: bool = True
    scale: float = 1.0
    curvature: float = -1.0
    slope: float = 0.9
    geodesic: bool = False
    learns_scale: bool = False


@dataclass(frozen=True)
class HeadSpec(HeadSettings):
    """The settings of a head, with those of `HeadSettings`.

    Attributes
    ----------
    kind : str
        A key of `HEADS`.
    num_classes, dim : int
        C and d, both ≥ 1.

    Raises
    ------
    ValueError
        If there are more than two prototypes in one dimension, or more than `MAX_SEARCHED` in a
        search.
    """

    kind: str
    num_classes: int
    dim: int

    def __post_init__(self) -> None:
        if self.start != "default" and self.dim == 1 and self.num_classes > 2:
            raise ValueError(
                f"embedding-dim 1 has room for 2 prototypes, and there are {self.num_classes}"
                " classes: use 2 or more"
            )
        if self.is_searched and self.num_classes > MAX_SEARCHED:
            raise ValueError(
                f"{self.num_classes} classes; the search for prototypes in {self.dim} dimensions"
                f" allows up to {MAX_SEARCHED}"
            )

    @property
    def is_searched(self) -> bool:
        """Whether a search finds the initial weights."""
        fits = self.start == "orthonormal" and self.num_classes <= self.dim
        return self.start != "default" and not fits


class LinearHead(nn.Module):
    """Logits W z + b; weight (C, d) and bias (C,) are zero until they are loaded."""

    def __init__(self, spec: HeadSpec) -> None:
        super().__init__()
        self.weight = _zeros(spec, spec.num_classes, spec.dim)
        self.bias = _zeros(spec, spec.num_classes)

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, C)."""
        return F.linear(features, self.weight, self.bias)


class MeansHead(LinearHead):
    """A `LinearHead` with `means` (C, d), mean features of each class that are not trained; they
    are 0 for an unknown class, and before they are loaded.

    Evaluation predicts the class of the nearest known mean, if there is one: its logits are the
    negative squared distances.
    """

    def __init__(self, spec: HeadSpec) -> None:
        super().__init__(spec)
        self.means = nn.Parameter(torch.zeros(spec.num_classes, spec.dim), requires_grad=False)

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, C)."""
        logits = super().forward(features)
        if self.training:
            return logits
        is_known = self.means.any(1)
        distances = flat_distances(features, self.means).square()
        # Finite: a logit that is not finite counts as no prediction.
        nearness = torch.where(is_known, -distances, -torch.finfo(distances.dtype).max)
        return torch.where(is_known.any(), nearness, logits)


class SphereHead(nn.Module):
    """Logits τ W z/‖z‖; weight (C, d) is zero until it is loaded. SphereFed, Section 4.2."""

    def __init__(self, spec: HeadSpec) -> None:
        super().__init__()
        self.weight = _zeros(spec, spec.num_classes, spec.dim)
        self.normalize = spec.normalize
        self.scale: float | Tensor = spec.scale
        if spec.learns_scale:
            self.scale = nn.Parameter(torch.tensor(spec.scale))

    def inputs(self, features: Tensor) -> Tensor:
        """The features (n, d) that the weights multiply, scaled to unit norm if `normalize` says
        so."""
        return unit(features) if self.normalize else features

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, C)."""
        return self.scale * F.linear(self.inputs(features), self.weight)


class PrototypeHead(nn.Module):
    """Logits −d(exp0(z), w) in a space of curvature c: the nearest prototype has the largest logit.

    The features are tangent vectors at the origin: HyperFed's Eq. 6, for features of any length.
    The distance is 2‖z − w‖ at c = 0, to which it tends as c goes to 0: the ball's metric is 4
    times the flat one at the origin.

    Attributes
    ----------
    weight : Parameter, (C, d), zero until it is loaded
        Normal coordinates of the prototypes w: the tangent vectors log0(w) at the origin. Every
        vector is a valid one, so that prototypes can be trained by plain SGD and averaged. The
        metric differs: along a ray, the steps are those of Riemannian SGD at 4 times the rate;
        across it they are (sinh(2r)/2r)² times as long as these, r the length of the vector, which
        is a factor of 10 at s = 0.9 and c = −1. With `geodesic` they are Riemannian SGD's at 4
        times the rate in all directions.
    """

    def __init__(self, spec: HeadSpec) -> None:
        super().__init__()
        self.weight = _zeros(spec, spec.num_classes, spec.dim)
        self.curvature = spec.curvature
        if spec.geodesic and spec.curvature:
            self.weight.chart = Geodesic(spec.curvature)  # type: ignore[attr-defined]

    @property
    def prototypes(self) -> Tensor:
        """Points (C, d): of the ball, scaled to radius 1, or of flat space."""
        if not self.curvature:
            return self.weight
        return poincare.exp0(self.weight * math.sqrt(-self.curvature), -1.0)

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, C)."""
        return -self._distances(features, self.weight)

    def distances(self, features: Tensor, classes: Tensor) -> Tensor:
        """Distances (n, k) of features (n, d) from the prototypes of k classes each, given by their
        numbers (n, k)."""
        return self._distances(features[:, None], F.embedding(classes, self.weight))[:, 0]

    def _distances(self, v: Tensor, w: Tensor) -> Tensor:
        if not self.curvature:
            return 2 * flat_distances(v, w)
        return normal_coordinates.cdist(v, w, self.curvature)


def flat_distances(v: Tensor, w: Tensor) -> Tensor:
    """Euclidean distances (..., n, m) of v (..., n, d) from w (..., m, d), by differences."""
    return torch.cdist(v, w, compute_mode="donot_use_mm_for_euclid_dist")


HEADS: dict[str, type[nn.Module]] = {
    "linear": LinearHead,
    "means": MeansHead,
    "sphere": SphereHead,
    "prototypes": PrototypeHead,
}


def make_head(spec: HeadSpec) -> nn.Module:
    """The head with zero weights; `head_start`, which can take seconds, computes the initial
    weights."""
    return HEADS[spec.kind](spec)


def head_start(spec: HeadSpec, seed: int) -> dict[str, Tensor]:
    """The initial weights of a head, final if the head is fixed, by the names of its parameters.

    Returns
    -------
    dict of str to Tensor, float32, on the CPU
        "weight" (C, d), "bias" (C,) for a linear head, and "means" (C, d) for one with class means.
        Equal arguments give equal bits on one machine; on another machine the search for prototypes
        may find another optimum, so fixed weights are sent, not computed again.
    """
    # The body uses the same seed, so the head needs another one.
    generator = torch.Generator().manual_seed(~seed)
    weight = torch.empty(spec.num_classes, spec.dim)
    bias = torch.zeros(spec.num_classes)
    if spec.start == "default":
        for tensor in (weight, bias):  # both uniform within ±1/√d
            tensor.uniform_(-(spec.dim**-0.5), spec.dim**-0.5, generator=generator)
    else:
        weight = _directions(spec, seed)
    if spec.kind == "means":
        return {"weight": weight, "bias": bias, "means": torch.zeros_like(weight)}
    if spec.kind == "linear":
        return {"weight": weight, "bias": bias}
    return {"weight": weight}


def unit(features: Tensor) -> Tensor:
    """z/‖z‖ (..., d), and 0 with a gradient of 0 where ‖z‖ is below √(smallest normal number),
    1e-19 in float32."""
    norm = torch.linalg.vector_norm(features, dim=-1, keepdim=True)
    smallest = torch.finfo(features.dtype).tiny ** 0.5
    return torch.div(features, norm.where(norm > smallest, math.inf))


def _directions(spec: HeadSpec, seed: int) -> Tensor:
    draw = prototypes.uniform if spec.is_searched else prototypes.orthonormal
    directions = draw(spec.num_classes, spec.dim, seed)
    if spec.kind == "prototypes":
        directions = poincare.log0(spec.slope * directions, -1.0)
    return directions.float()


def _zeros(spec: HeadSpec, *shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape), requires_grad=not spec.fixed)
