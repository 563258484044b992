"""HyperFed (Liao et al., IJCAI 2023): prototypes in the Poincaré ball, consistent aggregation, and
its ablations."""

import math
from functools import partial
from typing import Literal

import numpy as np
from pydantic import Field

from curvfed.geometry.arrays import Floats
from curvfed.geometry.min_norm import frank_wolfe_point, min_norm_point
from curvfed.strategies.base.aggregation import Average, Replies
from curvfed.strategies.base.deviations import gram, weighted_step
from curvfed.strategies.base.keys import Rate, Table
from curvfed.strategies.base.method import IMAGES, Method, Network

STEPS = 250
"""Frank-Wolfe steps; a relative gap of about 1% is left."""


class PrototypeKeys(Table):
    """Keys of HyperFed and its ablations."""

    curvature: Rate = Field(default=-1.0, le=0)
    """curvature of the space of features and prototypes; 0: flat space, the limit of the curved
    ones, with the same tangent vectors at the origin as prototypes"""
    slope: Rate = Field(default=0.9, gt=0, le=0.99999)
    """s, the Euclidean norm of the prototypes in the unit ball; 1 would be the boundary, at an
    infinite distance, and float32 cannot separate norms close to it. At any curvature the
    prototypes are at the distance 2 artanh s from the origin"""
    margin: Rate = Field(default=3.0, ge=0)
    """m of the triplet loss, a hyperbolic distance. The loss can reach 0 only if m is at most the
    smallest distance of two prototypes"""
    negatives: Literal["one", "all"] = "one"
    """prototypes of other classes that a step pushes an image away from: one drawn at random, as
    published, or the mean over all"""
    mixup: Rate = Field(default=0.0, ge=0)
    """weight of a mixup cross-entropy on cosine logits; the authors' code adds it with weight 2,
    the paper does not have it"""


class Keys(PrototypeKeys):
    """Keys of methods with consistent aggregation."""

    retired = (("steps", 250),)

    deviations: Literal["unit", "raw"] = "unit"
    """the vectors that consistent aggregation combines to the least norm: the clients' deviations
    at unit length, as in the authors' code, or raw, as in the paper, where the smallest deviations
    dominate"""
    solver: Literal["exact", "frank-wolfe"] = "exact"
    """how consistent aggregation finds the point of least norm: exactly, or by 250
    Frank-Wolfe steps, which leave a relative gap of about 1%, as published"""
    radius: Rate = Field(default=0.2, ge=0)
    """maximum distance of a client's weight from its share of the examples, times the number of
    clients K: 0 is averaging, K or more is unbounded as in the paper"""
    still: Rate = Field(default=0.01, ge=0, lt=1)
    """a client whose update is at most this share of the longest keeps its share of the examples as
    weight, since the least norm would give it all. 0: no such rule, as published; with raw
    deviations an update of exactly 0 then gets all the weight that hyperfed.radius allows"""
    direction: Literal["consistent", "average"] = "consistent"
    """for controls: direction of the server's step: that of consistent aggregation or the
    average's"""
    length: Literal["consistent", "average"] = "consistent"
    """for controls: length of the server's step: that of consistent aggregation or the average's,
    which is usually longer"""


class SharedKeys(Keys):
    """Keys of prototypes that are trained."""

    steps_of_prototypes: Literal["flat", "geodesic"] = "flat"
    """how the shared prototypes move: flat: by steps of their tangent vectors at the origin, or
    geodesic: along geodesics, by Riemannian SGD. Close to the origin both are the same"""

    def idle(self) -> tuple[str, ...]:
        """At curvature 0 geodesics are straight."""
        return () if self.curvature else ("steps_of_prototypes",)


_SHORTEST = 1e-15  # shorter deviations have no direction: their squares underflow in float32
# deviations cancel if the norm of their sum is at most this share of the sum of their norms
_CANCELLED = 1e-3
_AVERAGED = "averaged: "


