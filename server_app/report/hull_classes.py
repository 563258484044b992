"""How far the probabilities and the groups' names of a one-shot run hold."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from curvfed.server_app.directory.hull_file import HullFile
from curvfed.server_app.report.class_scores import Share, wilson
from curvfed.server_app.report.units import printable

BANDS = (0.0, 0.5, 0.7, 0.9, 1.0)
"""Bounds of probability between which the share of right answers is told."""


def bands(file: HullFile) -> list[Share]:
    """Of the test points in each band of probability the share that is right; empty without a
    classifier."""
    if file.classifier is None or not len(file.test.labels):
        return []
    chances = file.classifier.probabilities(file.test.points).max(axis=1)
    right: NDArray[np.bool_] = file.predicted == file.test.labels
    found = []
    for low, high in pairwise(BANDS):
        inside = (chances >= low) & ((chances < high) | (high == BANDS[-1]))
        if count := int(inside.sum()):
            told = f"{100 * chances[inside].mean():.1f}%"
            name = f"{low:.0%} to {high:.0%}"
            found.append(
                Share(
                    name,
                    count,
                    float(right[inside].mean()),
                    *wilson(int(right[inside].sum()), count),
                    told,
                )
            )
    return found


def ballots(file: HullFile) -> list[tuple[str, int, float, str]]:
    """Of each group its name, how many clients name it, the share of these that agree, and the
    names they give."""
    found = []
    for name, given in zip(file.names, file.votes, strict=False):
        count = int(given.sum())
        agree = given[np.array(file.voted_names) == name].sum()
        order = [one for one in np.argsort(-given, kind="stable") if given[one] > 0]
        told = ", ".join(f"{printable(file.voted_names[one])} ({given[one]:.0f})" for one in order)
        found.append((name, count, float(agree) / count if count else np.nan, told))
    return found
