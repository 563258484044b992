"""HyperFed with shared prototypes that are averaged on the manifold: by RFedAGS (Huang et al.,
Riemannian Federated Learning via Averaging Gradient Streams, ICLR 2026), or in a tangent space."""

from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from curvfed.geometry import poincare
from curvfed.geometry.arrays import Array
from curvfed.strategies.base.aggregation import Replies
from curvfed.strategies.base.keys import Table
from curvfed.strategies.base.learner import Learner
from curvfed.strategies.base.method import IMAGES, Method
from curvfed.strategies.base.statistics import HEAD, Arrays
from curvfed.strategies.base.training import GradientTerm
from curvfed.strategies.methods.hyperfed import MARGINS, Consistent, SharedKeys, prototypes

PROTOTYPES = f"{HEAD}weight"

TABLE = "hyperfed-manifold"


class Keys(Table):
    """Keys of means on the manifold."""

    average: Literal["streams", "tangent", "coordinates"] = "streams"
    """mean of the clients' prototypes: streams: of the sums of all local steps, each moved parallel
    to the prototype before the round, as in RFedAGS; tangent: of the displacements from there to
    the prototypes after local training; coordinates: of the tangent vectors at the origin, as with
    hyperfed-shared"""


def displacements(starts: Tensor, ends: Tensor, seen_from: Tensor, curvature: float) -> Tensor:
    """The displacements log_x(y) from points x to points y of the ball, moved parallel along
    geodesics to points z, as tangent vectors at the origin after the translation of z there. All
    are (..., d).

    A translation is an isometry, and from the origin geodesics are straight: what is moved there
    along one changes its coordinates by the ratio of the conformal factors alone. At curvature 0
    displacements are differences.
    """
    if not curvature:
        return ends - starts
    begins = poincare.mobius_add(-seen_from, starts, curvature)
    stops = poincare.mobius_add(-seen_from, ends, curvature)
    shrink = 1 + curvature * begins.square().sum(-1, keepdim=True)
    return poincare.log(begins, stops, curvature) / shrink


def moved(weight: Array, mean: Array, curvature: float) -> Array:
    """Prototypes (C, d) after these `displacements`, by their normal coordinates."""
    starts = _points(torch.from_numpy(weight), curvature)
    if not curvature:
        return (starts.numpy() + mean).astype(weight.dtype)
    steps = poincare.exp0(torch.from_numpy(mean).double(), curvature)
    ends = poincare.mobius_add(starts, steps, curvature)
    return poincare.log0(ends, curvature).numpy().astype(weight.dtype)


def _points(weight: Tensor, curvature: float) -> Tensor:
    """Points of the ball, or at curvature 0 of flat space, in float64, by their normal
    coordinates."""
    rows = weight.detach().double()
    return poincare.exp0(rows, curvature) if curvature else rows


def _average(config: Any) -> str:
    average: str = config.table(TABLE).average
    return average


class ManifoldClient(Learner):
    """FedAvg's local work. Instead of its prototypes the client shares those before the round plus
    the tangent vector that the server averages, so that sums over clients are enough."""

    keys: SharedKeys
    hides_records = True

    def receive(self, arrays: Arrays) -> None:
        """Load the parameters; streams begin at the prototypes received."""
        super().receive(arrays)
        self._start = self.local.tensors[PROTOTYPES].detach().clone()
        self._place = _points(self._start, self.keys.curvature)
        self._stream = torch.zeros_like(self._place)

    def gradient_terms(self) -> list[GradientTerm]:
        """Those of every method, and one that changes no gradient: it adds the step before."""
        return [*super().gradient_terms(), self._add_step]

    @torch.no_grad()
    def _add_step(self) -> None:
        curvature = self.keys.curvature
        place = _points(self.local.tensors[PROTOTYPES], curvature)
        self._stream += displacements(
            self._place, place, _points(self._start, curvature), curvature
        )
        self._place = place

    @torch.no_grad()
    def share(self) -> Arrays:
        """The shared parameters, with the prototypes as the class says."""
        shared = super().share()
        average = _average(self.local.config)
        if average == "coordinates":
            return shared
        if average == "tangent":
            start = _points(self._start, self.keys.curvature)
            self._place = start
            self._stream.zero_()
        self._add_step()
        shared[PROTOTYPES] = (self._start.double() + self._stream).float().numpy(force=True)
        return shared


class ManifoldServer(Consistent):
    """HyperFed's aggregation, whose prototypes move by the mean of the clients' displacements."""

    name = "manifold"
    keys: SharedKeys

    def aggregate(self, replies: Replies) -> None:
        """Aggregate, then move the prototypes along the mean."""
        before = self._arrays
        super().aggregate(replies)
        if PROTOTYPES in before and _average(self.config) != "coordinates":
            old = before[PROTOTYPES]
            mean = np.subtract(self._arrays[PROTOTYPES], old, dtype=np.float64)
            self._arrays = self._arrays | {PROTOTYPES: moved(old, mean, self.keys.curvature)}


METHODS = {
    "hyperfed-manifold": Method(
        "hyperfed-shared with its prototypes averaged on the manifold, by RFedAGS or in a tangent"
        " space",
        space="flat",
        network=partial(prototypes, head_from="training"),
        client=ManifoldClient,
        server=ManifoldServer,
        tasks=IMAGES,
        keys={"hyperfed": SharedKeys, "hyperfed-manifold": Keys},
        tuned=MARGINS,
    ),
}
