"""Runs that start from crafted parameters (init-from): the update of such a network reveals single
records (Fowl et al., ICLR 2022), and that of a permuted one is another input of the same sum."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from app_runs import EVERY, QUICK, Run, real_nodes, run
from errors import refuses
from graph_fixtures import user_fields
from numpy.typing import NDArray
from policies import sharing_nodes, with_policy
from safetensors.numpy import save_file

from curvfed.client_app import start
from curvfed.client_app.node.ledger import Ledger
from curvfed.client_app.node.policy import Policy
from curvfed.client_app.personal import ClientFiles
from curvfed.server_app.run import RoundError
from curvfed.strategies.errors import ConfigError
from curvfed.strategies.wire.messages import CALIBRATE, EVALUATE, FINE_TUNE, TRAIN, Header

pytestmark = pytest.mark.usefixtures("own_home")

WIDTH = 96
FEATURES = 12
SETTINGS: dict[str, Any] = {
    "method": "fedavg",
    "dataset": "own",
    "num_rounds": 1,
    "embedding_dim": WIDTH,
    "optimizer": "sgd",
    "learning_rate": 0.1,
    "local_epochs": 1,
    "dropout": 0.0,
    "weight_decay": 0.0,
    "normalize": "none",
}


def records(folder: Path) -> tuple[list[dict[str, Any]], NDArray[np.float64]]:
    """Real nodes with graphs without edges, and all feature rows."""
    rng = np.random.default_rng(0)
    graphs = []
    for _ in range(3):
        features = torch.tensor(rng.normal(size=(60, FEATURES)), dtype=torch.float32)
        no_edges = torch.empty((2, 0), dtype=torch.long)
        graphs.append(dict(user_fields(60)) | {"x": features, "edge_index": no_edges})
    rows = np.concatenate([graph["x"].numpy() for graph in graphs])
    return real_nodes(folder, graphs), rows.astype(np.float64)


def crafted(path: Path, num_classes: int) -> dict[str, NDArray[np.float32]]:
    """Write a start whose units differ in the bias alone: a record that activates one unit, but not
    the next, is in the update of one and not in the other's."""
    rng = np.random.default_rng(1)
    direction = rng.normal(size=FEATURES)
    direction /= np.linalg.norm(direction)
    cuts = np.quantile(rng.normal(size=10_000), (np.arange(WIDTH) + 0.5) / WIDTH)
    arrays = {
        "first.weight": np.tile(direction, (WIDTH, 1)),
        "first.bias": -cuts,
        "second.weight": np.full((WIDTH, WIDTH), 1 / WIDTH),
        "second.bias": np.zeros(WIDTH),
        "head.weight": np.tile(rng.normal(0, 0.1, size=(num_classes, 1)), (1, WIDTH)),
        "head.bias": np.zeros(num_classes),
    }
    start = {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}
    save_file(start, path)
    return start


def found_rows(run: Run, start: dict[str, NDArray[np.float32]], rows: NDArray[np.float64]) -> int:
    """How many records are in the model after the round, to 1%."""
    weights, biases = (
        np.diff(run.model[name].astype(np.float64) - start[name], axis=0)
        for name in ("first.weight", "first.bias")
    )
    is_active = np.abs(biases) > 1e-9
    guesses = weights[is_active] / biases[is_active, None]
    errors = np.linalg.norm(guesses[:, None] - rows[None], axis=-1) / np.linalg.norm(rows, axis=1)
    return len(set(errors.argmin(axis=1)[errors.min(axis=1) < 0.01]))


def test_a_start_from_outside_needs_a_line_of_the_policy(tmp_path, caplog):
    """It took 15 of 180 records out of one average of three nodes."""
    nodes, rows = records(tmp_path / "nodes")
    path = tmp_path / "start.safetensors"
    start = crafted(path, num_classes=len(set(user_fields(60)["y"].tolist())))
    settings = SETTINGS | {"init_from": str(path)}
    trusting = with_policy(tmp_path / "policy-any", nodes, '[runs]\nstarts = "any"')
    result = run(tmp_path, "any", nodes=trusting, **settings)
    assert found_rows(result, start, rows) >= 15
    with pytest.raises(RoundError, match=r"init-from.*would allow them") as refused:
        run(tmp_path, "refused", nodes=nodes, **settings)
    (digest,) = set(re.findall("sha256:[0-9a-f]{64}", str(refused.value)))
    assert f'[runs] starts = ["{digest}"]' in caplog.text
    listing = with_policy(tmp_path / "policy-list", nodes, f'[runs]\nstarts = ["{digest}"]')
    assert run(tmp_path, "listed", nodes=listing, **settings).model_bytes
    refusing = with_policy(
        tmp_path / "policy-other", nodes, f'[runs]\nstarts = ["sha256:{"0" * 64}"]'
    )
    with pytest.raises(RoundError, match=digest):
        run(tmp_path, "other", nodes=refusing, **settings)


