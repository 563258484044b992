"""The ServerApp: consistent aggregation, or where some parameters are personal the split."""

import json
from pathlib import Path

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from curvfed.flower import ConsistentAggregation, SplitAggregation
from quickstart.task import initial_model

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the rounds, and tell the clients' mean accuracy."""
    config = context.run_config
    personal = tuple(str(config["personal"]).split())
    if personal:
        strategy = SplitAggregation(personal=personal)
    else:
        strategy = ConsistentAggregation(radius=float(config["radius"]))
    result = strategy.start(
        grid=grid,
        initial_arrays=ArrayRecord(initial_model().state_dict()),
        num_rounds=int(config["num-rounds"]),
    )
    accuracies = [
        metrics["accuracy"] for _, metrics in sorted(result.evaluate_metrics_clientapp.items())
    ]
    print(f"accuracy after round {len(accuracies)}: {accuracies[-1]:.3f}")
    if config["results"]:
        outcome = {
            "strategy": type(strategy).__name__,
            "accuracy": accuracies,
            "shared": list(result.arrays),
        }
        Path(str(config["results"])).write_text(json.dumps(outcome), encoding="utf-8")
