"""What a simulation of many clients takes: it prints seconds, bytes, the most memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

PROGRAM = """
import resource, sys
from curvfed.deployments.commands.command import main
status = main(["simulate", *sys.argv[1:]])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
sys.exit(status)
"""


def simulated(folder: Path, *pairs: str) -> tuple[dict, int]:
    """The summary of a run in a process of its own, and the most bytes that this process used."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *pairs, f"results-dir={folder}", "run-name=run"],
        env=os.environ | {"HOME": str(folder), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    summary, most = (
        json.loads((folder / "run" / "summary.json").read_text()),
        int(done.stdout.split()[-1]),
    )
    assert summary["status"] == "completed"
    print(
        f"{' '.join(pairs)}: {most / 1e9:.2f} GB, {summary['seconds']:.0f} s, {summary['bytes_up']}"
        " bytes up"
    )
    return summary, most


def test_ten_thousand_clients_and_their_last_evaluation(tmp_path):
    summary, most = simulated(
        tmp_path, "num-supernodes=10000", "fraction-train=0.01", "num-rounds=2"
    )
    assert summary["metrics"]["clients_left_out"] == 0
    assert most <= 2 * 10**9


def test_hulls_of_two_hundred_clients_with_sixty_thousand_points(tmp_path):
    draw = np.random.default_rng(0)
    labels = draw.integers(10, size=60_000)
    angles = 2 * np.pi * labels / 10
    points = 0.6 * np.stack([np.cos(angles), np.sin(angles)], 1) + 0.07 * draw.standard_normal(
        (60_000, 2)
    )
    points /= np.maximum(1, np.linalg.norm(points, axis=1, keepdims=True) / 0.95)
    rows = [
        f"{x:.6f},{y:.6f},class-{label}\n" for (x, y), label in zip(points, labels, strict=True)
    ]
    (tmp_path / "cells.csv").write_text("".join(["x,y,label\n", *rows]))
    summary, most = simulated(
        tmp_path, "method=hull", f"dataset={tmp_path / 'cells.csv'}", "num-supernodes=200"
    )
    print(f"accuracy {summary['global_accuracy']:.3f}")
    assert summary["global_accuracy"] > 0.9
    assert most <= 1.5 * 10**9
