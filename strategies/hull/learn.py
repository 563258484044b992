"""The server's learning from the hulls: it groups them, and trains a classifier on them (Sections
5.6 and 5.7)."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.hull.classifier import Classifier, Kind
from curvfed.strategies.hull.classifier_choice import (
    Comparison,
    calibrate,
    choose_classifier,
    train_classifier,
)
from curvfed.strategies.hull.codec import DecodedHulls
from curvfed.strategies.hull.grouped_hulls import GroupedHulls, outlying_clients, without_clients
from curvfed.strategies.hull.grouping import group_hulls
from curvfed.strategies.hull.public_parameters import PublicParameters


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
        The group of each hull.
    points : array (n, 2)
        The centres of all hulls' bins, one hull after another.
    classifier : Classifier
        Predicts groups.
    outlying : int array (o,)
        The outlying anonymous clients.
    comparison : Comparison
        The comparison of an automatic choice; empty without one.
    """

    hulls: DecodedHulls
    groups: NDArray[np.int64]
    points: NDArray[np.float64]
    classifier: Classifier
    outlying: NDArray[np.int64]
    comparison: Comparison = field(default_factory=Comparison)

    def per_vertex(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Values (h,) of the hulls, repeated for every vertex: (n,)."""
        return np.repeat(values, list(map(len, self.hulls.bins)))


def learn(hulls: DecodedHulls, public: PublicParameters, settings: Settings) -> Learned:
    """Group the decoded hulls and train on their vertices. The clients' classes are unknown here.

    An automatic choice leaves out the hulls of outlying clients; a configured kind is trained on
    all hulls, as published.

    Raises
    ------
    ValueError
        If there are fewer hulls than classes, or the grouping or a hard margin is not possible.
    """
    vertices = [public.quantizer.decode(bins) for bins in hulls.bins]
    groups = group_hulls(
        vertices,
        hulls.clients,
        public.num_classes,
        public.curvature,
        settings.grouping,
        settings.seed,
    )
    bodies = GroupedHulls(vertices, groups, hulls.clients, public.curvature)
    outlying = outlying_clients(bodies)
    comparison = Comparison()
    if settings.kind == "auto":
        included = without_clients(bodies, outlying)
        classifier, comparison = choose_classifier(included, settings.c, settings.seed)
    else:
        included = bodies
        classifier = train_classifier(
            bodies, settings.kind, settings.c, settings.hard, settings.seed
        )
    classifier = calibrate(classifier, included, settings.hard, settings.seed)
    return Learned(hulls, groups, bodies.points, classifier, outlying, comparison)
