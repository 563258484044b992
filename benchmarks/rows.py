"""All rows by topic, and those that a word selects."""

from collections.abc import Callable, Sequence

from benchmarks import (
    commands,
    graphs,
    local_training,
    one_shot,
    operations,
    server,
    whole_runs,
    worker_processes,
)
from benchmarks.measure import Place, Row

TOPICS: dict[str, Callable[[Place], list[Row]]] = {
    "steps": local_training.rows,
    "networks": local_training.networks,
    "operations": operations.operations,
    "losses": operations.losses,
    "graphs": graphs.rows,
    "prototypes": operations.prototypes,
    "server": server.rows,
    "wire": server.wire,
    "hulls": one_shot.hulls,
    "decode": one_shot.decoding,
    "secure-sum": one_shot.secure_sum,
    "ledger": server.ledgers,
    "whole": whole_runs.rows,
    "many-clients": whole_runs.many_clients,
    "workers": worker_processes.rows,
    "commands": commands.rows,
}
"""In the order in which they are measured."""


def chosen(words: Sequence[str], place: Place) -> list[tuple[str, Row]]:
    """Topics with their rows: those of the topics among the words, those with another word in their
    names; else all."""
    rows = [(topic, row) for topic, make in TOPICS.items() for row in make(place)]
    parts = [word for word in words if word not in TOPICS]
    return [
        one
        for one in rows
        if not words or one[0] in words or any(part in one[1].what for part in parts)
    ]
