"""Whether the graphs of public data sets are curved, and differently, client by client.

    python -m studies.curvatures --data FOLDER

The summaries of `curvfed curvature` with ten clients go to `docs/measured/curvatures`.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from curvfed.tasks.stored_files import write_atomically

DATASETS = ("cora", "citeseer", "minesweeper", "trees")
STORED = Path(__file__).parents[1] / "docs" / "measured" / "curvatures"


def main() -> int:
    """Measure each data set; 1 if one could not be measured, else 0."""
    parser = argparse.ArgumentParser(prog="python -m studies.curvatures")
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data sets")
    options = parser.parse_args()
    STORED.mkdir(exist_ok=True)
    status = 0
    for name in DATASETS:
        words = [f"dataset={name}", f"data-dir={options.data}", "num-supernodes=10"]
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "curvfed", "curvature", *words, "--to", folder]
            done = subprocess.run(command, check=False)
            if done.returncode:
                status = 1
                continue
            content = (Path(folder) / "curvature.json").read_bytes()
        write_atomically(STORED / f"{name}.json", content)
    return status


if __name__ == "__main__":
    sys.exit(main())
