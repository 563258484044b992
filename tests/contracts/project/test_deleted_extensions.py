"""An extension can be deleted: without its folder the app starts, trains, and says what it lacks."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from curvfed.deployments.package_files import ROOMS
from curvfed.strategies.methods import files
from curvfed.tasks.plugins import TESTS

ROOT = Path(__file__).parents[3]
EXTENSIONS = sorted(path.parent.name for path in ROOT.glob("extensions/*/entry_points.toml"))

CODE = """
import json, sys
import curvfed
from curvfed.strategies.methods import METHODS, files
from curvfed.strategies.errors import ConfigError

folder = sys.argv[1]
run = curvfed.simulate("flatland", num_supernodes=2, num_rounds=1, results_dir=folder, quiet=True)
refusals = {}
for method in sys.argv[2:]:
    try:
        curvfed.simulate(method, num_supernodes=2, num_rounds=1, results_dir=folder, quiet=True)
    except ConfigError as error:
        refusals[method] = str(error)
print(json.dumps([list(files()), list(METHODS), run.summary["status"], refusals]))
"""


@pytest.mark.parametrize("deleted", [*([name] for name in EXTENSIONS), EXTENSIONS], ids="+".join)
def test_the_rest_runs(deleted, tmp_path):
    copy = tmp_path / "app"
    for name in ("curvfed", "deployments", *ROOMS):
        ignored = shutil.ignore_patterns("__pycache__", TESTS)
        shutil.copytree(ROOT / name, copy / name, ignore=ignored, dirs_exist_ok=True)
    shutil.copy(ROOT / "pyproject.toml", copy)
    for name in deleted:
        shutil.rmtree(copy / "extensions" / name)
    if deleted == EXTENSIONS:
        shutil.rmtree(copy / "extensions")
    lost = {
        name: module
        for name, module in files().items()
        if any(module.startswith(f"curvfed.extensions.{gone}.") for gone in deleted)
    }
    a_method = min(lost).replace("_", "-")
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "results"), a_method],
        env=os.environ | {"PYTHONPATH": str(copy)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    left, methods, status, refusals = json.loads(done.stdout.splitlines()[-1])
    assert left == [name for name in files() if name not in lost]
    assert status == "completed"
    assert a_method not in methods
    assert a_method in refusals[a_method]