class Consistent(Average):
    """θ + Σ pₖΔₖ with weights near the clients' shares of the data that minimise the norm of the
    sum, Δₖ = θₖ − θ.

    HyperFed's Eqs. 8 to 10: min ‖Σ pₖΔₖ‖ over the simplex, solved exactly
    (`curvfed.geometry.min_norm`), or by the paper's Eq. 11, Frank-Wolfe steps. Published code and
    paper differ, and both have a weakness: the exact solution prefers the client that moved least,
    so a client with a loss of 0 gets all the weight and the model stops learning. Therefore

    - deviations can be scaled to unit length for the choice of weights, as in the authors' code;
      the weights are then applied to the raw deviations;
    - weights stay near the shares p0 of the examples, |pₖ − p0ₖ| ≤ radius/K over the K clients with
      examples, as in FedMGDA+ (Hu et al., 2020);
    - a client that hardly moved, by at most a share `hyperfed.still` of the longest deviation,
      keeps its share as weight and does not affect the other weights; the bound above holds for
      all clients. A share of 0 switches this off;
    - the round is averaged if fewer than two clients moved, and its note says why.

    Running statistics are averaged by examples. Where the deviations cancel, the sum is 0 and the
    model does not change. This is intended, because no step then improves all clients (a
    Pareto-stationary point); the note says so.

    A radius of 0 is the average, bit for bit; K and more is unbounded, with raw deviations the
    paper's aggregation.
    """

    keys: Keys

    def aggregate(self, replies: Replies) -> None:
        """Choose the weights, and add the weighted sum of the deviations. Reports the weights p,
        their L1 distance from the shares p0, the ratio of norms, and the note."""
        total = sum(update.weight for update in replies.values())
        shares = {p: update.weight / total if total else 0.0 for p, update in replies.items()}
        active = [p for p, share in shares.items() if share]
        prior = np.array([shares[p] for p in active])
        ratio: float | None = 1.0
        weights = prior
        note = "" if active else _AVERAGED + "no client has examples"
        if active and self.keys.radius > 0:
            products = gram(self._arrays, [replies[p].arrays for p in active])
            keys = self.keys
            steps = STEPS if keys.solver == "frank-wolfe" else 0
            is_unit = keys.deviations == "unit"
            weights, note = consistent_weights(
                products, prior, keys.radius, is_unit, steps, keys.still
            )
            ratio = norm_ratio(products, weights, prior)
            weights = self._step(weights, prior, ratio)
        self.weights = shares | dict(zip(active, weights.tolist(), strict=True))
        if np.array_equal(weights, prior):
            super().aggregate(replies)
        else:
            self._arrays = weighted_step(
                self._arrays, list(replies.values()), list(self.weights.values())
            )
        self.round_figures = {
            "weights": " ".join(f"{p}:{weight:.4g}" for p, weight in self.weights.items()),
            "weights_l1": float(np.abs(weights - prior).sum()),
            "norm_ratio": ratio,
            "aggregation_note": note,
        }

    def _step(self, weights: Floats, prior: Floats, ratio: float | None) -> Floats:
        """The weights of the step with the direction and the length that are asked for; as it is
        where either is 0."""
        direction = self.keys.direction
        if direction == self.keys.length or not ratio:
            return prior if direction == "average" else weights
        if direction == "average":
            return prior * ratio
        return weights / ratio


