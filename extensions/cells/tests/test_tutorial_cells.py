"""Every command of docs/tutorial-cells.md, in order, on the reference and three sites it makes."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cell_files import SITES
from page_blocks import nothing_left
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import curvfed
from curvfed.tasks.points import raw_points
from curvfed.tasks.points.dataset import PointDataset
from curvfed.tasks.points.point_spec import PointSpec

ROOT = Path(__file__).parents[3]
RUNS = ("cells", "moments", "rounds")


@pytest.mark.long
def test_every_command_of_the_tutorial(tmp_path):
    blocks = re.findall(
        r"```(sh|python)\n(.*?)```", (ROOT / "docs/tutorial-cells.md").read_text(), re.DOTALL
    )
    assert len(blocks) == 9
    place = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "PYTHONWARNINGS": "ignore",
    }
    log = ""
    # Who did another tutorial before has a cluster in the default folder.
    other_cluster = ["curvfed", "cluster", "init", "--host", "localhost", "--node", "north"]
    subprocess.run(other_cluster, cwd=tmp_path, env=place, capture_output=True, check=True)
    with nothing_left(tmp_path):
        for kind, code in blocks:
            command = [sys.executable, "-c", code] if kind == "python" else ["bash", "-euc", code]
            done = subprocess.run(command, cwd=tmp_path, env=place, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
            log += done.stderr
    summary = json.loads((tmp_path / "results/cells/summary.json").read_text())
    assert summary["status"] == "completed"
    nodes = json.loads((tmp_path / "home/curvfed/results/on-nodes/summary.json").read_text())
    assert nodes["status"] == "completed"
    assert (nodes["num_clients"], nodes["metrics"]["nodes_refused"]) == (3, 0)
    with (tmp_path / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 150
    accuracy, of_moments = map(float, re.findall(r"accuracy on .*: ([\d.]+)", log))

    import anndata

    sites = [anndata.read_h5ad(tmp_path / f"{name}.embedded.h5ad") for name in SITES]
    assert all((np.linalg.norm(site.obsm["X_poincare"], axis=1) < 1).all() for site in sites)
    assert accuracy > 0.5  # the most frequent type has a third

    points = []
    labels = []
    is_test = []
    for site in sites:
        raw = raw_points(
            "a site",
            site.obsm["X_poincare"],
            site.obs["bulk_labels"].to_numpy(dtype=str),
            ("x", "y"),
        )
        mine = PointDataset(
            PointSpec("own", tmp_path, label_key="bulk_labels", test_size=0.15)
        ).own_data(raw)
        points.append(mine.points)
        labels.append(np.array(mine.class_names)[mine.labels])
        is_test.append(mine.test)
    length = np.linalg.norm(np.concatenate(points), axis=1, keepdims=True)
    tangents = np.concatenate(points) * np.arctanh(length) / length
    labels = np.concatenate(labels)
    is_test = np.concatenate(is_test)
    pooled = LinearDiscriminantAnalysis(solver="lsqr").fit(tangents[~is_test], labels[~is_test])
    last = is_test & (np.arange(len(labels)) >= 300)  # the third site's, on which it did not train
    expected = (pooled.predict(tangents[last]) == labels[last]).mean()
    print(
        f"on the third site: hull {accuracy}, discriminant {of_moments}, LDA of all cells in one"
        f" place {expected:.4f}"
    )
    scores = {
        name: json.loads((tmp_path / "results" / name / "summary.json").read_text())
        for name in RUNS
    }
    pooled_scores = {name: summary["personal_accuracy_mean"] for name, summary in scores.items()}
    print("on all sites' test cells:", pooled_scores)
    shared = [str(tmp_path / f"{name}.shared.h5ad") for name in SITES]
    keys = {"points": {"label_key": "bulk_labels"}, "discriminant": {"kind": "lda"}}
    trained = curvfed.simulate(
        "discriminant", data=shared, results_dir=tmp_path / "results", quiet=True, **keys
    )
    rows = trained.predict(shared[2])
    accuracy_shared = (
        rows["class"].to_numpy() == sites[2].obs["bulk_labels"].to_numpy(dtype=str)
    ).mean()
    print(f"by the shared components, LDA: {accuracy_shared:.4f} of the third site's cells")
    assert accuracy_shared > 0.5
    assert of_moments == pytest.approx(expected, abs=5e-5)
    assert min(pooled_scores.values()) > max(pooled_scores.values()) - 0.1
