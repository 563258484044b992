"""Servers that lie to three real nodes with keys and a roster, over TLS."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from app_runs import real_nodes
from graph_fixtures import user_fields
from local_cluster import LocalCluster, cluster, shares, signed
from safetensors.numpy import load_file

from curvfed.deployments.package_files import app_folder
from curvfed.deployments.processes import wait_until
from curvfed.deployments.run_results import toml_pairs
from curvfed.extensions.cluster.commands.flower_commands import flwr

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning"),
]

SETTINGS: dict[str, Any] = {
    "method": "fedavg",
    "dataset": "trees",
    "embedding-dim": 8,
    "num-rounds": 1,
    "secure-sum": True,
}

GULLIBLE = {
    "strategies/secure_sum/messages.py": """
Basis.differences = lambda basis, other: []
""",
    "server_app/secure/masked_cohort.py": """
check_mean = lambda *arguments: None
""",
}
"""Lines at the ends of the server's files: its half accepts whatever vectors come."""

DEAD = GULLIBLE | {
    "strategies/wire/exchange.py": """
import dataclasses
import itertools

from curvfed.strategies.wire.codec import decode_arrays, encode_arrays
from curvfed.strategies.wire.messages import TRAIN

honest_request = encode_request
numbers = itertools.count()


def encode_request(request):
    if request.header.phase == TRAIN and request.arrays and next(numbers) > 0:
        dead = {name: 0 * array for name, array in decode_arrays(request.arrays).items()}
        request = dataclasses.replace(request, arrays=encode_arrays(dead))
    return honest_request(request)
"""
}
"""All members but one are sent a dead network."""

OLD_STATE = GULLIBLE | {
    "strategies/wire/exchange.py": """
import dataclasses
import itertools

from curvfed.strategies.wire.messages import TRAIN

honest_request = encode_request
numbers = itertools.count()


def encode_request(request):
    is_second = request.header.phase == TRAIN and request.header.round == 2
    if is_second and request.arrays and next(numbers) > 0:
        request = dataclasses.replace(request, stamp=0)
    return honest_request(request)
"""
}
"""All members but one are asked for an old personal state."""


@pytest.fixture
def nodes(tmp_path):
    configs = [
        f'{share} state-path="{tmp_path / "state" / str(number)}"'
        for number, share in enumerate(shares(3))
    ]
    with cluster(tmp_path / "files", signed(tmp_path / "keys", configs)) as nodes:
        yield nodes


def run_lying(
    nodes: LocalCluster, name: str, lies: dict[str, str], **settings: Any
) -> dict[str, Any]:
    """Run the app with a lying server to its end; the summary."""
    place = {"min-replies": 3, "run-name": name, "results-dir": str(nodes.results)}
    config = SETTINGS | place | settings
    with app_folder("fedavg") as app:
        for file, lie in lies.items():
            path: Path = app / "curvfed" / file
            path.write_text(path.read_text() + lie)
        options = ["--run-config", toml_pairs(config), "--format", "json"]
        flwr(nodes.files, "run", app, options=options).ask()
    assert wait_until((nodes.results / name / "summary.json").exists, 300)
    return nodes.summary(name)


def test_a_dead_network_for_all_but_one(nodes):
    """It is no start that nodes know; and where they allow all, the masks do not cancel each other."""
    refused = run_lying(nodes, "start", DEAD)
    assert refused["status"] == "failed"
    assert "this run does not start from the parameter" in refused["error"]
    for name in nodes.node_configs:
        nodes.files.node(name).policy.write_text('[runs]\nstarts = "any"\n')
    run_lying(nodes, "masks", DEAD)
    assert is_noise(nodes, "masks")


def test_an_old_state_for_all_but_one(nodes):
    """In the difference of two such sums was one member's gradient, to 7.9e-9."""
    settings = {"method": "fedper", "num-rounds": 2}
    run_lying(nodes, "states", OLD_STATE, **settings)
    assert is_noise(nodes, "states", **settings)


