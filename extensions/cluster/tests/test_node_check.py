"""What a node is told before its SuperNode starts: what is there, or what will not do."""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from flwr.common.config import parse_config_args
from graph_fixtures import write_tu, write_user_graph
from image_fixtures import write_classes

from curvfed.client_app.node import Node
from curvfed.client_app.node.policy import Policy
from curvfed.deployments.run_results import toml_pairs
from curvfed.extensions.cluster.commands import ClusterError
from curvfed.extensions.cluster.commands.checks import START, node_checks, run_checks
from curvfed.extensions.cluster.commands.folder import NodeFolder
from curvfed.extensions.cluster.commands.node_config import check_data, read_config

OF_A_CONFIGURATION = ("policy", "keys", "device", "state", "roster", "data")
"""The checks that a node's configuration decides."""


@pytest.fixture(autouse=True)
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine's disk with data of every kind, where the node's commands are typed."""
    folder = tmp_path / "my data"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(folder)
    write_user_graph(folder / "graph.pt")
    write_tu(folder)
    write_classes(folder / "scans", {"cat": 6, "dog": 5})
    points = {"x_train": np.full((5, 2), 0.1), "y_train": np.arange(5) % 2}
    np.savez(folder / "points.npz", **points)
    np.savez(folder / "far.npz", **points | {"x_train": np.full((5, 2), 1.5)})
    (folder / "cells.csv").write_text("x,y,batch,kind\n0.1,0.2,7,a\n")
    (folder / "notes.txt").write_text("nothing of the kind")
    return folder


def check_node(text: str, policy: Path | None = None) -> str:
    """The configuration for Flower, after its checks."""
    config = read_config(text, policy)
    checks = node_checks(NodeFolder(Path.cwd()), config, "localhost:1")
    run_checks([check for check in checks if check.name in OF_A_CONFIGURATION], START)
    return toml_pairs(config)


def checked(text: str) -> dict:
    """What Flower reads of what it is given."""
    return parse_config_args([check_node(text)])


def refused(text: str) -> str:
    with pytest.raises(ClusterError) as error:
        check_node(text)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("graph.pt", "a graph of 60 nodes and 84 edges, 8 features, 2 classes"),
        ("tu/MUTAG/raw", "24 graphs of 133 nodes and 127 edges, 9 features, 3 classes"),
        ("scans", "11 images of 1x8x8 (channels x height x width), 2 classes"),
        ("points.npz", "5 points in the disc, 2 classes"),
    ],
)
def test_data_of_every_kind_are_loaded_and_reported(name, description, node, capsys, monkeypatch):
    """The checks are of another user: they leave no state, and tell nothing of single examples."""
    config = checked(f'partition-id=3 data-path="{name}" state-path="kept"')
    assert config["data-path"] == str(node / name)
    out = capsys.readouterr().out
    assert re.search(r"keys +partition-id 3\n", out)
    assert f"{node / name}: {description}\n" in out
    assert "cat" not in out
    assert ".png" not in out
    assert (node / "kept").stat().st_mode & 0o777 == 0o700
    assert not list((node / "kept").iterdir())
    state = node / "state"
    own = Node(partition=0, data_path=node / name, state_path=state, rules=Policy())
    assert description in check_data(own)
    assert not state.exists()
    # As root everything may be read, so the system's answer is made up.
    monkeypatch.setattr(os, "access", lambda path, mode: path != node / name)
    assert f"may not read {node / name}" in refused(f'partition-id=0 data-path="{name}"')


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("far.npz", "5 of 5 points lie on or outside the boundary"),
        ("cells.csv", r'none is named "label" \(points.label-key\)'),
    ],
)
def test_data_that_wait_for_the_settings_of_a_run_are_not_refused(name, reason, capsys):
    checked(f'partition-id=0 data-path="{name}"')
    assert re.search(
        f"data         readable, but not by the defaults of a run: .*{reason}",
        capsys.readouterr().out,
    )


def test_data_that_the_nodes_own_policy_reads_wrongly_are_refused(node, capsys):
    """No run can read them: one that asks for another column is refused."""
    text = f'partition-id=0 data-path="cells.csv" policy="{node / "policy.toml"}"'
    (node / "policy.toml").write_text('[data]\nlabel-key = "type"\n')
    assert re.search(r'none is named "type" \(points.label-key\)', refused(text))
    (node / "policy.toml").write_text('[data]\nlabel-key = "kind"\n')
    checked(text)
    out = capsys.readouterr().out
    assert '[data] label-key = "kind"\n' in out
    assert "1 point in the disc" in out


def test_a_method_that_the_policy_misspells_is_named(node, capsys):
    (node / "policy.toml").write_text('[runs]\nmethods = ["hull", "fedavgg"]\n')
    checked(f'partition-id=0 data-path="graph.pt" policy="{node / "policy.toml"}"')
    assert re.search(
        r'note +policy .*\[runs\] methods: method = "fedavgg" is not known; did you mean "fedavg"',
        capsys.readouterr().out,
    )


def test_a_share_of_a_public_data_set(tmp_path, capsys):
    state = str(tmp_path / "home/curvfed/personal")
    expected = {"partition-id": 1, "num-partitions": 3, "state-path": state}
    assert checked("partition-id=1 num-partitions=3") == expected
    assert "share 2 of 3 of the public data set" in capsys.readouterr().out
    checked(f'{PUBLIC} device="cpu"')
    assert re.search(r"ok +device +cpu, [\d.]+ .iB of memory free", capsys.readouterr().out)


def test_every_value_arrives_as_it_was(node):
    shutil.copy(node / "graph.pt", node / "it's ä=b\\c.pt")
    text = (
        'partition-id=0 data-path="it\'s ä=b\\\\c.pt" share-statistics=false hull-max-share=0.3'
        ' other.key="x y"'
    )
    config = checked(text)
    expected = parse_config_args([text]) | {
        "data-path": str(node / "it's ä=b\\c.pt"),
        "state-path": config["state-path"],
    }
    assert config == expected


READ_WRONG = {
    "partition-id = 0 num-partitions=2": "leave 'partition-id' out",
    "partition-id=0 num-partitions=2 secure-sum =true": "leave 'secure-sum' out",
    "partition-id=0 num-partitions= 2 num-partitions=1": "leave 'num-partitions=' out",
    "partition-id=0 data-path=/my data/graph.pt": "cannot read it",
    'partition-id=0 data-path="graph.pt': "cannot read it",
    "partition-id=0 partition-id=1 num-partitions=2": "cannot read it",
    "partition-id=0 num-partitions=[2]": "cannot read it",
    "partition-id=0 data-path=/x.toml": "ends in .toml",
}


@pytest.mark.parametrize("text", READ_WRONG)
def test_text_that_flower_reads_otherwise_than_it_was_meant(text):
    message = refused(text)
    assert READ_WRONG[text] in message
    assert "allowed are KEY=VALUE pairs" in message


PUBLIC = "partition-id=0 num-partitions=1"
WRONG = {
    "": "there is no partition-id",
    'partition-id="1" num-partitions=3': "partition-id is '1'",
    "partition-id=3 num-partitions=3": "num-partitions is 3",
    "partition-id=0 data-path=7": "data-path is 7",
    "partition-id=0": "neither data-path",
    'partition-id=0 data-pth="graph.pt"': 'did you mean "data-path"?',
    f"{PUBLIC} hull-max-share=30": "allowed is a share in [0, 1]",
    f'{PUBLIC} device="gpu"': 'device = "gpu": allowed is auto',
    'partition-id=0 data-path="notes.txt"': "notes.txt cannot be read",
    f'{PUBLIC} state-path="notes.txt/x"': "notes.txt/x: Not a directory",
    f'{PUBLIC} state-path="/proc/x"': "no file can be written in /proc/x",
    f'{PUBLIC} signing-key="x.pem"': "only signing-key of signing-key and roster",
    f'{PUBLIC} roster="keys" signing-key="x.pem"': "signing-key in this node's",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_will_not_do(text):
    assert WRONG[text] in refused(text)


def key_pair(private: Path, public: Path) -> None:
    key = Ed25519PrivateKey.generate()
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.parent.mkdir(exist_ok=True)
    public.write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )


def test_keys_of_secure_sums(node, capsys):
    for number in range(3):
        key_pair(node / f"{number}.key", node / "roster" / f"{number}.pem")
    config = checked('partition-id=1 num-partitions=3 signing-key="1.key" roster="roster"')
    assert config["signing-key"] == str(node / "1.key")
    assert config["roster"] == str(node / "roster")
    out = capsys.readouterr().out
    assert "roster       3 nodes in the roster\n" in out
    assert "PRIVATE" not in out
    keys = 'signing-key="1.key" roster="roster"'
    assert "2.pem in" in refused(f"partition-id=2 num-partitions=3 {keys}")
    shutil.copy(node / "roster" / "2.pem", node / "roster" / "02.pem")
    assert "02.pem and 2.pem are keys of one" in refused(f"partition-id=1 num-partitions=3 {keys}")
    (node / "roster" / "02.pem").unlink()
    (node / "roster" / "1.pem").unlink()
    assert "1.pem in" in refused(f"partition-id=1 num-partitions=3 {keys}")
    (node / "roster" / "0.pem").write_text("no key")
    assert "not a public Ed25519 key" in refused(f"partition-id=1 num-partitions=3 {keys}")


def test_the_policy_of_the_nodes_folder_is_passed_on_and_shown(node, capsys):
    policy = node / "policy.toml"
    config = parse_config_args([check_node('partition-id=0 data-path="graph.pt"', policy)])
    assert "policy" not in config  # there is none
    policy.write_text("# nothing\n")
    config = parse_config_args([check_node('partition-id=0 data-path="graph.pt"', policy)])
    assert config["policy"] == str(policy)
    assert f"policy       {policy}: the defaults\n" in capsys.readouterr().out
    policy.write_text(
        f'[data]\npath = "{node / "cells.csv"}"\nlabel-key = "kind"\n[sums]\ncontributors = 5\n'
    )
    assert "data-path" not in checked(f'partition-id=0 policy="{policy}"')
    out = capsys.readouterr().out
    assert '[data] label-key = "kind"; [sums] contributors = 5\n' in out
    assert "cells.csv: 1 point in the disc, 1 class\n" in out
    message = refused(f'partition-id=0 data-path="graph.pt" policy="{policy}"')
    assert "and path in [data] of its policy.toml differ" in message
    policy.write_text("[sums]\n\ncontributors = 1\n")
    message = refused(f'partition-id=0 data-path="graph.pt" policy="{policy}"')
    assert f"{policy}, line 3: [sums] contributors = 1; allowed is" in message
    policy.unlink()
    assert "No such file" in refused(f'partition-id=0 data-path="graph.pt" policy="{policy}"')
