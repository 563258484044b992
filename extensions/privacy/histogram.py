"""Both halves with `dp.unit = record`: a differentially private histogram of each class's points
over the cells of a public grid, in place of exact hulls.

A point is in one cell of one class, so it changes the histogram by 1 in one number. The server
keeps the cells that stand out of the noise; their hulls outline the classes, and the classifier is
trained on their centres.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.stats import norm

from curvfed.geometry import poincare
from curvfed.geometry.arrays import Floats, Integers
from curvfed.strategies.base.one_shot import Evaluation, Half, Model, ServerPoints, Vectors
from curvfed.strategies.base.point_classifier import ClassSumsClient, NamedClassesServer
from curvfed.strategies.base.statistics import Arrays, Statistics
from curvfed.strategies.errors import HullError
from curvfed.strategies.hull.classifier_choice import calibrate, kind_of, train_classifier
from curvfed.strategies.hull.grouped_hulls import GroupedHulls
from curvfed.tasks.amounts import amount

REACH = 4.0
"""Maximum length of tangent vectors at the origin in cells, at curvature -1: points within .0007 of
the rim. Longer ones are shortened to it."""

NOISE_PASSES = 0.05
"""Maximum probability that noise alone lifts any of the empty cells over the threshold."""

MAX_POINTS = 4000
"""Maximum number of points that the classifier is trained on, in proportion to the counts, at least
one for each cell."""


class Cells(Half):
    """The form of a client's vector, known to both halves."""

    @property
    def cell(self) -> float:
        """See `Privacy.cell`."""
        cell: float = self.setting.guard.keys.cell
        return cell

    @cached_property
    def side(self) -> int:
        """Number of cells along a side of the grid, which is a square around the origin."""
        return math.ceil(2 * REACH / self.cell)

    def vectors(self, clients: int) -> Vectors:
        """A count for each cell of each class."""
        length = len(self.setting.class_names) * self.side**2
        return Vectors(length, 1.0, variances=np.ones(length))

    def cells_of(self, tangents: Floats) -> Integers:
        """The cells (n,) of tangent vectors (n, 2) at curvature -1."""
        norms = np.linalg.norm(tangents, axis=1, keepdims=True)
        short = tangents * np.minimum(1, REACH / np.maximum(norms, REACH))
        places = np.floor((short + REACH) / self.cell).astype(np.int64)
        places = np.minimum(places, self.side - 1)
        return places[:, 0] * self.side + places[:, 1]

    def centres(self, cells: Integers) -> Floats:
        """The centres (n, 2) of cells, in the disc."""
        places = np.stack(np.divmod(cells, self.side), axis=1)
        tangents = (places + 0.5) * self.cell - REACH
        unit = poincare.exp0(torch.from_numpy(tangents), -1.0).numpy()
        return unit / np.sqrt(-self.setting.points.curvature)


class HistogramClient(Cells, ClassSumsClient):
    """The client's half: how many of its training points are in each cell."""

    hides_records = True

    @classmethod
    def conflicts(cls, keys: Any) -> Iterator[tuple[str, str]]:
        """Keys of exact hulls, which a histogram cannot have."""
        for key, is_allowed, allowed in (
            ("hull.num-classes", keys.num_classes is None, "auto: classes are summed by name"),
            ("hull.switch-labels", not keys.switch_labels, "false: classes are summed by name"),
            ("hull.groups", keys.groups == 1, "1: one sum has the least noise"),
            (
                "hull.quantiser",
                keys.quantiser == "equal-width",
                "equal-width: the cells are squares of dp.cell",
            ),
            ("hull.dry-run", not keys.dry_run, "false: no figure of a client leaves it"),
        ):
            if not is_allowed:
                yield f"dp.unit {key}", f"{key} = {allowed}"

    def contribution(self, clients: int, order_numbers: Mapping[int, bytes]) -> Statistics:
        """The counts."""
        labels = self.federation_labels()
        numbers = labels * self.side**2 + self.cells_of(self.tangents())
        counts = np.bincount(numbers, minlength=self.vectors(clients).length)
        return Statistics({"sums": counts.astype(np.float64)})


class HistogramServer(Cells, NamedClassesServer):
    """The server's half: the cells above the noise, their hulls, and a classifier of their
    centres."""

    summands = "histograms"
    file_name = "hulls.npz"

    def learn(self, total: Statistics) -> Model:
        """The classifier."""
        counts = total.arrays["sums"].reshape(len(self.setting.class_names), -1)
        threshold = least_count(total.noise, counts.size)
        groups, cells = np.nonzero(counts > threshold)
        present = np.unique(groups)
        if len(present) < 2:
            raise HullError(
                f"cells above the noise, of more than {threshold:.0f} points, are of"
                f" {amount(len(present), 'class')}; a classifier needs at least two: take a larger"
                " dp.cell or dp.epsilon, or more points",
                key="only-noise",
            )
        numbers = counts[groups, cells]
        numbers *= min(1.0, MAX_POINTS / numbers.sum())
        copies = np.maximum(1, np.rint(numbers)).astype(np.int64)
        centres = self.centres(cells)
        points = np.repeat(centres, copies, axis=0)
        labels = np.repeat(groups, copies)
        hulls = [points[labels == group] for group in present]
        curvature = self.setting.points.curvature
        bodies = GroupedHulls(hulls, present, np.zeros(len(present), np.int64), curvature)
        keys = self.keys
        kind = kind_of(keys.classifier, keys.svm, "logistic")
        is_hard = keys.svm == "hard"
        seed = self.setting.config.seed
        classifier = train_classifier(bodies, kind, keys.c or 1.0, is_hard, seed)
        classifier = calibrate(classifier, bodies, is_hard, seed)
        figures = {
            "classifier": classifier.kind,
            "hull_count": len(present),
            "hull_bins": self.side**2,
            "hull_bins_kept": len(cells),
            "hull_threshold": threshold,
        }
        drawn = {"points": centres, "group": groups, "hull": groups, "client": 0 * groups}
        return Model(classifier.arrays(), figures, (classifier, drawn))

    def evaluate(
        self, model: Model, sums: Arrays, points: ServerPoints, summed: Sequence[int]
    ) -> Evaluation:
        """The evaluation of `NamedClassesServer`, with the hulls."""
        classifier, drawn = model.details
        evaluation = super().evaluate(replace(model, details=classifier), sums, points, summed)
        return replace(evaluation, arrays=evaluation.arrays | drawn)


def least_count(noise: float, cells: int) -> float:
    """The threshold that noise of this standard deviation passes in any of the cells with a
    probability of at most `NOISE_PASSES`."""
    return max(0.5, noise * float(norm.isf(NOISE_PASSES / cells)))