def consistent_weights(
    products: Floats,
    prior: Floats,
    radius: float,
    unit: bool,
    steps: int = 0,
    still: float = 0.01,
) -> tuple[Floats, str]:
    """The weights of a round, and a note on how they were chosen.

    Parameters
    ----------
    products : array (K, K)
        Inner products of the raw deviations (`curvfed.strategies.base.deviations.gram`).
    prior : array (K,)
        The clients' shares of the examples, all > 0.
    radius : float
    unit : bool
        As in `Consistent`.
    steps : int
        Number of Frank-Wolfe steps; 0 for the exact solution.
    still : float
        Deviations up to this share of the longest keep their share of the examples as weight; 0
        for none. Unit deviations of less than 1e-15 do so at any value, as they have no direction.

    Returns
    -------
    weights : array (K,)
        On the simplex, within radius/K of the prior.
    note : str
        The reason if the weights are the prior, or a note if the deviations cancel; else "".
    """
    if not np.isfinite(products).all():
        return prior, _AVERAGED + "a deviation is too long to be squared"
    lengths = np.sqrt(products.diagonal())
    moving = lengths > max(still * lengths.max(), _SHORTEST)
    if not still and not unit:
        moving[:] = moving.any()
    if moving.sum() < 2:
        return prior, _AVERAGED + ("one client alone moved" if moving.any() else "no client moved")
    chosen = products[np.ix_(moving, moving)]
    if unit:
        chosen = chosen / lengths[moving] / lengths[moving, None]
    # Clients that do not move keep their shares. The others divide the remaining weight, relative
    # to which the bounds are wider.
    free = prior[moving].sum()
    weights = prior.copy()
    reach = radius / len(prior) / free
    start = prior[moving] / free
    bound = reach * chosen.shape[0]
    if steps:
        weights[moving] = free * frank_wolfe_point(chosen, start, bound, steps)
    else:
        weights[moving] = free * min_norm_point(chosen, start, bound)
    if _norm(products, weights) <= _CANCELLED * (weights @ lengths):
        return weights, "the deviations cancel, the model stays"
    return weights, ""


def norm_ratio(products: Floats, weights: Floats, prior: Floats) -> float | None:
    """‖Σ pₖΔₖ‖ / ‖Σ p0ₖΔₖ‖ of the raw deviations; None if the average does not move.

    At most 1, up to rounding, if the weights were chosen for the raw deviations; can be above 1
    with unit deviations.
    """
    if not np.isfinite(products).all():
        return None
    before = _norm(products, prior)
    if before <= _CANCELLED * (prior @ np.sqrt(products.diagonal())):
        return None
    return _norm(products, weights) / before


def _norm(products: Floats, weights: Floats) -> float:
    return math.sqrt(max(float(weights @ products @ weights), 0.0))


def prototypes(keys: PrototypeKeys, head_from: str = "server", loss: str = "triplet") -> Network:
    """A classifier by distances to prototypes, and its loss."""
    settings = {"margin": keys.margin, "negatives": keys.negatives, "mixup": keys.mixup}
    options = {"start": "uniform", "slope": keys.slope, "curvature": keys.curvature}
    if isinstance(keys, SharedKeys):
        options["geodesic"] = keys.steps_of_prototypes == "geodesic"
    return Network("prototypes", head_from, loss, settings, options)


MARGINS = {"images": {"hyperfed.margin": (1.0, 5.0)}}

METHODS = {
    "hyperfed": Method(
        "fixed prototypes spread in the Poincaré ball, hyperbolic triplet loss, consistent"
        " aggregation",
        space="flat",
        network=prototypes,
        server=Consistent,
        tasks=IMAGES,
        keys={"hyperfed": Keys},
        tuned=MARGINS,
    ),
    "hyperfed-averaged": Method(
        "hyperfed with the average instead of consistent aggregation",
        space="flat",
        network=prototypes,
        tasks=IMAGES,
        keys={"hyperfed": PrototypeKeys},
        tuned=MARGINS,
    ),
    "hyperfed-fixed": Method(
        "hyperfed with fixed prototypes that are not shared: every client spreads its own",
        space="flat",
        personal=("head.*",),
        network=partial(prototypes, head_from="client"),
        server=Consistent,
        tasks=IMAGES,
        keys={"hyperfed": Keys},
        tuned=MARGINS,
    ),
    "hyperfed-shared": Method(
        "hyperfed with shared prototypes that are not fixed: they are trained and aggregated too",
        space="flat",
        network=partial(prototypes, head_from="training"),
        server=Consistent,
        tasks=IMAGES,
        keys={"hyperfed": SharedKeys},
        tuned=MARGINS,
    ),
    "hyperfed-geodesic": Method(
        "hyperfed with the geodesic distance to the prototype of the class instead of the triplet"
        " loss",
        space="flat",
        network=partial(prototypes, loss="geodesic"),
        server=Consistent,
        tasks=IMAGES,
        # The length of its gradient does not fall near the prototype: at the .1 of the others it
        # does not converge.
        settings={"images": {"learning_rate": 0.02}},
        keys={"hyperfed": Keys},
    ),
}
