"""Ten thousand clients in one process stay below two gigabytes, the last evaluation of all of them included."""

import json
import os
import subprocess
import sys

MOST_BYTES = 2 * 10**9

PROGRAM = """
import resource, sys
from curvfed.deployments.simulate import main
status = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
sys.exit(status)
"""


def test_ten_thousand_clients_and_their_last_evaluation(tmp_path):
    pairs = ["num-supernodes=10000", "fraction-train=.01", "num-rounds=2", f"results-dir={tmp_path}", "run-name=run"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *pairs],
        env=os.environ | {"HOME": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["status"], summary["metrics"]["clients_left_out"]) == ("completed", 0)
    assert int(done.stdout.split()[-1]) <= MOST_BYTES
