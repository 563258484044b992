"""The README's blocks as one script, `make` and `pip install` too, in a fresh clone."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECONDS = 1500
SUITE = "make test "
"""How the line begins that is left out: it would run this suite's other half within this test."""


def script() -> str:
    """All blocks in order; what `make` installs is first on the path."""
    blocks = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(blocks) >= 4
    lines = [line for block in blocks for line in block.splitlines() if not line.startswith(SUITE)]
    assert any(line.startswith("make run") for line in lines)
    assert any(line.startswith("pip install .") for line in lines)
    return "\n".join(["set -euxo pipefail", 'export PATH="$PWD/.venv/bin:$PATH"', *lines, ""])


def test_the_blocks_of_the_readme_are_a_script_that_passes(tmp_path):
    clone, home = tmp_path / "clone", tmp_path / "home"
    home.mkdir()
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    cache = subprocess.run(
        [Path(sys.executable).parent / "uv", "cache", "dir"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    leave = ("PYTHONPATH", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in leave}
    # Packages of a gigabyte are not fetched anew where they are in the cache.
    env = kept | {"HOME": str(home), "UV_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-c", script()],
        cwd=clone,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    reports = [*home.glob("curvfed/results/*/report.html")]
    assert len(reports) == 3  # `make run`, in one process, through Flower
    assert (
        subprocess.run(["git", "status", "--porcelain"], cwd=clone, capture_output=True).stdout
        == b""
    )
