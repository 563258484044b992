"""A server that sends the members of one sum different things: models with dead units, so that the
sum is one member's own update (Pasquini et al., CCS 2022), or configurations under which the others
hardly move."""

import shutil
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from app_runs import Handle, phase_of, run
from errors import refuses
from flwr.app import ArrayRecord, Message
from numpy.typing import NDArray
from safetensors.numpy import load_file
from secure_sums import BASIS, Run, session, vectors

from curvfed.deployments.inprocess import InProcessGrid
from curvfed.server_app.run import RoundError
from curvfed.server_app.secure import masked_cohort
from curvfed.strategies.config import masked
from curvfed.strategies.errors import SecureSumError
from curvfed.strategies.secure_sum import checksum, crypto
from curvfed.strategies.secure_sum import client as client_module
from curvfed.strategies.secure_sum import server as server_module
from curvfed.strategies.secure_sum.client import SecureSumClient
from curvfed.strategies.secure_sum.fixed_point import subtract
from curvfed.strategies.secure_sum.messages import Basis
from curvfed.strategies.wire.codec import decode_arrays, encode_arrays
from curvfed.strategies.wire.messages import TRAIN

VICTIM = 0
MASKED: dict[str, Any] = {"method": "fedavg", "secure_sum": True, "num_rounds": 1}
SETTINGS: dict[str, dict[str, Any]] = {
    "nodes": MASKED | {"dataset": "trees"},
    "images": MASKED | {"dataset": "digits", "images__train_subset": 150, "local_epochs": 1},
}


def without_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own half accepts whatever the members were sent and signed."""
    monkeypatch.setattr(Basis, "differences", lambda basis, other: [])
    gullible = SimpleNamespace(**vars(crypto) | {"is_signed": lambda *arguments: True})
    monkeypatch.setattr(server_module, "crypto", gullible)
    monkeypatch.setattr(masked_cohort, "check_mean", lambda total, sent, limit: None)


def without_signatures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The members reveal shares whatever the others signed."""
    monkeypatch.setattr(
        client_module, "signers", lambda state, signatures, roster: state.session.needed
    )


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
    made = InProcessGrid.__init__

    def lying_grid(grid: InProcessGrid, app: Any, config: dict[str, Any], *rest: Any) -> None:
        made(grid, app, config, *rest)
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


def other(field: str) -> Basis:
    return BASIS.model_copy(update={field: bytes([1]) * 32})


@pytest.mark.parametrize("field", Basis.model_fields)
@pytest.mark.parametrize("is_victim", [True, False])
def test_a_member_of_another_basis_is_not_summed(field, is_victim):
    """An honest server names it and leaves it out; its peers' masks with it are then removed."""
    what = session(6)
    values = vectors(what)
    bases = bases_of(what.clients, other(field), is_victim)
    driven = Run(what, values).until("deliver")
    for p, member in driven.clients.items():
        vector = member.mask_input(values[p], bases[p])
        check = checksum(vector, driven.bound, p)
        if bases[p] == BASIS:
            driven.server.receive_masked_input(p, vector, check, bases[p])
        else:
            with refuses("other-basis", f"partition {p}", field, error=SecureSumError):
                driven.server.receive_masked_input(p, vector, check, bases[p])


def bases_of(clients: Any, odd: Basis, is_victim: bool) -> Mapping[int, Basis]:
    return {p: odd if (p == VICTIM) == is_victim else BASIS for p in clients}


@pytest.mark.parametrize("field", Basis.model_fields)
def test_masks_of_two_bases_hide_the_vector_without_signatures(field, monkeypatch):
    """What is left when all other vectors are subtracted is uniform: chi-square with 12 degrees of
    freedom at fixed seeds, .999 quantile 32.9."""
    without_signatures(monkeypatch)
    without_checks(monkeypatch)
    modulus = 13
    counts = np.zeros(modulus)
    for seed in range(4):
        what = session(5, modulus=modulus, length=400, run=f"{field} {seed}")
        values = vectors(what, seed)
        driven = Run(what, values, seed=seed)
        driven.bases = bases_of(what.clients, other(field), is_victim=True)
        rest = driven.total()
        for p, vector in values.items():
            if p != VICTIM:
                rest = subtract(rest, vector, modulus)
        counts += np.bincount(subtract(rest, values[VICTIM], modulus).astype(int), minlength=13)
    expected = counts.sum() / modulus
    assert ((counts - expected) ** 2 / expected).sum() < 32.9


@pytest.mark.parametrize("room", masked.ROOMS)
def test_another_file_of_the_app_is_other_code(room, tmp_path, monkeypatch):
    """In a copy of the rooms, each file counts, by its name and its content."""
    digest = masked.code_digest.__wrapped__
    installed = digest()
    for name in masked.ROOMS:
        place = Path(str(files(f"curvfed.{name}")))
        shutil.copytree(place, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(masked, "files", lambda name: tmp_path / name.rpartition(".")[2])
    assert digest() == installed
    changed = sorted((tmp_path / room).rglob("*.py"))[-1]
    changed.write_text(changed.read_text() + "\n")
    other_content = digest()
    changed.rename(changed.with_name("renamed.py"))
    assert len({installed, other_content, digest()}) == 3


@pytest.mark.parametrize("num", [3, 9, 40])
def test_no_member_of_either_basis_reveals_a_share(num):
    """Whatever the server's half accepts, members reveal shares only to a threshold of equals."""
    what = session(num)
    for odd in (1, num // 2):
        driven = Run(what, vectors(what))
        driven.until("deliver")
        bases = {p: other("parameters") if p < odd else BASIS for p in what.clients}
        signatures = {}
        for p, member in driven.clients.items():
            member.mask_input(driven.values[p], bases[p])
            signatures[p] = member.confirm(what.clients, driven.signers[p])
        saved = {p: member.state for p, member in driven.clients.items()}
        revealing = set()
        for p, state in saved.items():
            try:
                SecureSumClient(state).unmask(signatures, driven.roster)
            except SecureSumError as error:
                assert "signed these survivors" in str(error)  # noqa: PT017
            else:
                revealing.add(p)
        enough = (
            {p for p in what.clients if p >= odd} if num - odd >= driven.bound.needed else set()
        )
        assert revealing == enough
