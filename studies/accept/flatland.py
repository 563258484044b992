"""FlatLand on Cora: the personal parameters of a neighbour, and clients that join late."""

import csv
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from curvfed.client_app.client import Client
from curvfed.client_app.personal import restore_state
from curvfed.deployments.inprocess import simulate, simulated_nodes
from curvfed.deployments.predict import TrainedRun
from curvfed.deployments.predict.model import personal_state
from curvfed.extensions.adapt.commands.adapt import adapt
from studies.accept.lab import Lab, Outcome, Table, at_least

SEEDS = (0, 1, 2)
CLIENTS = 10
LATE = (8, 9)
"""Clients that join after the run of the others."""

CORA: dict[str, Any] = {"method": "flatland", "dataset": "cora", "num-rounds": 100}


def neighbour(lab: Lab) -> Iterator[Outcome]:
    """Accuracy that a client loses with its neighbour's personal parameters."""
    losses = []
    for seed in SEEDS:
        folder = lab.run(CORA | {"num-supernodes": CLIENTS, "seed": seed})
        own, other = with_own_and_neighbours(folder)
        losses.append(100 * (own - other))
    yield at_least("a client given its neighbour's personal parameters loses", 15.0, losses)


def with_own_and_neighbours(folder: Path) -> tuple[float, float]:
    """Mean test accuracy of the clients of a run with their own personal parameters, and with the
    next client's. The shared parameters are the run's last ones in both cases.
    """
    run = TrainedRun.read(folder)
    clients = list(run.clients)
    states = {client: personal_state(run, client, None)[0] for client in clients}
    own: list[float] = []
    other: list[float] = []
    for client, neighbour in zip(clients, clients[1:] + clients[:1], strict=True):
        party = Client(run.config, run.path.name, run.part_of(client))
        party.prepare(run.facts, 0)
        party.receive(run.shared.sent_to(client))
        for scores, state in ((own, states[client]), (other, states[neighbour])):
            restore_state(state, party.personal, None)
            scores.append(party.task.scores(party.model)["score"])
    return statistics.mean(own), statistics.mean(other)


def joining(lab: Lab) -> Iterator[Outcome]:
    """Eight of ten parts train, and two join by `curvfed adapt`, compared with training alone and
    with taking part from the beginning.
    """
    folder = lab.folder / "joining"
    reached: dict[str, list[float]] = {
        "joined late": [],
        "with the shared part alone": [],
        "there all along": [],
        "alone": [],
    }
    for seed in SEEDS:
        settings = CORA | {"data-dir": str(lab.data), "results-dir": str(folder), "seed": seed}
        early = simulated_nodes(CLIENTS)[: min(LATE)]
        run = simulate(settings | {"run-name": f"eight-{seed}"}, CLIENTS, early)
        for client in LATE:
            _, scores = adapt(
                TrainedRun.read(run), "cora", folder / f"late-{seed}-{client}", client
            )
            reached["joined late"].append(100 * scores["score"])
            reached["with the shared part alone"].append(100 * scores["score before"])
        for name, method in (("there all along", "flatland"), ("alone", "local")):
            whole = simulate(settings | {"method": method, "run-name": f"{method}-{seed}"}, CLIENTS)
            reached[name] += [_last_score(whole, client) for client in LATE]
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


TABLES: tuple[Table, ...] = (neighbour, joining)
