"""A server that sends the members of one sum different things: models with dead units, so that the
sum is one member's own update (Pasquini et al., CCS 2022), or configurations under which the others
hardly move."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_runs import Handle, phase_of, run
from flwr.app import ArrayRecord, Message
from numpy.typing import NDArray
from safetensors.numpy import load_file

from curvfed.deployments.inprocess import InProcessGrid
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure import masked_cohort
from curvfed.strategies.config import masked
from curvfed.strategies.secure_sum.messages import Basis
from curvfed.strategies.wire.codec import decode_arrays, encode_arrays
from curvfed.strategies.wire.messages import TRAIN
from curvfed.tasks import plugins

VICTIM = 0
MASKED: dict[str, Any] = {"method": "fedavg", "secure_sum": True, "num_rounds": 1}
SETTINGS: dict[str, dict[str, Any]] = {
    "nodes": MASKED | {"dataset": "trees"},
    "images": MASKED | {"dataset": "digits", "images__train_subset": 150, "local_epochs": 1},
}


def without_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own half accepts whatever the members' vectors come from."""
    monkeypatch.setattr(Basis, "differences", lambda basis, second: [])
    monkeypatch.setattr(masked_cohort, "check_mean", lambda total, sent, limit: None)


def dead_for_others(request: Message, handle: Handle) -> Message:
    """Send all but the victim a network whose gradients vanish, except that of the last bias."""
    if phase_of(request.content) == TRAIN and request.metadata.dst_node_id != node_of(VICTIM):
        arrays = decode_arrays(request.content.array_records["arrays"])
        dead = {name: np.zeros_like(array) for name, array in arrays.items()}
        request.content["arrays"] = encode_arrays(dead)
    return handle(request)


def node_of(partition: int, clients: int = 3) -> int:
    """Flower's id of an in-process node."""
    return clients + 1 - partition


def angle_to(published: Path, folder: Path, **settings: Any) -> float:
    """The sine of the angle between what a published model shows and the victim's own update: the
    relative error of the best estimate along it."""
    updates: list[NDArray[Any]] = []

    def watch(request: Message, handle: Handle) -> Message:
        sent = request.content.get("arrays")
        reply = handle(request)
        is_victim = request.metadata.dst_node_id == node_of(VICTIM)
        if is_victim and phase_of(request.content) == TRAIN:
            updates.extend(map(flat, (sent, reply.content["arrays"])))
        return reply

    run(folder, "open", intercept=watch, **settings | {"secure_sum": False})
    sent, trained = updates
    truth = trained - sent
    shown = flat(encode_arrays(load_file(published / "model.safetensors"))) - sent
    cosine = float(shown @ truth / np.linalg.norm(shown) / np.linalg.norm(truth))
    return float(np.sqrt(1 - min(cosine**2, 1.0)))


def flat(record: ArrayRecord) -> NDArray[Any]:
    arrays = decode_arrays(record)
    return np.concatenate([arrays[name].ravel().astype(float) for name in sorted(arrays)])


@pytest.mark.parametrize("task", SETTINGS)
def test_a_dead_network_for_all_but_one(task, tmp_path, monkeypatch):
    with pytest.raises(RoundError, match="other parameters"):
        run(tmp_path, "honest-half", intercept=dead_for_others, **SETTINGS[task])
    without_checks(monkeypatch)
    lying = run(tmp_path, "lying", intercept=dead_for_others, **SETTINGS[task])
    assert angle_to(lying.path, tmp_path, **SETTINGS[task]) > 0.95


@pytest.mark.parametrize(("key", "value"), [("learning-rate", 1e-30), ("seed", 7)])
def test_another_configuration_for_all_but_one(key, value, tmp_path, monkeypatch):
    original = InProcessGrid.__init__

    def lying_grid(grid: InProcessGrid, app: Any, config: dict[str, Any], *arguments: Any) -> None:
        original(grid, app, config, *arguments)
        for node, context in grid._contexts.items():
            if node != node_of(VICTIM):
                context.run_config[key] = value

    with monkeypatch.context() as lies:
        lies.setattr(InProcessGrid, "__init__", lying_grid)
        with pytest.raises(RoundError, match="other configuration"):
            run(tmp_path, "honest-half", **SETTINGS["nodes"])
        without_checks(lies)
        lying = run(tmp_path, "lying", **SETTINGS["nodes"])
    assert angle_to(lying.path, tmp_path, **SETTINGS["nodes"]) > 0.95


def test_a_sum_modulo_a_larger_number(tmp_path, monkeypatch):
    """It showed how many of three members have a negative entry."""
    monkeypatch.setattr(masked_cohort, "SUM_PRIME", 2**63 - 1)
    with pytest.raises(RoundError, match=f"allowed for real numbers is {2**61 - 1}"):
        run(tmp_path, **MASKED)


def old_state_for_one(request: Message, handle: Handle) -> Message:
    """Let all but the victim start from another round of their personal state."""
    is_training = phase_of(request.content) == TRAIN and request.content["header"]["round"] == 2
    if is_training and request.metadata.dst_node_id != node_of(VICTIM):
        request.content["header"]["stamp"] = 0
    return handle(request)


@pytest.mark.parametrize("method", ["fedper", "fedavg"])
def test_an_old_state_for_all_but_one(method, tmp_path, monkeypatch):
    """The stamp of the personal state was in no basis: one member with another stamp than the rest
    had its gradient in the difference of two sums."""
    settings = {"method": method, "secure_sum": True, "num_rounds": 2, "dataset": "trees"}
    with pytest.raises(RoundError, match="other state"):
        run(tmp_path, "honest-half", intercept=old_state_for_one, **settings)
    without_checks(monkeypatch)
    lying = run(tmp_path, "lying", intercept=old_state_for_one, **settings)
    assert angle_to(lying.path, tmp_path, **settings | {"num_rounds": 1}) > 0.95


def test_another_file_of_the_app_is_other_code(tmp_path, monkeypatch):
    """In a copy of the rooms, each file counts, by its name and its content."""
    digest = masked.code_digest.__wrapped__
    installed = digest()
    for name in masked.ROOMS:
        (place,) = masked.folders_of(name)
        shutil.copytree(place, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(masked, "folders_of", lambda room: [tmp_path / room])
    seen = {digest()}
    assert seen == {installed}
    for room in masked.ROOMS:
        files = (tmp_path / room).rglob("*.py")
        changed = max(path for path in files if plugins.LOCAL.isdisjoint(path.parts))
        changed.write_text(changed.read_text() + "\n")
        other_content = digest()
        changed.rename(changed.with_name("renamed.py"))
        other_name = digest()
        assert len({other_content, other_name} - seen) == 2, room
        seen |= {other_content, other_name}


def test_what_an_extension_adds_is_part_of_the_code(tmp_path, monkeypatch):
    room = tmp_path / "extensions"
    (room / "mine").mkdir(parents=True)
    monkeypatch.setattr(masked, "folders_of", lambda name: [tmp_path / name])
    digest = masked.code_digest.__wrapped__
    before = digest()
    entries = room / "mine" / plugins.ENTRIES
    entries.write_text('["curvfed.tasks"]\nmine = "mine:KIND"\n')
    added = digest()
    (room / "mine" / "commands").mkdir()
    (room / "mine" / "commands" / "entry.py").write_text("")
    assert before != added == digest()
