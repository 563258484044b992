"""Agreement of the clients' classifiers after local training (SphereFed, Dong et al., ECCV 2022,
Section 3.2)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from curvfed.server_app.answer import Answer
from curvfed.server_app.callbacks import Callback
from curvfed.strategies.base.named_arrays import HEAD
from curvfed.strategies.base.statistics import Statistics

WEIGHT = f"{HEAD}weight"


class ClassifierAgreement(Callback):
    """Adds two columns to `rounds.csv`, where the server sees the clients' classifiers."""

    def figures(self, number: int, answer: Answer) -> Mapping[str, Any]:
        """The agreement of this round's contributions."""
        return alignment(answer.contributions)


def alignment(contributions: Mapping[int, Statistics]) -> dict[str, float]:
    """Mean similarity of the clients' classifier rows (C, d), over the classes and all pairs of
    clients that trained.

    Parameters
    ----------
    contributions : mapping of partition to Statistics
        As received.

    Returns
    -------
    dict
        "classifier_cosine": cosine of the angle between two clients' rows for a class (Eq. 2);
        classes for which any client has a row of zeros are left out. "classifier_norm_gap":
        absolute difference between the norms of the two rows (Eq. 3; the mean of the signed
        difference is 0). Empty if fewer than two clients send a trained classifier.
    """
    sent = [
        contribution.arrays[WEIGHT]
        for contribution in contributions.values()
        if contribution.weight and WEIGHT in contribution.arrays
    ]
    if len(sent) < 2:
        return {}
    weights = np.stack(sent).astype(np.float64)
    count = len(weights)
    norms = np.linalg.norm(weights, axis=-1)
    # Sums over pairs as sums over clients: Σ⟨uⱼ, uₖ⟩ is ‖Σuₖ‖² − Σ‖uₖ‖². Among the sorted norms
    # each one is subtracted once for every larger norm and added once for every smaller one.
    order = 2 * np.arange(count)[:, None] + 1 - count
    pairs = count * (count - 1)
    nonzero = (norms > 0).all(axis=0)
    figures = {
        "classifier_norm_gap": float(
            2 * (order * np.sort(norms, axis=0)).sum(axis=0).mean() / pairs
        )
    }
    if nonzero.any():
        units = weights[:, nonzero] / norms[:, nonzero, None]
        figures["classifier_cosine"] = float(
            (np.square(units.sum(axis=0)).sum(axis=-1) - count).mean() / pairs
        )
    return figures
