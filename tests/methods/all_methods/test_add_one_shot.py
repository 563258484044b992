"""The one-shot method of the example package, installed beside curvfed."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hull_nodes import parts_of
from plugin_package import package, python
from safetensors.numpy import load_file

MODULE = Path(__file__).parents[3] / "examples" / "plugin" / "curvfed_fedexp" / "mean.py"

PROGRAM = """
import sys
from curvfed.deployments.inprocess import simulate
keys = {"method": "mean", "dataset": "uniform", "points.num": 300, "results-dir": sys.argv[1]}
simulate(keys | {"run-name": "run"}, 3)
"""


@pytest.mark.long
def test_the_server_learns_the_mean_of_all_points(tmp_path):
    module = MODULE.read_text(encoding="utf-8")
    points = {"curvfed.methods": {"mean": "curvfed_mean:MEAN"}}
    package(tmp_path / "site", "curvfed_mean", module, points)
    python(PROGRAM, tmp_path / "home", tmp_path / "site", words=(str(tmp_path),))
    mean = load_file(tmp_path / "run" / "model.safetensors")["mean"]
    all_points = np.concatenate([points for points, _ in parts_of(3, points__num=300)])
    np.testing.assert_allclose(mean, all_points.mean(axis=0), atol=1e-9)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text(encoding="utf-8"))
    with (tmp_path / "run" / "rounds.csv").open(encoding="utf-8") as file:
        sent = [float(row["bytes_up"]) for row in csv.DictReader(file) if row["bytes_up"]]
    assert summary["bytes_up"] == sum(sent) > 0
