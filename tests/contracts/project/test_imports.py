"""A run imports its own method and task, and no other."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

RUN = """
import sys, tempfile, curvfed
curvfed.simulate(method={!r}, dataset={!r}, num_supernodes=2, num_rounds=1, results_dir=tempfile.mkdtemp(), quiet=True, report=False)
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
    ("method", "dataset", "unused"),
    [
        (
            "fedavg",
            "trees",
            r"tasks\.(images|points)|tasks\.registry|.*secure|.*hull|.*image|.*global_test",
        ),
        (
            "fedavg",
            "digits",
            r"tasks\.points|.*secure|.*hull|strategies\.methods\.(hyper|sphere)fed",
        ),
    ],
)
def test_a_run_imports_what_it_runs(tmp_path, method, dataset, unused):
    found = imported(tmp_path, method, dataset)
    assert {name for name in found if name.startswith("strategies.methods.")} == {
        f"strategies.methods.{method}"
    }
    assert [name for name in sorted(found) if re.match(unused, name)] == []
