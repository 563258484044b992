"""Heads: from features (n, d) to logits (n, C), in flat space, on the sphere and in the Poincaré ball."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from curvfed.geometry import normal_coordinates, poincare, prototypes

CURVATURE = -1.0
"""Of the ball of `PoincareHead`: the unit ball."""

STARTS = {
    "linear": ("default", "orthonormal", "uniform"),
    "sphere": ("default", "orthonormal", "uniform"),
    "poincare": ("orthonormal", "uniform"),
}
"""Kinds of heads, and what each may start from."""

MOST_SPREAD = 2000
"""Classes whose prototypes are looked for, by a search of about two minutes for so many, and four times that for twice."""


@dataclass(frozen=True)
class HeadSpec:
    """What determines a head.

    Attributes
    ----------
    kind : str
        A key of `STARTS`.
    num_classes, dim : int
        C and d, both ≥ 1.
    fixed : bool
        Whether the weights are given by the server and never trained.
    start : str
        "default" is that of `torch.nn.Linear`; "orthonormal" rows where C ≤ d, else, as from "uniform", unit vectors of
        least maximal cosine.
    normalize : bool
        Whether a sphere's head brings the features to unit norm.
    scale : float
        Temperature τ of a sphere's head, which multiplies the logits: for cross-entropy, whose optimum depends on it.
    slope : float
        Norm s of the start of the prototypes in the ball, 0 < s < 1.

    Raises
    ------
    ValueError
        If an entry is not among the allowed ones, there are more than two prototypes in one dimension, or more than
        `MOST_SPREAD` to look for.
    """

    kind: str
    num_classes: int
    dim: int
    fixed: bool = False
    start: str = "default"
    normalize: bool = True
    scale: float = 1.0
    slope: float = 0.9

    def __post_init__(self) -> None:
        if self.kind not in STARTS:
            raise ValueError(f'head kind "{self.kind}": allowed is one of {", ".join(STARTS)}')
        if self.start not in STARTS[self.kind]:
            raise ValueError(f'start "{self.start}" of a {self.kind} head: allowed is {", ".join(STARTS[self.kind])}')
        if self.num_classes < 1 or self.dim < 1:
            raise ValueError(f"head: {self.num_classes} classes and embedding-dim {self.dim}; both must be ≥ 1")
        if self.start != "default" and self.dim == 1 and self.num_classes > 2:
            raise ValueError(
                f"embedding-dim 1 has room for 2 prototypes, and there are {self.num_classes} classes: use 2 or more"
            )
        if self.is_searched and self.num_classes > MOST_SPREAD:
            raise ValueError(
                f"{self.num_classes} classes; prototypes in {self.dim} dimensions are looked for for up to {MOST_SPREAD}"
            )
        if not 0 < self.scale < math.inf:
            raise ValueError(f"scale {self.scale} of the logits: a finite number > 0 is allowed")
        if not 0 < self.slope < 1:
            raise ValueError(f"slope s = {self.slope} of the prototypes: 0 < s < 1 is allowed, 0.9 is the paper's")

    @property
    def is_searched(self) -> bool:
        """Whether what it starts from is the end of a search."""
        fits = self.start == "orthonormal" and self.num_classes <= self.dim
        return self.start != "default" and not fits


class LinearHead(nn.Module):
    """Logits W z + b; weight (C, d), bias (C,), zero until they are given."""

    def __init__(self, spec: HeadSpec) -> None:
        super().__init__()
        self.weight = _zeros(spec, spec.num_classes, spec.dim)
        self.bias = _zeros(spec, spec.num_classes)

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, C)."""
        return F.linear(features, self.weight, self.bias)


