"""The figures of a run so far, as `summary.json` has them."""

from typing import Any

import numpy as np

from curvfed.server_app.directory.checkpoint import State
from curvfed.server_app.directory.failure import versions
from curvfed.server_app.federation import Federation
from curvfed.server_app.personal_figures import majority_accuracy, personal_figures
from curvfed.strategies.base.run_keys import RunKeys

LAST = 3
"""Number of last rounds whose global accuracy is averaged: at small alpha it can vary by 20 points between rounds."""


def summary(
    config: RunKeys, state: State, federation: Federation, aggregation: dict[str, float], settings: dict[str, Any]
) -> dict[str, Any]:
    """All keys except status and error.

    Parameters
    ----------
    aggregation : dict
        Figures of the aggregation.
    settings : dict
        Values that the run chose for keys without a given value.
    """
    figures = personal_figures(state.latest, federation.descriptions)
    totals = state.totals
    rounds = max(totals.get("rounds", 0), 1)
    own = sum(not about.partition_digest for about in federation.descriptions.values())
    last, calibrated = state.scored.get("last", []), state.scored.get("calibrated")
    metrics = (
        figures.pop("metrics")
        | aggregation
        | {
            "majority_accuracy": majority_accuracy(federation.descriptions),
            "heterogeneity": federation.heterogeneity(),
            "replies_dropped": int(totals.get("dropped", 0)),
            "nodes_refused": len(federation.refused),
        }
    )
    if len(last) == LAST:
        metrics["global_accuracy_last3"] = float(np.mean(last))
    if calibrated is not None:
        metrics |= {"global_accuracy_uncalibrated": last[-1], "global_accuracy_calibrated": calibrated}
    if reason := state.scored.get("not_calibrated"):
        metrics["not_calibrated"] = reason
    return {
        "method": config.method,
        "dataset": f"own data of {own} nodes" if own else config.dataset,
        "seed": config.seed,
        "num_clients": len(federation.nodes),
        "rounds": state.round,
        "global_accuracy": calibrated if calibrated is not None else last[-1] if last else None,
        **figures,
        "metrics": metrics,
        "settled": settings,
        "best_validation": state.best,
        "bytes_up": totals.get("bytes_up", 0.0) / rounds,
        "bytes_down": totals.get("bytes_down", 0.0) / rounds,
        "seconds": totals.get("seconds"),
        "seconds_training": totals.get("seconds_training", 0.0),
        "seconds_aggregation": totals.get("seconds_aggregation", 0.0),
        "versions": versions(),
    }