def is_noise(nodes: LocalCluster, name: str, **settings: Any) -> bool:
    """Whether a lying run left noise in the place of the model of an honest run, or no model."""
    lying = nodes.results / name / "model.safetensors"
    if not lying.exists():
        return True
    pairs = toml_pairs(SETTINGS | settings | {"run-name": f"{name}-honest"}).split()
    code, output = nodes.run(*pairs)
    assert code == 0, output
    honest = nodes.results / f"{name}-honest" / "model.safetensors"
    shown, expected = flat(lying), flat(honest)
    cosine = shown @ expected / np.linalg.norm(shown) / np.linalg.norm(expected)
    return bool(cosine < 0.8)


def flat(path: Path) -> Any:
    arrays = load_file(path)
    return np.concatenate([arrays[name].ravel().astype(float) for name in sorted(arrays)])


@pytest.fixture
def hospitals(tmp_path):
    """Nodes with data of their own."""
    configs = real_nodes(tmp_path / "data", [user_fields(60, seed=seed) for seed in range(3)])
    with cluster(
        tmp_path / "files", signed(tmp_path / "keys", list(map(toml_pairs, configs)))
    ) as all_nodes:
        yield all_nodes


def test_two_runs_of_an_honest_server_are_not_compared(hospitals):
    """By two splits it had one example's gradient, by two weights each node's update."""
    settings = {key: value for key, value in SETTINGS.items() if key != "dataset"}
    first = settings | {"method": "scaffold", "weights": "examples", "run-name": "first"}
    code, output = hospitals.run(*toml_pairs(first).split())
    assert code == 0, output
    for key, value, words in (
        ("weights", "uniform", "configurations"),
        ("train-size", 0.305, "train-size"),
    ):
        second = first | {key: value, "run-name": f"second-{key}"}
        code, output = hospitals.run(*toml_pairs(second).split())
        assert code == 1, output
        assert words in output, output
        assert not (hospitals.results / f"second-{key}" / "model.safetensors").exists()


@pytest.fixture
def laboratories(tmp_path):
    """Nodes with points of their own."""
    configs = []
    for number in range(3):
        drawn = np.random.default_rng(number)
        labels = np.arange(90) % 3
        points = drawn.uniform(-0.2, 0.2, (90, 2)) + (labels[:, None] - 1) * 0.35
        path = tmp_path / f"{number}.npz"
        np.savez(path, data=points, label=labels)
        state = tmp_path / "state" / str(number)
        configs.append(f'partition-id={number} data-path="{path}" state-path="{state}"')
    with cluster(tmp_path / "files", signed(tmp_path / "keys", configs)) as all_nodes:
        yield all_nodes


def test_two_test_sizes_of_an_honest_server_are_not_compared(laboratories):
    """By 646 sums of moments over other splits it had 192 of 376 records exactly."""
    pairs = ("method=discriminant", "dataset=own", "test-size=0.2")
    code, output = laboratories.run(*pairs, "run-name=first")
    assert code == 0, output
    for number, test_size in enumerate((0.21, 0.5)):
        name = f"second-{number}"
        code, output = laboratories.run(*pairs, f"test-size={test_size}", f"run-name={name}")
        assert code == 1, output
        assert f"test-size = {test_size}: this node splits" in output, output
        assert not (laboratories.results / name / "model.safetensors").exists()


def test_another_method_while_a_member_is_away(nodes):
    pairs = toml_pairs(SETTINGS).split()
    code, output = nodes.run(*pairs, "run-name=all")
    assert code == 0, output
    nodes.program("n2").stop()
    code, output = nodes.run(
        *pairs, "method=fedper", "min-replies=2", "run-name=less", "round-timeout=60"
    )
    assert code == 1
    assert not (nodes.results / "less" / "model.safetensors").exists()
    assert "group" in output, output
