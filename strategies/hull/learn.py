"""What the server learns from the hulls: it groups them, and trains a classifier on them (Sections
5.6 and 5.7)."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.hull.bodies import Bodies, odd_clients, without
from curvfed.strategies.hull.classifier import Classifier, Kind
from curvfed.strategies.hull.codec import DecodedHulls
from curvfed.strategies.hull.grouping import group
from curvfed.strategies.hull.public_parameters import PublicParameters
from curvfed.strategies.hull.train import Comparison, calibrated, choose, trained


@dataclass(frozen=True)
class Settings:
    """How the server learns: `hull.grouping`, `hull.classifier`, `hull.svm`, `hull.c` and the run's
    seed."""

    grouping: str = "assignment"
    kind: Kind | Literal["auto"] = "poincare"
    hard: bool = False
    c: float = 0.0
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Learned:
    """The hulls, their groups, and the classifier of groups.

    Attributes
    ----------
    hulls : DecodedHulls
    groups : int array (h,)
        Per hull its group.
    points : array (n, 2)
        The centres of all hulls' bins, one hull after another.
    classifier : Classifier
        Predicts groups.
    odd : int array (o,)
        The anonymous clients that look odd beside the others.
    comparison : Comparison
        What an automatic choice was made among; empty without one.
    """

    hulls: DecodedHulls
    groups: NDArray[np.int64]
    points: NDArray[np.float64]
    classifier: Classifier
    odd: NDArray[np.int64]
    comparison: Comparison = field(default_factory=Comparison)

    def per_vertex(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Values (h,) of the hulls, repeated for every vertex: (n,)."""
        return np.repeat(values, list(map(len, self.hulls.bins)))


def learn(hulls: DecodedHulls, public: PublicParameters, settings: Settings) -> Learned:
    """Group the decoded hulls and train on their vertices. The clients' classes are unknown here.

    An automatic choice leaves the hulls of odd clients out; a kind that was asked for is trained on
    all, as published.

    Raises
    ------
    ValueError
        If there are fewer hulls than classes, or the grouping or a hard margin is not possible.
    """
    vertices = [public.quantizer.decode(bins) for bins in hulls.bins]
    groups = group(
        vertices,
        hulls.clients,
        public.num_classes,
        public.curvature,
        settings.grouping,
        settings.seed,
    )
    bodies = Bodies(vertices, groups, hulls.clients, public.curvature)
    odd = odd_clients(bodies)
    comparison = Comparison()
    if settings.kind == "auto":
        kept = without(bodies, odd)
        classifier, comparison = choose(kept, settings.c, settings.seed)
    else:
        kept = bodies
        classifier = trained(bodies, settings.kind, settings.c, settings.hard, settings.seed)
    classifier = calibrated(classifier, kept, settings.hard, settings.seed)
    return Learned(hulls, groups, bodies.points, classifier, odd, comparison)
