"""What a run imports, and how many files know the whole configuration: both grow unnoticed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = ("server_app", "client_app", "strategies", "geometry", "tasks", "deployments", "curvfed")

RUN = """
import sys, tempfile, curvfed
curvfed.simulate(method={!r}, dataset={!r}, num_supernodes=2, num_rounds=2, results_dir=tempfile.mkdtemp(), quiet=True)
print(*(name for name, module in sys.modules.items() if name.startswith("curvfed") and getattr(module, "__file__", None)))
"""


def imported(home: Path, method: str, dataset: str) -> set[str]:
    """The project's files that a run in a process of its own imports."""
    environment = os.environ | {"HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(method, dataset)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.removeprefix("curvfed.") for name in done.stdout.splitlines()[-1].split()}


@pytest.mark.parametrize(
    ("method", "dataset", "most", "unused"),
    [
        (
            "fedavg",
            "trees",
            134,
            r"tasks\.(images|points)|tasks\.registry|.*secure|.*hull|.*image|.*global_test",
        ),
        (
            "fedavg",
            "digits",
            150,
            r"tasks\.points|.*secure|.*hull|strategies\.methods\.(hyper|sphere)fed",
        ),
    ],
)
def test_a_run_imports_what_it_runs(tmp_path, method, dataset, most, unused):
    found = imported(tmp_path, method, dataset)
    assert {name for name in found if name.startswith("strategies.methods.")} == {
        f"strategies.methods.{method}"
    }
    assert [name for name in sorted(found) if re.match(unused, name)] == []
    assert len(found) <= most


def test_few_files_know_the_whole_configuration():
    """Other parts take the keys that they use."""
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    known = [
        path.relative_to(ROOT).as_posix()
        for path in files
        if re.search(r"\bRunConfig\b", path.read_text())
    ]
    assert len(known) <= 25, sorted(known)
