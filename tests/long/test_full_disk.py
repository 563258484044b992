"""A disk that is full at thirty moments, at server and node: with room, the same bits."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.long

PROGRAM = """
import json, os, sys
from pathlib import Path
sys.path.insert(0, "tests/support")
from app_runs import run, real_nodes
from graph_fixtures import user_fields
from curvfed.client_app.clients_in_memory import forget_all

small, large, who, moments = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
settings = {"method": "flatland", "num_rounds": 3, "min_replies": 3}
if who == "node":
    nodes = real_nodes(large / "nodes", [user_fields(seed=seed) for seed in range(3)])
    nodes[1] |= {"state-path": str(small / "state")}
    settings |= {"nodes": nodes}
results = small if who == "server" else large

def used():
    return sum(path.stat().st_blocks * 512 for path in small.rglob("*") if path.is_file())

whole = run(results, "whole", **settings)
need = used()
told = {"failed": 0, "equal": 0, "dead": []}
for moment in range(moments):
    forget_all()
    name, ballast = f"run-{moment}", small / "ballast"
    disk = os.statvfs(small)
    room = int(need * moment / moments)
    with ballast.open("wb") as file:
        file.write(bytes(max(0, disk.f_bavail * disk.f_frsize - room)))
    try:
        run(results, name, **settings)
    except Exception as error:
        told["failed"] += 1
    ballast.unlink()
    forget_all()
    try:
        begun = (results / name / "config.toml").exists()
        again = run(results, name, resume=begun, **settings)
        parts = [(one.figures["model"], one.figures["rounds"], one.figures["clients"]) for one in (again, whole)]
        told["equal"] += parts[0] == parts[1]
    except Exception as error:
        told["dead"].append(f"{name}: {error}")
    if who == "server":
        import shutil
        shutil.rmtree(results / name)
told["left"] = [path.name for path in results.glob("*refused*")]
print(json.dumps(told))
"""


@pytest.mark.parametrize("who", ["server", "node"])
def test_a_full_disk_at_thirty_moments(who, tmp_path):
    small, large = tmp_path / "small", tmp_path / "large"
    small.mkdir()
    large.mkdir()
    attempt = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", str(small)]
    if not shutil.which("unshare") or subprocess.run(attempt, check=False).returncode:
        pytest.skip("this machine lets no process make a small disk; root may, on Linux")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    mount = (
        f"mount -t tmpfs -o size=3m none {small} && exec {sys.executable} {program} {small} {large}"
        f" {who} 30"
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"HOME": str(large), "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    notes = json.loads(done.stdout.splitlines()[-1])
    assert (notes["dead"], notes["left"], notes["equal"]) == ([], [], 30)
    assert notes["failed"] >= 20
