"""What the server learns from the hulls: it groups them, and trains a classifier on them (Sections 5.6 and 5.7)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.hull.classifier import Classifier, Kind
from curvfed.strategies.hull.codec import DecodedHulls
from curvfed.strategies.hull.grouping import group
from curvfed.strategies.hull.public_parameters import PublicParameters


@dataclass(frozen=True)
class Settings:
    """How the server learns: `hull.grouping`, `hull.classifier`, `hull.svm`, `hull.c` and the run's seed."""

    grouping: str = "assignment"
    kind: Kind = "poincare"
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
    """

    hulls: DecodedHulls
    groups: NDArray[np.int64]
    points: NDArray[np.float64]
    classifier: Classifier

    def per_vertex(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Values (h,) of the hulls, repeated for every vertex: (n,)."""
        return np.repeat(values, list(map(len, self.hulls.bins)))


def learn(hulls: DecodedHulls, public: PublicParameters, settings: Settings) -> Learned:
    """Group the decoded hulls and train on their vertices. The clients' classes are unknown here.

    Raises
    ------
    ValueError
        If there are fewer hulls than classes, or the grouping or a hard margin is not possible.
    """
    vertices = [public.quantizer.decode(bins) for bins in hulls.bins]
    groups = group(vertices, hulls.clients, public.num_classes, public.curvature, settings.grouping, settings.seed)
    points, labels = np.concatenate(vertices), np.repeat(groups, list(map(len, vertices)))
    classifier = Classifier.train(
        points, labels, public.curvature, settings.c, settings.hard, settings.seed, settings.kind
    )
    return Learned(hulls, groups, points, classifier)
