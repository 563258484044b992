"""Every command of docs/tutorial-cells.md, in its order, on a reference and three sites of pbmc68k_reduced."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from cell_files import SITES, write_parts

ROOT = Path(__file__).parents[2]


def test_every_command_of_the_tutorial(tmp_path):
    write_parts(tmp_path)
    blocks = re.findall(r"```(sh|python)\n(.*?)```", (ROOT / "docs/tutorial-cells.md").read_text(), re.DOTALL)
    assert len(blocks) == 4
    place = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "PYTHONWARNINGS": "ignore",
    }
    told = ""
    for kind, code in blocks:
        command = [sys.executable, "-c", code] if kind == "python" else ["bash", "-euc", code]
        done = subprocess.run(command, cwd=tmp_path, env=place, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        told += done.stderr
    summary = json.loads((tmp_path / "results/cells/summary.json").read_text())
    assert summary["status"] == "completed"
    with (tmp_path / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 150
    accuracy = float(re.search(r"accuracy on .*: ([\d.]+)", told)[1])
    print(f"hull on three sites: {accuracy}", told, sep="\n")

    import anndata

    sites = [anndata.read_h5ad(tmp_path / f"{name}.embedded.h5ad") for name in SITES]
    assert all((np.linalg.norm(site.obsm["X_poincare"], axis=1) < 1).all() for site in sites)
    assert accuracy > 0.5  # the most frequent type has a third
