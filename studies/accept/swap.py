"""A trained federation with its clients' personal parameters exchanged."""

import statistics
from pathlib import Path

from curvfed.client_app.client import Client
from curvfed.client_app.personal import restore_state
from curvfed.deployments.predict import TrainedRun
from curvfed.deployments.predict.model import personal_state


def with_own_and_neighbours(folder: Path) -> tuple[float, float]:
    """Mean test accuracy of the clients of a run with their own personal parameters, and with the
    next client's.

    The shared parameters are those of the end of the run in both cases.
    """
    run = TrainedRun.read(folder)
    states = {client: personal_state(run, client, None)[0] for client in run.clients}
    own: list[float] = []
    other: list[float] = []
    clients = list(run.clients)
    for client, neighbour in zip(clients, clients[1:] + clients[:1], strict=True):
        party = Client(run.config, run.path.name, run.part_of(client))
        party.prepare(run.facts, 0)
        party.receive(run.shared.sent_to(client))
        for scores, state in ((own, states[client]), (other, states[neighbour])):
            restore_state(state, party.personal, None)
            scores.append(party.task.scores(party.model)["score"])
    return statistics.mean(own), statistics.mean(other)
