"""The maps of hyperbolic space against geoopt's and HypLL's: seconds on the same points, and the errors of both.

Peers are called the fastest way that they have, with curvatures that are exact: geoopt's `Stereographic(k)` and
`Lorentz(k)`, whose curvatures are k and −1/k, and HypLL's functions of c = −curvature, past its manifold tensors
(`Curvature(value)` would pass it through softplus in float32). Whether a result is projected is each library's default,
but that geoopt's Lorentz `expmap` is not asked to make the vector tangent, which it is.
"""

import math
import statistics
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import geoopt
import torch
from torch import Tensor

from benchmarks.exact import exact_results
from benchmarks.row import Place, Row
from benchmarks.timing import Ratio, compare
from curvfed.geometry import lorentz, poincare

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its docstrings' escapes, when Python compiles them for the first time
    from hypll.manifolds.poincare_ball.math import diffgeom as hypll

REPEATS, CALLS = 7, 5
BATCH, DIM = 10_000, 20
CURVATURES = (-1.0, -0.5)  # and their inverses: exact in every dtype
DTYPES = (torch.float32, torch.float64)

Map = Callable[..., Tensor]
Points = dict[str, Tensor]


@dataclass(frozen=True)
class Operation:
    """A map that we and peers have.

    Attributes
    ----------
    space, name : str
        Module and function of `geometry`.
    takes : str
        Letters of the arguments: x, y points, u tangent at x, v tangent at the origin, w in the ball or not.
    peers : dict of str to str
        What a peer calls it.
    """

    space: str
    name: str
    takes: str
    peers: dict[str, str]


def _ball(name: str, takes: str, theirs: str, of_geoopt: str = "") -> Operation:
    return Operation("poincare", name, takes, {"geoopt": of_geoopt or theirs, "HypLL": theirs})


OPERATIONS = [
    _ball("dist", "xy", "dist"),
    _ball("exp0", "v", "expmap0"),
    _ball("log0", "x", "logmap0"),
    _ball("exp", "xu", "expmap"),
    _ball("log", "xy", "logmap"),
    _ball("mobius_add", "xy", "mobius_add"),
    _ball("project", "w", "project", "projx"),
    Operation("lorentz", "dist", "xy", {"geoopt": "dist"}),
    Operation("lorentz", "exp0", "v", {"geoopt": "expmap0"}),
    Operation("lorentz", "log0", "x", {"geoopt": "logmap0"}),
    Operation("lorentz", "exp", "xu", {"geoopt": "expmap"}),
    Operation("lorentz", "log", "xy", {"geoopt": "logmap"}),
    Operation("lorentz", "inner", "xy", {"geoopt": "inner"}),
    Operation("lorentz", "project", "x", {"geoopt": "projx"}),
]


@dataclass(frozen=True)
class Spread:
    """Errors ‖result − exact‖/‖exact‖, Euclidean norms of all coordinates; for `inner` Σ|xᵢyᵢ| stands for ‖exact‖.

    Attributes
    ----------
    conditioned : float
        The largest in units of eps·(1 + condition): 1 is about what rounding arguments and result costs by itself.
    largest, median : float
        In units of eps alone, whatever the condition.
    bad : int
        Results that are not finite, which the other figures leave out.
    """

    conditioned: float
    largest: float
    median: float
    bad: int


@dataclass(frozen=True)
class Error:
    """How far results are from those of 80 digits, from next to the origin to next to the boundary."""

    what: str
    against: str
    dtype: str
    ours: Spread
    theirs: Spread


def rows(place: Place) -> list[Row]:
    """Every operation in both dtypes, forward, and forward and backward; a call does it once per curvature."""
    return [
        Row(
            f"{one.space}.{one.name}, {_name(dtype)}, forward{' and backward' * backward}",
            peer,
            "peer",
            partial(_seconds, one, peer, dtype, backward),
            1.0,
        )
        for one in OPERATIONS
        for dtype in DTYPES
        for backward in (False, True)
        for peer in one.peers
    ]


def errors(place: Place) -> list[Error]:
    """The same operations on 40 points of each curvature."""
    return [
        Error(f"{one.space}.{one.name}", peer, _name(dtype), found[""], found[peer])
        for one in OPERATIONS
        for dtype in DTYPES
        for found in [_spreads(one, dtype)]
        for peer in one.peers
    ]


def _seconds(one: Operation, peer: str, dtype: torch.dtype, backward: bool) -> Ratio:
    torch.set_num_threads(1)
    ours, theirs = [], []
    for curvature in CURVATURES:
        points = _batch(one.space, dtype, curvature)
        ours.append(_call(_ours(one, curvature), _arguments(one, points), backward))
        theirs.append(_call(_theirs(one, peer, curvature, dtype), _arguments(one, _for_peer(one, points)), backward))
    for _ in range(3):  # geoopt's scripts are compiled at the second call
        _all(ours + theirs)
    return compare(partial(_all, ours), partial(_all, theirs), REPEATS, CALLS)


