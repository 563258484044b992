"""How far the clients' classifiers agree after local training (SphereFed, Dong et al., ECCV 2022, Section 3.2)."""

from collections.abc import Mapping

import numpy as np

from curvfed.strategies.base.aggregation import Update
from curvfed.strategies.base.method import HEAD

WEIGHT = f"{HEAD}weight"


def alignment(updates: Mapping[int, Update]) -> dict[str, float]:
    """Means over the classes and over all pairs of clients that trained, of rows of their classifiers' weights (C, d).

    Parameters
    ----------
    updates : mapping of partition to Update
        As they came.

    Returns
    -------
    dict
        "classifier_cosine", of the angle between two clients' rows for a class (Eq. 2); classes for which any client has a
        row of zeros are left out. "classifier_norm_gap", the difference between the lengths of two rows, without its sign
        (Eq. 3, whose mean with it is 0). Empty where fewer than two clients send a classifier that they trained.
    """
    sent = [update.arrays[WEIGHT] for update in updates.values() if update.examples and WEIGHT in update.arrays]
    if len(sent) < 2:
        return {}
    weights = np.stack(sent).astype(np.float64)
    count, norms = len(weights), np.linalg.norm(weights, axis=-1)
    # Sums over pairs by sums over clients: Σ⟨uⱼ, uₖ⟩ is ‖Σuₖ‖² − Σ‖uₖ‖², and in the order of size a norm is subtracted as
    # often as norms are larger.
    order = 2 * np.arange(count)[:, None] + 1 - count
    pairs, there = count * (count - 1), (norms > 0).all(axis=0)
    found = {"classifier_norm_gap": float(2 * (order * np.sort(norms, axis=0)).sum(axis=0).mean() / pairs)}
    if there.any():
        units = weights[:, there] / norms[:, there, None]
        found["classifier_cosine"] = float((np.square(units.sum(axis=0)).sum(axis=-1) - count).mean() / pairs)
    return found
