"""Nodes that must not take part, and what is said of them."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from local_cluster import CONNECTED, SERVER
from many_hosts import GUEST, LONG, NODES, STRANGER, ended

from curvfed.deployments.processes import free_ports
from curvfed.extensions.cluster.commands.certificates import make_authority
from curvfed.extensions.cluster.commands.flower import flower_supernode
from curvfed.extensions.cluster.commands.folder import NodeFolder

QUICK = ("method=fedavg", "dataset=trees", "embedding-dim=8", "num-rounds=1")
SHARE = "partition-id=3 num-partitions=4"


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = np.random.default_rng(0)
    arrays = {
        f"x_{part}": draw.uniform(-0.5, 0.5, (40, 2)).astype(np.float32)
        for part in ("train", "test")
    }
    arrays |= {f"y_{part}": np.arange(40) % 2 for part in ("train", "test")}
    path = tmp_path_factory.mktemp("points") / "points.npz"
    np.savez(path, **arrays)
    return path


def test_a_node_with_data_of_another_task_is_refused_by_name_and_the_others_run(hosts, points):
    with hosts.guest(f'partition-id=3 data-path="{points}"'):
        code, output = ended(hosts.submit(*QUICK, "min-replies=2", "run-name=other-task"))
    assert code == 0, output
    (name,) = hosts.result("other-task").described["refused"]
    assert name == "partition-id 3"
    assert "its data are points" in hosts.result("other-task").described["refused"][name]
    summary = hosts.summary("other-task")
    assert (summary["num_clients"], summary["metrics"]["nodes_refused"]) == (3, 1)
    assert "refused partition-id 3: its data are points" in output
    (row,) = hosts.trained("other-task")
    assert (row["replies"], row["dropped"]) == ("3", "0")


def test_two_nodes_with_one_partition_id_end_the_run_and_both_are_named(hosts):
    with hosts.guest("partition-id=0 num-partitions=3"):
        names = hosts.names()
        code, output = ended(hosts.submit(*QUICK, "run-name=doubled"))
    assert code == 1, output
    error = hosts.summary("doubled")["error"]
    assert "both have partition-id 0" in error
    assert error in " ".join(output.split())
    assert names[NODES[0]] in error
    assert names[GUEST] in error


def test_a_key_that_is_not_registered_is_refused(hosts):
    hosts.call(SERVER, "add", STRANGER)
    hosts.node_configs[STRANGER] = SHARE
    said = hosts.connect(STRANGER)
    assert "Exit Code: 305" in said
    assert "Failed to initialize the connection to the SuperLink" in said


def test_a_superlink_that_the_authority_does_not_vouch_for(hosts, tmp_path):
    """`curvfed cluster` sees it before Flower starts; Flower alone does not talk to it either."""
    node = NodeFolder(tmp_path / "node")
    shutil.copytree(hosts.files.node(GUEST).path, node.path)
    node.authority.unlink()
    make_authority(node.authority, tmp_path / "ca.key")
    words = hosts.command(GUEST, "supernode", str(node.path), "--node-config", SHARE)
    refused = subprocess.run(
        words, env=hosts.environment, capture_output=True, text=True, timeout=LONG
    )
    assert refused.returncode == 1
    assert "is not the one that" in refused.stderr
    assert "bring ca.crt from the server again" in refused.stderr
    plain = flower_supernode(node, node.superlink, SHARE, free_ports(1)[0])
    log = tmp_path / "plain.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*hosts.prefix(GUEST), *plain.words],
            env=plain.environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        assert process.wait(LONG) == 1
    finally:
        process.kill()
    assert "CERTIFICATE_VERIFY_FAILED" in log.read_text()
    assert CONNECTED not in log.read_text()
