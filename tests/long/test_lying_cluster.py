"""Servers that lie to three real nodes with keys and a roster, over TLS."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from local_cluster import LocalCluster, cluster, shares, signed
from safetensors.numpy import load_file

from curvfed.deployments.cluster.folder import flwr
from curvfed.deployments.package_files import app_folder
from curvfed.deployments.processes import wait_until
from curvfed.deployments.run_results import toml_pairs

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

LIES = {
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
""",
    "strategies/secure_sum/messages.py": """
Basis.differences = lambda basis, other: []
""",
    "server_app/secure/masked_cohort.py": """
check_mean = lambda *arguments: None
""",
}
"""Lines at the ends of the server's files: all members but one are sent a dead network, and its own
half of the protocol accepts whatever their vectors come from."""


@pytest.fixture
def nodes(tmp_path):
    configs = [
        f'{share} state-path="{tmp_path / "state" / str(number)}"'
        for number, share in enumerate(shares(3))
    ]
    with cluster(tmp_path / "files", signed(tmp_path / "keys", configs)) as nodes:
        yield nodes


def run_lying(nodes: LocalCluster, name: str) -> dict[str, Any]:
    """Run the app with a lying server to its end; the summary."""
    config = SETTINGS | {"min-replies": 3, "run-name": name, "results-dir": str(nodes.results)}
    with app_folder("fedavg") as app:
        for file, lie in LIES.items():
            path: Path = app / "curvfed" / file
            path.write_text(path.read_text() + lie)
        options = ["--run-config", toml_pairs(config), "--format", "json"]
        flwr(nodes.files, "run", app, options=options).ask()
    assert wait_until((nodes.results / name / "summary.json").exists, 300)
    return nodes.summary(name)


def test_a_dead_network_for_all_but_one(nodes):
    """It is no start that nodes know; and where they allow all, the masks do not cancel each other."""
    refused = run_lying(nodes, "start")
    assert refused["status"] == "failed"
    assert "this run does not start from the parameter" in refused["error"]
    for name in nodes.node_configs:
        nodes.files.node(name).policy.write_text('[runs]\nstarts = "any"\n')
    noise = run_lying(nodes, "masks")
    path = nodes.results / "masks" / "model.safetensors"
    if path.exists():  # uniform numbers in the place of a sum
        assert max(np.abs(array).max() for array in load_file(path).values()) > 1e3
    assert noise["personal_accuracy_mean"] is None or noise["personal_accuracy_mean"] < 0.6


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