class SphereHead(nn.Module):
    """Logits τ W z/‖z‖; weight (C, d), zero until it is given. SphereFed, Section 4.2."""

    def __init__(self, spec: HeadSpec) -> None:
        super().__init__()
        self.weight = _zeros(spec, spec.num_classes, spec.dim)
        self.normalize, self.scale = spec.normalize, spec.scale

    def inputs(self, features: Tensor) -> Tensor:
        """What the weights multiply: the features (n, d), where they are to be of unit norm."""
        return unit(features) if self.normalize else features

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, C)."""
        return self.scale * F.linear(self.inputs(features), self.weight)


class PoincareHead(nn.Module):
    """Logits −d(exp0(z), w) in the ball of curvature −1, so that the largest logit is the nearest prototype's.

    The features are read as tangent vectors at the origin: HyperFed's Eq. 6, for features of any length.

    Attributes
    ----------
    weight : Parameter, (C, d), zero until it is given
        Normal coordinates of the prototypes w, the tangent vectors log0(w) at the origin. Any vector is one, so that plain
        SGD and averaging apply wherever the prototypes are trained, and points would need Riemannian SGD and a Riemannian
        mean. What differs is the metric: along a ray its steps are those of Riemannian SGD at 4 times the rate; across
        they are, with r the length of the vector, (sinh(2r)/2r)² times as long as these, which is 10 at s = 0.9.
    """

    def __init__(self, spec: HeadSpec) -> None:
        super().__init__()
        self.weight = _zeros(spec, spec.num_classes, spec.dim)

    @property
    def prototypes(self) -> Tensor:
        """Points (C, d) of the ball."""
        return poincare.exp0(self.weight, CURVATURE)

    def forward(self, features: Tensor) -> Tensor:
        """(n, d) -> (n, C)."""
        return -normal_coordinates.cdist(features, self.weight, CURVATURE)

    def distances(self, features: Tensor, classes: Tensor) -> Tensor:
        """Distances (n, k) of features (n, d) from the prototypes of k classes each, (n, k): no more than a loss needs."""
        return normal_coordinates.cdist(features[:, None], F.embedding(classes, self.weight), CURVATURE)[:, 0]


HEADS: dict[str, type[nn.Module]] = {"linear": LinearHead, "sphere": SphereHead, "poincare": PoincareHead}


def make_head(spec: HeadSpec) -> nn.Module:
    """The head with weights of zero, to be given: looking for prototypes can take seconds."""
    return HEADS[spec.kind](spec)


def head_start(spec: HeadSpec, seed: int) -> dict[str, Tensor]:
    """The weights that a head starts from, or where it is fixed keeps, by the names of its parameters.

    Returns
    -------
    dict of str to Tensor, float32, on the CPU
        "weight" (C, d), and "bias" (C,) for a linear head. Equal arguments give equal bits on one machine; elsewhere
        a search for prototypes may end in another optimum, so fixed ones are sent, not made anew.
    """
    generator = torch.Generator().manual_seed(~seed)  # not the numbers that a body of the same seed starts from
    weight, bias = torch.empty(spec.num_classes, spec.dim), torch.zeros(spec.num_classes)
    if spec.start == "default":
        for tensor in (weight, bias):  # both uniform within ±1/√d
            tensor.uniform_(-(spec.dim**-0.5), spec.dim**-0.5, generator=generator)
    else:
        weight = _directions(spec, seed)
    return {"weight": weight, "bias": bias} if spec.kind == "linear" else {"weight": weight}


def unit(features: Tensor) -> Tensor:
    """z/‖z‖ (..., d), and 0 with a gradient of 0 where ‖z‖ is below √(smallest normal number), 1e-19 in float32."""
    norm = torch.linalg.vector_norm(features, dim=-1, keepdim=True)
    found: Tensor = features / norm.where(norm > torch.finfo(features.dtype).tiny ** 0.5, math.inf)
    return found


def _directions(spec: HeadSpec, seed: int) -> Tensor:
    find = prototypes.uniform if spec.is_searched else prototypes.orthonormal
    found = find(spec.num_classes, spec.dim, seed)
    if spec.kind == "poincare":
        found = poincare.log0(spec.slope * found, CURVATURE)
    return found.float()


def _zeros(spec: HeadSpec, *shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape), requires_grad=not spec.fixed)