def _call(function: Map, arguments: list[Tensor], backward: bool) -> Callable[[], object]:
    if not backward:
        return lambda: function(*arguments)
    leaves = [argument.clone().requires_grad_() for argument in arguments]
    ones = torch.ones_like(function(*arguments))
    return lambda: torch.autograd.grad(function(*leaves), leaves, ones)


def _all(calls: list[Callable[[], object]]) -> None:
    for call in calls:
        call()


def _ours(one: Operation, curvature: float) -> Map:
    function = getattr(poincare if one.space == "poincare" else lorentz, one.name)
    return function if one.name == "inner" else partial(_curved, function, curvature)


def _curved(function: Map, curvature: Any, *arguments: Tensor) -> Tensor:
    return function(*arguments, curvature)


def _theirs(one: Operation, peer: str, curvature: float, dtype: torch.dtype) -> Map:
    name = one.peers[peer]
    if peer == "HypLL":
        return partial(_curved, getattr(hypll, name), torch.tensor(-curvature, dtype=dtype))
    if one.space == "poincare":
        of_ball: Map = getattr(geoopt.Stereographic(k=curvature).to(dtype), name)
        return of_ball
    space = geoopt.Lorentz(k=-1 / curvature).to(dtype)
    if name == "inner":
        return lambda x, y: space.inner(None, x, y)
    return partial(space.expmap, norm_tan=False) if name == "expmap" else getattr(space, name)


def _arguments(one: Operation, points: Points) -> list[Tensor]:
    return [points[letter] for letter in one.takes]


def _for_peer(one: Operation, points: Points) -> Points:
    """geoopt's tangent vectors at the origin of the hyperboloid have a time coordinate."""
    return points | {"v": torch.nn.functional.pad(points["v"], (1, 0))} if one.space == "lorentz" else points


def _batch(space: str, dtype: torch.dtype, curvature: float) -> Points:
    """Points up to r = 6, where no library has to project, of which `w` goes beyond for every tenth."""
    generator = torch.Generator().manual_seed(0)
    x, y = (_directions(BATCH, generator) for _ in range(2))
    radii = 6 * torch.rand(2, BATCH, 1, generator=generator, dtype=torch.float64)
    points = _points(space, curvature, dtype, radii[0] * x, radii[1] * y)
    if "w" in points:
        points["w"][::10] *= 2 / math.sqrt(-curvature) / points["w"][::10].norm(dim=-1, keepdim=True)
    return points


def _hard_points(space: str, dtype: torch.dtype, curvature: float) -> Points:
    """40 pairs: apart and across, near each other, near the origin, up to 0.9 of the radius where the dtype's ball ends."""
    generator = torch.Generator().manual_seed(1)
    x, y = [], []
    end = 2 * math.atanh(1 - 16 * torch.finfo(dtype).eps)
    for r in (1e-6, 1e-3, 0.1, 1.0, 3.0, 6.0, 9.0, 0.9 * end):
        at, *others = _directions(4, generator)
        x += 5 * [r * at]
        y += [r * others[0], -0.9 * r * at, 1.01 * r * at, 1e-3 * others[1], r / 2 * others[2]]
    return _points(space, curvature, dtype, torch.stack(x), torch.stack(y))


def _points(space: str, curvature: float, dtype: torch.dtype, x: Tensor, y: Tensor) -> Points:
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


def _directions(num: int, generator: torch.Generator) -> Tensor:
    v = torch.randn(num, DIM, generator=generator, dtype=torch.float64)
    unit: Tensor = v / v.norm(dim=-1, keepdim=True)
    return unit


def _spreads(one: Operation, dtype: torch.dtype) -> dict[str, Spread]:
    """Of peers by their names, and of ours, whose name is ""."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ("", *one.peers)}
    for curvature in CURVATURES:
        points = _hard_points(one.space, dtype, curvature)
        arguments, of_peer = _arguments(one, points), _arguments(one, _for_peer(one, points))
        expected = exact_results(one.space, one.name, curvature, [argument.tolist() for argument in arguments])
        for name, errors_of in found.items():
            got = _theirs(one, name, curvature, dtype)(*of_peer) if name else _ours(one, curvature)(*arguments)
            if name and (one.space, one.name) == ("lorentz", "log0"):
                got = got[:, 1:]  # as a tangent vector at the origin of the hyperboloid it has a time of 0
            rows_of = got.reshape(len(expected), -1).tolist()
            errors_of += [exact.errors(row) for row, exact in zip(rows_of, expected, strict=True)]
    return {name: _spread(errors_of, torch.finfo(dtype).eps) for name, errors_of in found.items()}


def _spread(found: list[tuple[float, float]], eps: float) -> Spread:
    finite = [pair for pair in found if math.isfinite(pair[0])]
    plain = [error / eps for error, _ in finite]
    conditioned = max(error / eps / (1 + condition) for error, condition in finite)
    return Spread(conditioned, max(plain), statistics.median(plain), len(found) - len(finite))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
