"""A graph of a million nodes, trained on by clusters: the memory that it takes beyond its data."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

NODES, EDGES, FEATURES, CLASSES = 1_000_000, 10, 16, 8
NEAR, FAR, BLOCK = 500, 0.2, 1_000
BAR = 2e9

MEASURED = """
import re, sys
from pathlib import Path
import torch
if sys.argv[1] == "load":
    data, status = torch.load(sys.argv[2]), 0
else:
    from curvfed.deployments.commands.command import main
    status = main(sys.argv[1:])
# Not getrusage's: that begins with what the process had before exec, which is its parent's.
found = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print("PEAK", int(found[1]) * 1024, file=sys.stderr)
sys.exit(status)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """A ring of nodes in 10 edges each, a fifth to anywhere; classes by blocks and chance."""
    draw = torch.Generator().manual_seed(0)
    source = torch.arange(NODES).repeat_interleave(EDGES // 2)
    near = (source + torch.randint(1, NEAR, source.shape, generator=draw)) % NODES
    target = torch.where(
        torch.rand(source.shape, generator=draw) < FAR,
        torch.randint(NODES, source.shape, generator=draw),
        near,
    )
    y = torch.arange(NODES) // BLOCK % CLASSES
    y = torch.where(
        torch.rand(NODES, generator=draw) < FAR, torch.randint(CLASSES, (NODES,), generator=draw), y
    )
    x = torch.randn(NODES, FEATURES, generator=draw) + torch.eye(CLASSES, FEATURES)[y]
    path = tmp_path_factory.mktemp("large") / "large.pt"
    edge_index = torch.cat([torch.stack([source, target]), torch.stack([target, source])], dim=1)
    torch.save({"x": x, "edge_index": edge_index, "y": y}, path)
    return path


def peak(home: Path, *words: str) -> float:
    """The most memory of a process of its own, in bytes."""
    environment = os.environ | {"HOME": str(home), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, *words], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return float(done.stderr.rpartition("PEAK ")[2])


@pytest.mark.long
@pytest.mark.parametrize("method", ["fedavg", "flatland"])
def test_a_million_nodes_take_two_gigabytes_beyond_their_data(method, large, tmp_path, capsys):
    """From the file, prepared and cut into clusters, to the report; then predicted."""
    data = peak(tmp_path, "load", str(large))
    pairs = [
        f"method={method}",
        f"dataset={large}",
        "num-supernodes=1",
        "num-rounds=2",
        "batch-size=20000",
    ]
    beyond = peak(tmp_path, "simulate", *pairs, f"results-dir={tmp_path}", "run-name=run") - data
    client = ["--client", "0"] if method == "flatland" else []
    predicting = [
        "predict",
        str(tmp_path / "run"),
        str(large),
        *client,
        "--out",
        str(tmp_path / "out.csv"),
    ]
    predicted = peak(tmp_path, *predicting) - data
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    with capsys.disabled():
        print(
            f"\n{method}: {beyond / 1e9:.2f} GB beyond the {data / 1e9:.2f} GB of a process with"
            f" torch and the data, {predicted / 1e9:.2f} GB to predict,"
            f" {summary['seconds'] / 2:.0f} s a round, accuracy"
            f" {summary['personal_accuracy_mean']:.3f}"
        )
    assert beyond <= BAR
    assert predicted <= BAR
    assert summary["personal_accuracy_mean"] > 0.5
    with (tmp_path / "out.csv").open() as file:
        assert sum(1 for _ in file) == NODES + 1
