"""What the server does with the hulls: group them, and train a classifier on their points (Sections 5.6 and 5.7)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from curvfed.strategies.hull.classifier import Classifier, Kind
from curvfed.strategies.hull.grouping import group
from curvfed.strategies.hull.public import Public

Bins = NDArray[np.uint64]


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
    """The hulls as one table, a row per vertex, and what was made of them.

    Attributes
    ----------
    bins : uint64 array (n,)
    points : array (n, 2)
        Centres of the bins.
    clients, hulls, groups : int arrays (n,)
        The anonymous client, the number of the hull over all clients, and the group that it was put in.
    classifier : Classifier
        Predicts groups.
    """

    bins: Bins
    points: NDArray[np.float64]
    clients: NDArray[np.int64]
    hulls: NDArray[np.int64]
    groups: NDArray[np.int64]
    classifier: Classifier


def learn(clients: Sequence[Sequence[Bins]], public: Public, settings: Settings) -> Learned:
    """Group the decoded hulls and train on them. No class of any client is known here.

    Parameters
    ----------
    clients : sequence of sequences of uint64 arrays
        Of `curvfed.strategies.hull.codec.decode_hulls`.

    Raises
    ------
    ValueError
        If there are fewer hulls than classes, or the grouping or a hard margin is not possible.
    """
    quantizer = public.quantizer
    corners = [[quantizer.decode(bins) for bins in hulls] for hulls in clients]
    groups = group(corners, public.num_classes, public.curvature, settings.grouping, settings.seed)
    rows = [
        (bins, client, number)
        for client, hulls, numbers in zip(range(len(clients)), clients, groups, strict=True)
        for bins, number in zip(hulls, numbers, strict=True)
    ]
    sizes = [len(bins) for bins, _, _ in rows]
    points = np.concatenate([corner for hulls in corners for corner in hulls])
    numbers = np.repeat([number for _, _, number in rows], sizes)
    classifier = Classifier.train(
        points, numbers, public.curvature, settings.c, settings.hard, settings.seed, settings.kind
    )
    return Learned(
        np.concatenate([bins for bins, _, _ in rows]),
        points,
        np.repeat([client for _, client, _ in rows], sizes),
        np.repeat(np.arange(len(rows)), sizes),
        numbers,
        classifier,
    )