def test_a_permuted_start_is_a_start_from_outside(tmp_path):
    """With one node away, the difference of two sums was that node's update, to 5e-6."""
    nodes, _ = records(tmp_path / "nodes")
    seeded = run(tmp_path, "seeded", nodes=nodes, **SETTINGS | {"num_rounds": 0})
    order = np.random.default_rng(0).permutation(WIDTH)
    permuted = dict(seeded.model)
    for name in ("first.weight", "first.bias"):
        permuted[name] = permuted[name][order]
    permuted["second.weight"] = np.ascontiguousarray(permuted["second.weight"][:, order])
    save_file(permuted, tmp_path / "permuted.safetensors")
    with pytest.raises(RoundError, match="init-from"):
        run(
            tmp_path,
            "permuted",
            nodes=nodes[:2],
            init_from=str(tmp_path / "permuted.safetensors"),
            **SETTINGS,
        )


def test_a_run_without_rounds_has_no_later_round(monkeypatch):
    """By another number of the round a calibration summed the features of a crafted model."""
    monkeypatch.setattr(start, "_is_seeded", lambda *arguments: False)
    client = SimpleNamespace(
        node=SimpleNamespace(rules=Policy()), config=SimpleNamespace(num_rounds=0)
    )
    request = SimpleNamespace(header=Header("run", CALIBRATE, 3), required_facts=None)
    with refuses("other-start", "[runs] starts", error=ConfigError):
        start.check_start(client, request, {"weight": np.ones(2)})


@pytest.mark.parametrize("phase", [CALIBRATE, FINE_TUNE, EVALUATE])
def test_phases_before_any_training_start_from_the_seed(phase, tmp_path, monkeypatch):
    """A calibration of round 1, which no training came before, took crafted parameters."""
    monkeypatch.setattr(start, "_is_seeded", lambda *arguments: False)
    files = ClientFiles(tmp_path, {})
    client: Any = SimpleNamespace(
        node=SimpleNamespace(rules=Policy()), config=SimpleNamespace(num_rounds=1), files=files
    )
    request: Any = SimpleNamespace(header=Header("run", phase, 1), required_facts=None)
    crafted_network = {"weight": np.ones(2)}
    with refuses("other-start", "[runs] starts", error=ConfigError):
        start.check_start(client, request, crafted_network)
    files.notes.write(start.TRAINED, [1])
    client.files = ClientFiles(tmp_path, {})  # another process
    start.check_start(client, request, crafted_network)
    request.header = Header("run", TRAIN, 1)
    with refuses("other-start", "[runs] starts", error=ConfigError):
        start.check_start(client, request, crafted_network)


def test_the_model_of_a_one_shot_run_is_scored_after_its_sum(tmp_path):
    """A server that asks for scores alone got the votes of a node on any classifier."""
    client: Any = SimpleNamespace(
        node=SimpleNamespace(rules=Policy()),
        files=ClientFiles(tmp_path, {}),
        ledger=Ledger(tmp_path / "ledger.jsonl"),
        config=SimpleNamespace(method="hull"),
        data_state="state",
    )
    model = {"groups": np.arange(2)}
    with refuses("other-start", "once its sum has left", error=ConfigError):
        start.check_model(client, model)
    client.files.notes.write(start.SUMMED, [0])
    for number in range(start.MODELS_PER_SUM):
        start.check_model(client, {"groups": np.arange(number)})
    start.check_model(client, model)  # again, as after the run was resumed
    with refuses("many-answers", "10 models of hull", error=ConfigError):
        start.check_model(client, {"groups": np.arange(99)})


@pytest.mark.long
@pytest.mark.parametrize(("method", "task"), EVERY)
def test_the_seeded_start_of_every_method_is_known(method, task, tmp_path):
    run(tmp_path, nodes=sharing_nodes(tmp_path), method=method, **QUICK[task] | {"num_rounds": 1})
