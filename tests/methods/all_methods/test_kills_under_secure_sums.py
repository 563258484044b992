"""Every method under secure sums: a run whose server or node was killed in the middle of a sum has
the bits of a run that nobody disturbed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from app_runs import (
    CLIENTS,
    EVERY,
    QUICK,
    Handle,
    Recorder,
    Run,
    array_names,
    dotted_keys,
    newest,
    run,
)
from equal_runs import figures, same_arrays
from flwr.app import Message, RecordDict
from policies import sharing_nodes
from tiers import only

from curvfed.client_app.clients_in_memory import forget_all
from curvfed.strategies.config.parse import parse
from curvfed.strategies.config.secure_phases import MASKED
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.messages import AGREE, KEYS

pytestmark = pytest.mark.usefixtures("clock")

QUICK_METHODS = {
    ("flatland", "nodes"),
    ("scaffold", "images"),
    ("discriminant", "points"),
}
ROUNDS = 3
OWN = {
    "adafgl": {"fine_tune_epochs": 3},
    "fedgnn": {"fedgnn__noise": 0.0},
    "scaffold": {"batch_size": 0},
}
"""Settings that save time, that a secure sum needs, or leave out noise, which follows no seed at a
real node."""


def settings_of(method: str, task: str) -> dict[str, Any]:
    """The settings of a method's masked run on a task."""
    of_task = QUICK[task] | {"local_epochs": 1, "num_rounds": ROUNDS, "secure_sum": True}
    return of_task | OWN.get(method, {}) | {"method": method}


def can_be_masked(method: str, task: str) -> bool:
    """Whether the configuration of the masked run is allowed."""
    try:
        parse(dotted_keys(settings_of(method, task)))
    except ConfigError as error:
        if not error.key.startswith("config.secure-sum-with"):
            raise
        return False
    return True


MASKED_RUNS = [case for case in EVERY if can_be_masked(*case)]


class Kill:
    """Passes messages on, and kills somebody once so many masked vectors have left.

    Parameters
    ----------
    number : int
    kill : callable
        Takes the message and its handler.
    """

    def __init__(self, number: int, kill: Callable[[Message, Handle], None]) -> None:
        self._left = number
        self._kill = kill

    def __call__(self, request: Message, handle: Handle) -> Message | None:
        reply = handle(request)
        self._left -= MASKED in array_names(reply.content)
        if self._left:
            return reply
        self._left = -1
        self._kill(request, handle)
        return None


def kill_server(request: Message, handle: Handle) -> None:
    """The run ends here."""
    raise KeyboardInterrupt


def kill_node(request: Message, handle: Handle) -> None:
    """The node answers no more, and starts again with what is on its disk."""
    forget_all()
    grid: Any = handle.__self__  # type: ignore[attr-defined]
    grid._contexts[request.metadata.dst_node_id].state = RecordDict()


def result(made: Run) -> dict[str, Any]:
    """The figures of a run, without what repeated exchanges of keys cost, and without what nodes
    say of themselves, such as their folders."""
    outcome = figures(made.path)
    del outcome["described"]
    outcome["summary"] = without_costs(outcome["summary"])
    for table in ("rounds", "clients"):
        outcome[table] = [
            without_costs(row) for row in outcome[table] if row["phase"] not in (KEYS, AGREE)
        ]
    return outcome


def without_costs(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if "bytes_" not in key}


def personal(folder: Path, partition: int) -> dict[str, Any]:
    """What a node keeps at its last stamp."""
    return newest(folder / f"state{partition}" / "run" / f"{partition:05d}")


@pytest.mark.parametrize(("method", "task"), only(MASKED_RUNS, QUICK_METHODS.__contains__))
def test_a_killed_run_has_the_bits_of_the_whole_one(method, task, tmp_path):
    settings = settings_of(method, task)
    recorder = Recorder()
    whole = run(
        tmp_path / "whole", nodes=sharing_nodes(tmp_path / "whole"), intercept=recorder, **settings
    )
    vectors = [reply for reply in recorder.replies() if MASKED in array_names(reply)]
    # The second member's vector in the sum in the middle.
    second = len(vectors) // (2 * CLIENTS) * CLIENTS + 2
    expected = result(whole)
    for name, kill in (("server", kill_server), ("node", kill_node)):
        folder = tmp_path / name
        nodes = sharing_nodes(folder)
        disturb = Kill(second, kill)
        if name == "server":
            with pytest.raises(KeyboardInterrupt):
                run(folder, nodes=nodes, intercept=disturb, **settings)
            made = run(folder, nodes=nodes, resume=True, **settings)
        else:
            made = run(folder, nodes=nodes, intercept=disturb, **settings)
        assert result(made) == expected, name
        for partition in range(CLIENTS):
            one, other = (personal(tmp_path / place, partition) for place in ("whole", name))
            assert same_arrays(one, other), f"{name}: the state of {partition}"
