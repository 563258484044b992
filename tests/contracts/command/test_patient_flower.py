"""A SuperLink and a SuperNode wait for the process of a task on a busy machine, and count a begun
task as lost as soon as Flower does; a simulation waits for Ray."""

import json
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from flwr.client.grpc_rere_client import connection
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.supercore import sql_mixin
from flwr.supercore.constant import TaskType
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.superlink.federation import NoOpFederationManager
from flwr.supernode.nodestate.in_memory_nodestate import InMemoryNodeState
from paused_clock import PausedClock
from ray._private import services
from sqlalchemy import text

from curvfed.deployments import patient_flower
from curvfed.deployments.commands.run import SLOW_PROGRAMS, environment

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


PROGRAM = """
import json, sys

def main():
    limits = {}
    for name, module in sys.modules.items():
        if name.startswith("flwr."):
            limits |= {key: value for key, value in vars(module).items() if key.isupper()}
    print(json.dumps([sys.argv, limits]))
    sys.exit(3)
"""
"""In place of Flower's program: prints its arguments and the limits that it finds."""

OWN = {"HEARTBEAT_DEFAULT_INTERVAL": 30, "HEARTBEAT_PATIENCE": 2}
LONGER = {"HEARTBEAT_DEFAULT_INTERVAL": 120.0, "HEARTBEAT_PATIENCE": 0.5}
PRAGMA = ["foreign_keys", "ON"]
VERSIONS = {
    "all": (
        {"corestate/sql_corestate": OWN, "sql_mixin": {"SQLITE_PRAGMAS": [PRAGMA]}},
        LONGER | {"SQLITE_PRAGMAS": [["busy_timeout", "60000"], PRAGMA]},
    ),
    "one module": ({"corestate/in_memory_corestate": OWN}, LONGER),
    "a name": ({"corestate/sql_corestate": {"HEARTBEAT_PATIENCE": 2}}, {"HEARTBEAT_PATIENCE": 2}),
    "no name": ({"corestate/sql_corestate": {}, "sql_mixin": {}}, {}),
    "no module": ({}, {}),
}
"""What modules of a version of Flower hold, and what its program finds there."""


def flower_of(folder: Path, modules: dict[str, dict[str, Any]]) -> None:
    """A distribution of Flower with these modules of `flwr.supercore`, found before the
    installed."""
    information = folder / "flwr-0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: flwr\nVersion: 0\n")
    (information / "entry_points.txt").write_text(
        "[console_scripts]\nflower-other = absent:main\nflower-superlink = stand_in:main\n"
    )
    (folder / "stand_in.py").write_text(PROGRAM)
    for package in ("flwr", "flwr/supercore", "flwr/supercore/corestate"):
        (folder / package).mkdir()
        (folder / package / "__init__.py").touch()
    for module, values in modules.items():
        lines = [f"{name} = {value!r}\n" for name, value in values.items()]
        (folder / "flwr" / "supercore" / f"{module}.py").write_text("".join(lines))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_named_program_runs_with_its_arguments_and_the_limits_that_it_has(version, tmp_path):
    """Names that a further version of Flower lacks are passed over."""
    modules, limits = VERSIONS[version]
    flower_of(tmp_path, modules)
    arguments = ["flower-superlink", "--host", "a b", "", "$HOME"]
    done = subprocess.run(
        [sys.executable, "-P", patient_flower.__file__, *arguments],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout) == [arguments, limits]


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


@pytest.fixture
def slow_ray(monkeypatch) -> Any:
    """A Ray that is up at a time of a clock, and this clock."""
    clock = PausedClock()
    monkeypatch.setattr(patient_flower, "time", clock)

    def ready_at(seconds: float) -> Any:
        def get_node(address: str, node: str) -> dict[str, str]:
            if clock.now < seconds:
                raise RuntimeError("the node is not registered")
            return {"address": address, "node": node}

        monkeypatch.setattr(services, "get_node", get_node)
        patient_flower.wait_for_ray()
        return clock

    return ready_at


def test_a_simulation_waits_for_a_slow_ray(slow_ray):
    clock = slow_ray(patient_flower.RAY_TIME - 10)
    assert services.get_node("here", "one") == {"address": "here", "node": "one"}
    assert FLOWER < clock.now < patient_flower.RAY_TIME


def test_a_ray_that_never_starts_is_given_up(slow_ray):
    clock = slow_ray(2 * patient_flower.RAY_TIME)
    with pytest.raises(RuntimeError, match="not registered"):
        services.get_node("here", "one")
    assert patient_flower.RAY_TIME <= clock.now < 2 * patient_flower.RAY_TIME


@pytest.fixture
def activation(monkeypatch) -> Any:
    """The activation of a node that a server refuses with this text until a time of a clock, and
    the clock."""
    clock = PausedClock()
    monkeypatch.setattr(patient_flower, "time", clock)
    monkeypatch.setattr(connection, "wrap_stub", connection.wrap_stub)

    def refused_until(seconds: float, text: str) -> Any:
        def activate(request: str) -> str:
            if clock.now < seconds:
                raise grpc.RpcError(text)
            return request

        stub = SimpleNamespace(ActivateNode=activate)
        patient_flower.wait_for_killed_node()
        connection.wrap_stub(stub, SimpleNamespace(invoke=lambda call, *words: call(*words)))
        return stub.ActivateNode, clock

    return refused_until


CONNECTED = '{"code": 2004, "public_message": "Failed to activate SuperNode."}'
"""The answer of a SuperLink."""


def test_a_node_waits_until_its_killed_predecessor_counts_as_gone(activation, capsys):
    activate, clock = activation(SILENCE, CONNECTED)
    assert activate("node") == "node"
    assert SILENCE <= clock.now < patient_flower.NODE_TIME
    assert capsys.readouterr().err.count("Trying again for up to 90 s") == 1


@pytest.mark.parametrize(("text", "waits"), [(CONNECTED, True), ('{"code": 2003}', False)])
def test_a_node_that_is_refused_for_good_is_given_up(text, waits, activation):
    activate, clock = activation(10 * SILENCE, text)
    with pytest.raises(grpc.RpcError):
        activate("node")
    assert (clock.now >= patient_flower.NODE_TIME) is waits


def test_ray_collects_no_metrics_which_crash_its_workers(tmp_path):
    assert environment(tmp_path)["RAY_enable_metrics_collection"] == "0"


@pytest.mark.long
def test_a_run_finds_the_patient_programs_first(tmp_path):
    """By their names, as Flower starts them; and the environment's other programs behind them."""
    home = tmp_path / "a home"
    home.mkdir()
    path = environment(home)["PATH"]
    assert Path(str(shutil.which("flwr", path=path))).parent == Path(sys.executable).parent
    for name in SLOW_PROGRAMS:
        program = shutil.which(name, path=path)
        assert Path(str(program)).parent == home / "programs"
        done = subprocess.run([str(program), "--help"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert name in done.stdout
