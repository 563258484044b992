"""The maps of hyperbolic space as we and peers have them, on the same points: for their errors and
for their seconds.

Peers are called the fastest way that they have, with curvatures that are exact: geoopt's
`Stereographic(k)` and `Lorentz(k)`, whose curvatures are k and −1/k, and HypLL's functions of c =
−curvature, past its manifold tensors (`Curvature(value)` would pass it through softplus in
float32). Whether a result is projected is each library's default; geoopt's Lorentz `expmap` is not
asked to make the vector tangent, which it is.
"""

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import geoopt
import torch
from torch import Tensor, nn

from curvfed.geometry import lorentz, poincare

with warnings.catch_warnings():
    # of its docstrings' escapes, when Python compiles them for the first time
    warnings.simplefilter("ignore")
    from hypll.manifolds.poincare_ball.math import diffgeom as hypll

DIM = 20
CURVATURES = (-1.0, -0.5)  # and their inverses: exact in every dtype
DTYPES = (torch.float32, torch.float64)

Map = Callable[..., Tensor]
Points = dict[str, Tensor]


class Operation(NamedTuple):
    """A map that we and peers have: module, name, its arguments by letters, and what a peer calls
    it.

    The letters are those of `points`: x, y points, u tangent at x, v tangent at the origin, w in
    the ball or not.
    """

    space: str
    name: str
    takes: str
    peers: dict[str, str]


OPERATIONS = [
    *(
        Operation(
            "poincare",
            name,
            takes,
            {"geoopt": "projx" if name == "project" else theirs, "HypLL": theirs},
        )
        for name, takes, theirs in (
            ("dist", "xy", "dist"),
            ("exp0", "v", "expmap0"),
            ("log0", "x", "logmap0"),
            ("exp", "xu", "expmap"),
            ("log", "xy", "logmap"),
            ("mobius_add", "xy", "mobius_add"),
            ("project", "w", "project"),
        )
    ),
    *(
        Operation("lorentz", name, takes, {"geoopt": theirs})
        for name, takes, theirs in (
            ("dist", "xy", "dist"),
            ("exp0", "v", "expmap0"),
            ("log0", "x", "logmap0"),
            ("exp", "xu", "expmap"),
            ("log", "xy", "logmap"),
            ("inner", "xy", "inner"),
            ("project", "x", "projx"),
        )
    ),
]


def bound(
    one: Operation, peer: str, curvature: float, dtype: torch.dtype, points: Points
) -> tuple[Map, list[Tensor]]:
    """The function of a peer, or ours for "", of a curvature, and its arguments."""
    arguments = [points[letter] for letter in one.takes]
    if not peer:
        function = getattr(poincare if one.space == "poincare" else lorentz, one.name)
        return function if one.name == "inner" else partial(_curved, function, curvature), arguments
    name = one.peers[peer]
    if peer == "HypLL":
        return (
            partial(_curved, getattr(hypll, name), torch.tensor(-curvature, dtype=dtype)),
            arguments,
        )
    if one.space == "poincare":
        return getattr(geoopt.Stereographic(k=curvature).to(dtype), name), arguments
    space = geoopt.Lorentz(k=-1 / curvature).to(dtype)
    if one.takes == "v":  # its tangent vectors at the origin have a time coordinate
        arguments = [torch.nn.functional.pad(points["v"], (1, 0))]
    if name == "inner":
        return partial(space.inner, None), arguments
    return (
        partial(space.expmap, norm_tan=False) if name == "expmap" else getattr(space, name)
    ), arguments


def _curved(function: Map, curvature: Any, *arguments: Tensor) -> Tensor:
    return function(*arguments, curvature)


def directions(num: int, generator: torch.Generator) -> Tensor:
    """Unit vectors, (num, DIM)."""
    v = torch.randn(num, DIM, generator=generator, dtype=torch.float64)
    unit: Tensor = v / v.norm(dim=-1, keepdim=True)
    return unit


def points(space: str, curvature: float, dtype: torch.dtype, x: Tensor, y: Tensor) -> Points:
    """Points at exp0 of vectors whose lengths are radii, and tangent vectors, rounded to a dtype.

    On the hyperboloid the space coordinates are rounded first, and then the times over them.
    """
    radius = 1 / math.sqrt(-curvature)
    v = (x * radius / 2).to(dtype)
    if space == "poincare":
        x, y = (poincare.exp0(z * radius / 2, curvature).to(dtype) for z in (x, y))
        u = poincare.log(x.double(), y.double(), curvature).to(dtype)
        return {"x": x, "y": y, "u": u, "v": v, "w": x.clone()}
    x, y = (lorentz.exp0(z * radius, curvature)[:, 1:].to(dtype).double() for z in (x, y))
    x, y = (lorentz.lift(z, curvature) for z in (x, y))
    u = lorentz.log(x, y, curvature)[:, 1:].to(dtype).double()
    u = torch.cat([(u * x[:, 1:]).sum(-1, keepdim=True) / x[:, :1], u], dim=-1)
    return {"x": x.to(dtype), "y": y.to(dtype), "u": u.to(dtype), "v": v}


class GeooptHead(nn.Module):
    """Logits −d(exp0(z), w) by geoopt."""

    def __init__(self, prototypes: Tensor) -> None:
        super().__init__()
        self._ball, self._prototypes = geoopt.Stereographic(k=-1.0), prototypes
        # its shape is asked for
        self.weight = nn.Parameter(prototypes.clone(), requires_grad=False)

    def forward(self, features: Tensor) -> Any:
        return -self._ball.dist(self._ball.expmap0(features)[:, None], self._prototypes)

    def distances(self, features: Tensor, classes: Tensor) -> Any:
        return self._ball.dist(self._ball.expmap0(features)[:, None], self._prototypes[classes])
