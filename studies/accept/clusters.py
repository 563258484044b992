"""Nodes by clusters beside the whole graph at once."""

import statistics
from collections.abc import Iterator
from typing import Any

from studies.accept.flatland import at_least, spread
from studies.accept.lab import Lab, Outcome

SEEDS = range(5)
CORA: dict[str, Any] = {"dataset": "cora", "num-supernodes": 1, "num-rounds": 100}
WAYS = {"the whole graph": "auto", "by clusters, batch-size=700": 700}
RATES = (0.002, 0.005, 0.01)
"""By clusters a round has four steps, so that another rate is the best one: either way gets the one
that validates best."""


def clusters(lab: Lab) -> Iterator[Outcome]:
    """Cora in one client of 2,485 nodes, all at once and in four batches."""
    runs = {
        (method, way, rate): [
            CORA | {"method": method, "batch-size": size, "learning-rate": rate, "seed": seed}
            for seed in SEEDS
        ]
        for method in ("fedavg", "flatland")
        for way, size in WAYS.items()
        for rate in RATES
    }
    lab.start(run for every in runs.values() for run in every)
    for method in ("fedavg", "flatland"):
        reached = {}
        for way in WAYS:
            best = [
                [lab.summary(run)["best_validation"] for run in runs[method, way, rate]]
                for rate in RATES
            ]
            validations = [
                statistics.fmean(summary["metrics"]["validation"] for summary in every)
                for every in best
            ]
            chosen = validations.index(max(validations))
            reached[way] = [100 * summary["personal_accuracy_mean"] for summary in best[chosen]]
            what = (
                f"for information: Cora, one client, seeds 0-4, {method}, {way}: accuracy at rate"
                f" {RATES[chosen]}"
            )
            yield Outcome(what, "-", spread(reached[way]), True)
        whole, parts = reached.values()
        differences = [a - b for a, b in zip(parts, whole, strict=True)]
        yield at_least(
            f"the same, {method}: by clusters minus the whole graph", -1.0, differences, signed=True
        )


TABLES = (clusters,)
