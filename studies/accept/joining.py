"""Clients that were not in a run: `curvfed adapt`, beside training alone and beside having been
there."""

import csv
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from curvfed.deployments.adapt import adapt
from curvfed.deployments.inprocess import simulate, simulated_nodes
from curvfed.deployments.predict import TrainedRun
from studies.accept.flatland import SEEDS
from studies.accept.lab import Lab, Outcome

PARTS, LATE = 10, (8, 9)


def joining(lab: Lab) -> Iterator[Outcome]:
    """FlatLand on Cora: eight of ten parts train, and two join with what the eight share."""
    reached: dict[str, list[float]] = {
        "joined late": [],
        "with the shared part alone": [],
        "there all along": [],
        "alone": [],
    }
    for seed in SEEDS:
        settings: dict[str, Any] = {
            "method": "flatland",
            "dataset": "cora",
            "data-dir": str(lab.data),
            "seed": seed,
            "num-rounds": 100,
        }
        settings |= {"results-dir": str(lab.folder / "joining")}
        run = simulate(
            settings | {"run-name": f"eight-{seed}"}, PARTS, simulated_nodes(PARTS)[: min(LATE)]
        )
        for client in LATE:
            scores = adapt(
                TrainedRun.read(run),
                "cora",
                lab.folder / "joining" / f"late-{seed}-{client}",
                client,
            )[1]
            reached["joined late"].append(100 * scores["score"])
            reached["with the shared part alone"].append(100 * scores["score before"])
        for name, method in (("there all along", "flatland"), ("alone", "local")):
            folder = simulate(settings | {"method": method, "run-name": f"{method}-{seed}"}, PARTS)
            reached[name] += [_last_score(folder, client) for client in LATE]
    for name, values in reached.items():
        text = f"{statistics.fmean(values):.1f} ({', '.join(f'{value:.1f}' for value in values)})"
        yield Outcome(
            f"Cora, parts 9 and 10 of 10, flatland, seeds 0-2: accuracy {name}", "-", text, True
        )


def _last_score(folder: Path, client: int) -> float:
    """The accuracy of a client after its last local training, in percent."""
    with (folder / "clients.csv").open() as file:
        return [
            100 * float(row["score"])
            for row in csv.DictReader(file)
            if row["partition"] == str(client) and row["score"]
        ][-1]


TABLES = (joining,)
