"""A SuperLink and a SuperNode wait for the process of a task on a busy machine, and count a begun
task as lost as soon as Flower does."""

from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.supercore import sql_mixin
from flwr.supercore.constant import TaskType
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.superlink.federation import NoOpFederationManager
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState
from sqlalchemy import text

from curvfed.extensions.cluster.commands import patient_flower

FLOWER = 30
"""Seconds that Flower gives the process of a task to start."""

SILENCE = 60
"""Seconds of silence after which a begun task counts as lost."""


def node_state() -> Any:
    return InMemoryNodeState(ObjectStoreFactory().store())


def server_state() -> Any:
    return LinkStateFactory(":memory:", NoOpFederationManager(), ObjectStoreFactory()).state()


CASES = {"in_memory_corestate": node_state, "sql_corestate": server_state}


class Clock:
    """The time of a module of Flower, which a test moves."""

    def __init__(self, now: Any) -> None:
        self._now = now
        self.later = timedelta()

    def __call__(self) -> Any:
        return self._now() + self.later

    def wait(self, seconds: float) -> None:
        self.later += timedelta(seconds=seconds)


@pytest.fixture(params=CASES)
def flower(request, monkeypatch) -> Any:
    """A module of Flower, a state of it, and the clock of both."""
    module = import_module(f"flwr.supercore.corestate.{request.param}")
    for name in ("HEARTBEAT_DEFAULT_INTERVAL", "HEARTBEAT_PATIENCE"):
        monkeypatch.setattr(module, name, getattr(module, name))
    clock = Clock(module.now)
    monkeypatch.setattr(module, "now", clock)
    return request.param, CASES[request.param](), clock


def claimed(state: Any) -> int:
    task: int = state.create_task(TaskType.SERVER_APP, 1)
    assert state.claim_task(task)
    return task


def test_flower_gives_a_slow_process_up_and_ours_waits(flower):
    name, state, clock = flower
    task = claimed(state)
    clock.wait(FLOWER + 1)
    assert not state.activate_task(task)
    patient_flower.wait_for_starts(name)
    task = claimed(state)
    clock.wait(patient_flower.START_TIME - 1)
    assert state.activate_task(task)


@pytest.mark.parametrize(("silence", "is_alive"), [(SILENCE - 1, True), (SILENCE + 1, False)])
def test_a_begun_task_is_lost_after_the_same_silence(flower, silence, is_alive):
    name, state, clock = flower
    patient_flower.wait_for_starts(name)
    task = claimed(state)
    assert state.activate_task(task)
    clock.wait(silence)
    assert state.acknowledge_task_heartbeat(task) is is_alive


def test_the_database_waits_longer_for_a_lock(monkeypatch):
    monkeypatch.setattr(sql_mixin, "SQLITE_PRAGMAS", sql_mixin.SQLITE_PRAGMAS)
    patient_flower.wait_for_locks()
    names = [name for name, _ in sql_mixin.SQLITE_PRAGMAS]
    assert names.count("busy_timeout") == 1
    assert names.index("busy_timeout") < names.index("journal_mode")
    with server_state().session() as session:
        waited = session.execute(text("PRAGMA busy_timeout")).scalar()
        foreign = session.execute(text("PRAGMA foreign_keys")).scalar()
    assert waited == 1000 * patient_flower.LOCK_TIME
    assert foreign == 1  # Flower's own stay
